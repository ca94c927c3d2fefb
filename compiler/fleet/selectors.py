"""Selectors of nodes: label requirements, terms of requirements, and the labels that they match.

A term matches a node that meets all of its requirements, so a term without requirements matches every node. A tuple of
terms matches a node that one of them matches, so a tuple without terms matches no node. Requirements have the
same meaning as in a node affinity: see `Requirement.Matches` in k8s.io/apimachinery/pkg/labels/selector.go.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from compiler import repeats, wording
from compiler.fleet import forms
from compiler.inventory import snapshot

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
Label = Callable[[str], str | None]
"""The labels of a node: a function that returns the value of a key, or None for a label that the node lacks."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1
"""Gt and Lt compare 64-bit integers; Kubernetes does not read a larger number as an integer."""

_LONGEST_VALUE = 63
_INTEGER = re.compile(r"([+-]?)0*([0-9]{1,19})")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_KEY, _VALUE = r"[A-Za-z0-9][-A-Za-z0-9_./]*", r"[^\s,()!=<>]*"
_REQUIREMENT = rf"""\s*(?:
        !\s*(?P<absent>{_KEY})
        | (?P<key>{_KEY})(?:
            \s*(?P<sign>==|!=|=|<|>)\s*(?P<value>{_VALUE})
            | \s+(?P<word>in|notin)\s*\((?P<values>[^()!=<>]*)\)
        )?
    )\s*(?P<end>,|$)"""
"""A requirement of a label selector, for re.VERBOSE."""
_SIGNS: Mapping[str, Operator] = {
    "=": "In",
    "==": "In",
    "!=": "NotIn",
    "<": "Lt",
    ">": "Gt",
    "in": "In",
    "notin": "NotIn",
}
"""The signs and words of label selectors."""


class Requirement(msgspec.Struct, frozen=True, order=True):
    """A node selector requirement (NodeSelectorRequirement v1 core)."""

    key: forms.LabelKey
    """The label."""
    operator: Operator
    """Gt and Lt compare whole numbers; NotIn and DoesNotExist also take a node without the label."""
    values: Annotated[tuple[forms.LabelValue, ...], forms.Keywords(maxItems=256)] = ()
    """One to 256 for In and NotIn, one whole number for Gt and Lt, none otherwise."""


Term = tuple[Requirement, ...]


class Selector(msgspec.Struct, frozen=True, kw_only=True):
    """Labels that a node must have; every one of them."""

    matchLabels: Mapping[forms.LabelKey, forms.LabelValue] = {}
    """Labels with exactly these values."""
    matchExpressions: tuple[Requirement, ...] = ()
    """Requirements on labels."""


def of(selector: Selector | None) -> Term:
    """Return a selector as a term: each requirement once, sorted, with sorted values; None selects every node."""
    if selector is None:
        return ()
    labels = {Requirement(key, "In", (value,)) for key, value in selector.matchLabels.items()}
    expressions = {
        Requirement(expression.key, expression.operator, tuple(sorted(set(expression.values))))
        for expression in selector.matchExpressions
    }
    return tuple(sorted(labels | expressions))


def requirement_matches(requirement: Requirement, value: str | None) -> bool:
    """Return whether a label with this value, or its absence (None), meets the requirement."""
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
    actual, limit = None if value is None else integer(value), bound(requirement)
    if actual is None or limit is None:
        return False
    return actual > limit if requirement.operator == "Gt" else actual < limit


def term_matches(term: Term, label: Label) -> bool:
    """Return whether a node with these labels meets every requirement."""
    return all(requirement_matches(requirement, label(requirement.key)) for requirement in term)


def failing(term: Term, label: Label) -> Term:
    """Return the requirements that a node with these labels does not meet."""
    return tuple(one for one in term if not requirement_matches(one, label(one.key)))


def text(requirement: Requirement) -> str:
    """Return a requirement as text: `pool In [tls, web]`, `zone Exists`, `gen Gt 3`."""
    values = ", ".join(value or '""' for value in requirement.values)
    match requirement.operator:
        case "In" | "NotIn":
            return f"{requirement.key} {requirement.operator} [{values}]"
        case "Exists" | "DoesNotExist":
            return f"{requirement.key} {requirement.operator}"
        case "Gt" | "Lt":
            return f"{requirement.key} {requirement.operator} {values}"


def why_unmatched(term: Term, nodes: Sequence[snapshot.Node]) -> str:
    """Return why a term matches none of the nodes: a sentence, with the label that was probably meant."""
    for requirement in term:
        if not any(requirement_matches(requirement, node.label(requirement.key)) for node in nodes):
            return _why_unmet(requirement, nodes)
    return f"No node meets all of: {', '.join(map(text, term))}."


