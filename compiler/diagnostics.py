"""Findings on documents and nodes: values that are collected, sorted and shown at the end.

A mistake in a document is never an exception. The check that finds one is marked with `rule`, which gives its findings
their code, and its docstring is the rule; `shared_rule` has one that several functions share. `make codes` collects
both in `codes`, so that `CODES` has every code without importing the checks: mistakes that people wrote are errors,
facts about the world are warnings.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar, cast

from compiler import codes

Severity = Literal["error", "warning", "ignore"]
"""How severe a finding is; a project may have findings of a code ignored, which are counted and not shown."""

Weight = Literal["error", "guard", "removal", "warning", "change", "risk"]
"""The severity of a code, and who may change it.

A project may lower any but an error. A guard is an error that only protects what runs; a removal is one that a person
may accept for one compile. A change is a warning of what else a compile changes, a risk one of `kae diff`.
"""

Check = TypeVar("Check", bound=Callable[..., Any])


class Span(NamedTuple):
    """A position in a file: line and column count from 1; 0 means the file as a whole."""

    file: str
    line: int = 0
    column: int = 0
    text: str = ""
    """The line itself, without its line break, which is shown below the message."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Diagnostic(NamedTuple):
    """One finding: a message, its position, facts as notes, and a fix as hint."""

    span: Span
    message: str
    code: str = ""
    """The rule that it breaks; a check may leave it to its decorator."""
    notes: tuple[str, ...] = ()
    hint: str = ""
    level: Severity | None = None
    """The severity that the project gives the code, in place of its own."""

    @property
    def severity(self) -> Severity:
        """The severity in the project, or that of the code."""
        return self.level or CODES[self.code].severity


Findings = tuple[Diagnostic, ...]


class Code(NamedTuple):
    """A diagnostic code: its weight, and the rule that a finding breaks."""

    weight: str
    rule: str

    @property
    def severity(self) -> Severity:
        """The severity where the project gives no other."""
        return "warning" if self.weight in ("warning", "change", "risk") else "error"

    @property
    def acceptable(self) -> bool:
        """True for what a person may accept: a removal, for one compile, or a risk of a change."""
        return self.weight in ("removal", "risk")

    @property
    def can_be_lowered(self) -> bool:
        """True where a project may make the finding a warning, or have it ignored."""
        return self.weight != "error"


def rule(code: str, weight: Weight) -> Callable[[Check], Check]:
    """Mark the check that makes the findings of a code: the first paragraph of its docstring is the rule.

    The check need not name the code in its findings; one that it names is kept.
    """

    def marked(check: Check) -> Check:
        def coded(*given: Any, **named: Any) -> Any:
            return _coded(check(*given, **named), code)

        return cast("Check", coded)

    return marked


def _coded(found: Any, code: str) -> Any:
    """Return a finding, or the iterator of findings, with a code where none is named."""
    if isinstance(found, Iterator):
        return (_coded(one, code) for one in found)
    if hasattr(found, "finding"):  # One that a person may accept.
        return found._replace(finding=_coded(found.finding, code))
    return found._replace(code=code) if isinstance(found, Diagnostic) and not found.code else found


def shared_rule(code: str, weight: Weight, rule: str) -> None:
    """State the rule of a code whose findings several functions make."""


def merged(findings: Iterable[Diagnostic]) -> Findings:
    """Return each finding once, with the notes of equal findings joined.

    They are in the order of files and lines; what a compile does to the nodes comes behind what may be its cause.
    """
    first: dict[tuple[Span, str, str, str], Diagnostic] = {}
    for diagnostic in findings:
        key = (diagnostic.span, diagnostic.code, diagnostic.message, diagnostic.hint)
        earlier = first.get(key)
        if earlier is None:
            first[key] = diagnostic
        else:
            new = tuple(note for note in diagnostic.notes if note not in earlier.notes)
            first[key] = earlier._replace(notes=earlier.notes + new)
    return _once(tuple(first[key] for key in sorted(first, key=lambda key: (CODES[key[1]].weight in _EFFECTS, key))))


def _once(found: Findings) -> Findings:
    """Return findings without those that judge what no two readers take alike; its own one gets their hint.

    `yes` for a boolean is no boolean, because it is ambiguous: that is one mistake, and the schema knows the way out.
    """
    doubtful = {finding.span for finding in found if finding.code == "ambiguous-scalar"}
    if not doubtful:
        return found
    judged = {each.span: each.hint for each in found if each.span in doubtful and each.code in _OF_VALUES}
    return tuple(
        finding._replace(hint=judged.get(finding.span) or finding.hint)
        if finding.code == "ambiguous-scalar"
        else finding
        for finding in found
        if finding.span not in doubtful or finding.code not in _OF_VALUES
    )


_OF_VALUES = ("wrong-type", "invalid-value")
"""The codes of the schema's findings on a value."""

_EFFECTS = ("removal", "change")
"""The weights of what a compile does to nodes."""


def has_errors(findings: Iterable[Diagnostic]) -> bool:
    """Return whether one of the findings is an error."""
    return any(diagnostic.severity == "error" for diagnostic in findings)


def split_ignored(findings: Iterable[Diagnostic]) -> tuple[Findings, Mapping[str, int]]:
    """Return the findings to show, and the number of ignored ones by code."""
    every = tuple(findings)
    ignored = Counter(diagnostic.code for diagnostic in every if diagnostic.severity == "ignore")
    shown = tuple(diagnostic for diagnostic in every if diagnostic.severity != "ignore")
    return shown, dict(sorted(ignored.items()))


CODES: Mapping[str, Code] = MappingProxyType({name: Code(*own) for name, own in codes.TABLE.items()})
"""Every code that the compiler reports, with its weight and its rule."""

ACCEPTABLE = tuple(name for name, code in CODES.items() if code.acceptable)
"""The codes that a person may accept: removals and risks."""

RISKS = tuple(name for name, code in CODES.items() if code.weight == "risk")
"""The codes of risks, which `kae diff` finds."""