def _why_unmet(requirement: Requirement, nodes: Sequence[snapshot.Node]) -> str:
    key, wanted = requirement.key, requirement.values
    if requirement.operator not in ("In", "Exists"):
        return f"No node meets: {text(requirement)}."
    values = sorted({value for node in nodes if (value := node.label(key)) is not None})
    if not values:
        keys = sorted({known for node in nodes for known in (*node.labels, *node.profile.labels)})
        return f"No node has a label {key}{wording.or_meant(key, keys)}"
    misspelt = next((value for value in wanted if wording.nearest(value, values)), wanted[0])
    return f"No node has the label {_labels(key, wanted)}{wording.or_meant(misspelt, values)}"


def _labels(key: str, values: Sequence[str]) -> str:
    return f"{key}={values[0]}" if len(values) == 1 else f"{key} with one of {wording.listed(values)}"


def parse(text: str) -> Term:
    """Return a label selector as a term, as `kubectl get -l` takes it: an empty one matches every node.

    Raises ValueError with the fault. See `Parse` in k8s.io/apimachinery/pkg/labels/selector.go.
    """
    found: list[Requirement] = []
    rest, is_open = text, bool(text.strip())
    while is_open:
        match = re.match(_REQUIREMENT, rest, re.VERBOSE)
        if match is None:
            raise ValueError(f"'{rest.strip()}' is no requirement on a label")
        requirement = _read(match)
        if fault := misuse(requirement):
            raise ValueError(f"'{requirement.key}' {fault}")
        found.append(requirement)
        rest, is_open = rest[match.end() :], match["end"] == ","
    return tuple(found)


def _read(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent"], "DoesNotExist")
    if match["sign"]:
        return Requirement(match["key"], _SIGNS[match["sign"]], (match["value"],))
    if match["word"]:
        values = sorted({value.strip() for value in match["values"].split(",")})
        return Requirement(match["key"], _SIGNS[match["word"]], tuple(values))
    return Requirement(match["key"], "Exists")


def misuse(requirement: Requirement) -> str | None:
    """Return why Kubernetes refuses a requirement, as a predicate; None if it accepts it."""
    count = len(requirement.values)
    match requirement.operator:
        case "In" | "NotIn" if count == 0:
            return "needs at least one value"
        case "Exists" | "DoesNotExist" if count != 0:
            return "takes no values"
        case "Gt" | "Lt" if count != 1:
            return "needs exactly one integer"
        case "Gt" | "Lt" if bound(requirement) is None:
            return f"needs a 64-bit integer, but '{requirement.values[0]}' is not one"
    # Negative integers too: NewRequirement checks every value, so a node affinity cannot express `Gt -1`.
    bad = next((value for value in requirement.values if not is_label_value(value)), None)
    return None if bad is None else f"needs values that a label can have, but '{bad}' is not one"


def comparable(value: str | None) -> bool:
    """Return whether Gt or Lt, or its negation, can match a label: it is an integer, or absent (None)."""
    return value is None or integer(value) is not None


def is_label_value(value: str) -> bool:
    """Return whether a label can have the value: at most 63 characters that begin and end with a letter or digit."""
    return _LABEL_VALUE.fullmatch(value) is not None


def integer(value: str) -> int | None:
    """Return the integer that Kubernetes reads (strconv.ParseInt, base 10, 64 bits); None if it reads none."""
    match = _INTEGER.fullmatch(value)
    number = None if match is None else int(match[1] + match[2])
    return None if number is None or not INT64_MIN <= number <= INT64_MAX else number


def bound(requirement: Requirement) -> int | None:
    """Return the integer that Gt or Lt compares with; None if the requirement is not well formed."""
    return integer(requirement.values[0]) if len(requirement.values) == 1 else None


class Allowed(msgspec.Struct, frozen=True):
    """The values that a term allows for one label, and whether it allows the label to be absent.

    The values are those listed, or else all that are not barred and, with a range, are integers in it. Values that no
    label can have never appear, and equal sets are equal objects.
    """

    absent: bool = True
    values: frozenset[str] | None = None
    barred: frozenset[str] = frozenset()
    integers: tuple[int, int] | None = None

    def admits(self, value: str) -> bool:
        """Return whether the label may have the value."""
        if self.values is not None:
            return value in self.values
        return value not in self.barred and (self.integers is None or in_range(value, self.integers))

    def meet(self, other: "Allowed") -> "Allowed":
        """Return the intersection."""
        absent = self.absent and other.absent
        if self.values is not None:
            return Allowed(absent, frozenset(filter(other.admits, self.values)))
        if other.values is not None:
            return other.meet(self)
        barred = self.barred | other.barred
        ranges = [one.integers for one in (self, other) if one.integers is not None]
        if not ranges:
            return Allowed(absent, None, barred)
        return span((max(low for low, _ in ranges), min(high for _, high in ranges)), barred)

    def apart(self, other: "Allowed") -> bool:
        """Return whether the intersection is empty."""
        if self.absent and other.absent:
            return False
        if self.values is not None and other.values is not None:
            return self.values.isdisjoint(other.values)
        if self.integers is None and other.integers is None and self.values is None and other.values is None:
            return False  # There are more words than selectors can bar.
        return self.meet(other) == NOTHING

    def within(self, other: "Allowed") -> bool:
        """Return whether this is a subset of the other; a range is never recognised as a subset of a list."""
        if self.absent and not other.absent:
            return False
        if self.values is not None:
            return all(map(other.admits, self.values))
        if other.values is not None or any(map(self.admits, other.barred)):
            return False
        if self.integers is None or other.integers is None:
            return other.integers is None
        return other.integers[0] <= self.integers[0] and self.integers[1] <= other.integers[1]

    def fills(self, other: "Allowed") -> bool:
        """Return whether the two sets together allow anything; some pairs of ranges that do are not recognised."""
        if not (self.absent or other.absent):
            return False
        if self.values is not None or self.integers is not None:
            return other.values is None and other.integers is None and other.fills(self)
        if other.values is not None:
            return self.barred <= other.values
        return self.barred.isdisjoint(other.barred) and (other.integers is None or all(map(other.admits, self.barred)))

    def example(self) -> str:
        """Return an allowed value: one from a selector if there is one."""
        if self.values is not None:
            return min(self.values, key=lambda value: (not value, value))
        if self.integers is not None:
            return next(_numerals(self.integers, self.barred))
        words = itertools.chain(("other",), (f"other-{number}" for number in itertools.count(2)))
        return next(word for word in words if word not in self.barred) if self.barred else "true"


ANYTHING = Allowed()
NOTHING = Allowed(absent=False, values=frozenset())
ABSENT = Allowed(values=frozenset())


def witness(term: Term) -> dict[str, str] | None:
    """Return the fewest labels that satisfy a term, with values that a node can have; None if nothing does."""
    return example(by_key(term))


def example(allowed: Mapping[str, Allowed]) -> dict[str, str] | None:
    """Return the fewest labels that are allowed; None if a key allows nothing."""
    if NOTHING in allowed.values():
        return None
    return {key: allowed[key].example() for key in sorted(allowed) if not allowed[key].absent}


def by_key(term: Term) -> dict[str, Allowed]:
    """Return the allowed values by key; if nothing satisfies the term, a key has `NOTHING`."""
    own = repeats.grouped((requirement.key, requirement) for requirement in term)
    return {key: _granted_together(requirements) for key, requirements in own.items()}


def one_of(values: Iterable[str]) -> Allowed:
    """Return the set of labels with one of these values."""
    return Allowed(absent=False, values=frozenset(values))


def span(bounds: tuple[int, int], barred: frozenset[str] = frozenset()) -> Allowed:
    """Return the set of labels with an integer within bounds, in any spelling that is not barred."""
    if next(_numerals(bounds, barred), None) is None:
        return NOTHING
    return Allowed(False, None, frozenset(value for value in barred if in_range(value, bounds)), bounds)


def in_range(value: str, bounds: tuple[int, int]) -> bool:
    """Return whether the value is an integer within bounds."""
    number = integer(value)
    return number is not None and bounds[0] <= number <= bounds[1]


def _numerals(bounds: tuple[int, int], barred: frozenset[str]) -> Iterator[str]:
    """Yield the label values that are integers within bounds and not barred, the shortest spellings first."""
    for width in range(1, _LONGEST_VALUE + 1):
        spelled = (str(number).zfill(width) for number in range(bounds[0], bounds[1] + 1))
        yield from (numeral for numeral in spelled if numeral not in barred)


def _granted_together(requirements: Iterable[Requirement]) -> Allowed:
    """Return the set that requirements on one key allow.

    The values of every NotIn are joined first: a range sifts all barred values each time that it meets a set.
    """
    allowed, barred = ANYTHING, set[str]()
    for requirement in requirements:
        if requirement.operator == "NotIn":
            barred.update(filter(is_label_value, requirement.values))
        else:
            allowed = allowed.meet(_granted(requirement))
    return allowed.meet(Allowed(barred=frozenset(barred))) if barred else allowed


def _granted(requirement: Requirement) -> Allowed:
    """Return the set that one requirement allows, among the values that a label can have."""
    values = frozenset(filter(is_label_value, requirement.values))
    limit = bound(requirement)
    match requirement.operator:
        case "In":
            return one_of(values)
        case "Exists":
            return Allowed(absent=False)
        case "DoesNotExist":
            return ABSENT
        case "Gt" if limit is not None:
            # A label value cannot begin with a sign, so no label is below zero.
            return span((max(limit + 1, 0), INT64_MAX))
        case "Lt" if limit is not None:
            return span((0, limit - 1))
    return NOTHING
