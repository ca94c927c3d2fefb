"""The formats of findings: text, JSON, GitHub's workflow commands and SARIF."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from compiler import __version__, names, release, wording
from compiler.diagnostics import CODES, Diagnostic, Span

FORMATS = ("text", "json", "github", "sarif")

_NONE: Mapping[str, int] = MappingProxyType({})

_COLOURS = {"error": "\x1b[1;31m", "warning": "\x1b[1;33m", "place": "\x1b[1m", "hint": "\x1b[36m"}
_PLAIN = "\x1b[0m"


NOTES: Mapping[str, str] = MappingProxyType(
    {
        "earlier-error": "The revision before a change does not compile, so what the change does is not known.",
        "effect": "A line of a document does something to nodes.",
    }
)
"""What is remarked on a line and is no finding, by code."""


class Note(NamedTuple):
    """A remark on a line, for formats that show it there; it is no finding, and stops nothing."""

    code: str
    span: Span
    text: str


def text(found: Iterable[Diagnostic], *, colour: bool) -> str:
    """Return findings for people: position, severity, code and message, the line, then notes and hint."""
    told: set[str] = set()
    lines = []
    for diagnostic in found:
        lines.append(_text(diagnostic, colour=colour) + "\n")
        page = release.page(diagnostic.code)
        if page and diagnostic.code not in told:  # Once for each code.
            lines.append(f"  more: {page}\n")
        told.add(diagnostic.code)
    return "".join(lines)


def _text(found: Diagnostic, *, colour: bool) -> str:
    def painted(words: str, kind: str) -> str:
        return f"{_COLOURS[kind]}{words}{_PLAIN}" if colour else words

    severity = painted(f"{found.severity}[{found.code}]", found.severity)
    lines = [f"{painted(str(found.span), 'place')}: {severity}: {wording.escaped(found.message)}"]
    if found.span.line and found.span.text:
        number = str(found.span.line)
        lines.append(f"  {number} | {wording.masked(found.span.text)}")
        if found.span.column:
            lines.append(f"  {' ' * len(number)} | {' ' * (found.span.column - 1)}^")
    lines.extend(f"  note: {wording.escaped(note)}" for note in found.notes)
    if found.hint:
        lines.append(f"  {painted('hint:', 'hint')} {wording.escaped(found.hint)}")
    return "\n".join(lines)


def ignored_text(ignored: Mapping[str, int]) -> str:
    """Return the phrase for the number of ignored findings by code."""
    codes = wording.listed(f"{count} {code}" for code, count in ignored.items())
    return f"ignored as kae.yaml says: {codes}"


def as_json(found: Diagnostic) -> dict[str, Any]:
    """Return a finding as JSON data."""
    return {
        "code": found.code,
        "severity": found.severity,
        "message": found.message,
        "file": found.span.file,
        "line": found.span.line,
        "column": found.span.column,
        "notes": list(found.notes),
        "hint": found.hint,
    }


def to_record(found: Diagnostic) -> dict[str, Any]:
    """Return a finding with all its fields, for the cache."""
    return as_json(found) | {"text": found.span.text}


def from_record(record: Mapping[str, Any]) -> Diagnostic:
    """Return the finding that `to_record` gave."""
    place = {name: record[name] for name in ("file", "line", "column", "text")}
    return Diagnostic(
        code=record["code"],
        span=Span(**place),
        message=record["message"],
        notes=tuple(record["notes"]),
        hint=record["hint"],
    )


def item(value: Any) -> str:
    """Return the JSON of an item of a list in an answer, indented for its place."""
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n    ")


class Items:
    """A list of an answer, given as the text of each `item`, which may come in several pieces."""

    def __init__(self, items: Iterable[Iterable[str]]) -> None:
        self._items = items

    def text(self) -> Iterator[str]:
        """Yield the list in JSON, as at the first level of an object."""
        mark = "["
        for pieces in self._items:
            yield f"{mark}\n    "
            yield from pieces
            mark = ","
        yield "[]" if mark == "[" else "\n  ]"

    def data(self) -> list[Any]:
        """Return the list."""
        return [json.loads("".join(pieces)) for pieces in self._items]


def line(value: Any) -> str:
    """Return a value as a line of JSON, the unit of NDJSON."""
    return json.dumps(value, ensure_ascii=False) + "\n"


def lines(found: Iterable[Diagnostic]) -> Iterator[str]:
    """Yield each finding as a line of JSON."""
    return (line({"kind": "diagnostic", **as_json(finding)}) for finding in found)


def answer(shape: str, found: Iterable[Diagnostic], ignored: Mapping[str, int] = _NONE, **result: Any) -> Iterator[str]:
    """Yield a command's answer, its findings and the number of ignored ones as one object, in JSON or YAML.

    Large lists are `Items`, which are written to JSON one by one.
    """
    more = {"ignored": dict(ignored)} if ignored else {}
    body = {"version": 1, "diagnostics": [as_json(diagnostic) for diagnostic in found], **more, **result}
    large = {name: value for name, value in result.items() if isinstance(value, Items)}
    if shape == "json":
        text = json.dumps(body | {name: [] for name in large}, indent=2, ensure_ascii=False) + "\n"
        for name, items in large.items():
            before, mark, text = text.partition(f'\n  "{name}": []')
            yield before + mark.removesuffix("[]")
            yield from items.text()
        yield text
        return
    import yaml  # noqa: PLC0415 - needed here only

    body |= {name: items.data() for name, items in large.items()}
    yield str(yaml.safe_dump(body, sort_keys=False, allow_unicode=True))


Located = Callable[[str], str]
"""What gives the path of a file in the repository, as code hosts want it, for one in the project."""


def github(
    found: Iterable[Diagnostic], located: Located, ignored: Mapping[str, int] = _NONE, notes: Iterable[Note] = ()
) -> str:
    """Return workflow commands, which GitHub shows beside the lines of a pull request, at most ten of a kind.

    https://docs.github.com/actions/reference/workflow-commands-for-github-actions
    """
    findings = (_github(item.severity, item.code, _moved(item.span, located), sentences(item)) for item in found)
    remarks = (_github("notice", note.code, _moved(note.span, located), note.text) for note in notes)
    file = _escaped(located(names.PROJECT_FILE), ":,")
    notice = f"::notice file={file}::{ignored_text(ignored)}\n" if ignored else ""
    return "".join((*findings, *remarks)) + notice


def without_commands(body: str) -> str:
    """Return a text in which GitHub finds no workflow commands, such as in a difference with a document's words.

    GitHub takes `::name::` for a command behind any blanks, and `##[name]` anywhere in a line:
    https://github.com/actions/runner/blob/main/src/Runner.Common/ActionCommand.cs
    """
    if "::" not in body and "##[" not in body:
        return body
    # The text cannot end the pause itself, as it cannot hold its own digest.
    token = hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
    return f"::stop-commands::{token}\n{body}::{token}::\n"


def _moved(span: Span, located: Located) -> Span:
    return span._replace(file=located(span.file)) if span.file else span


def _github(command: str, title: str, span: Span, words: str) -> str:
    properties = {"file": span.file, "title": title}
    if span.line:
        properties |= {"line": str(span.line), "col": str(span.column)}
    said = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{command} {said}::{_escaped(words)}\n"


def _escaped(words: str, more: str = "") -> str:
    for character in "%\r\n" + more:
        words = words.replace(character, f"%{ord(character):02X}")
    return words


def sentences(found: Diagnostic) -> str:
    """Return message, notes and hint, one on each line."""
    return "\n".join((found.message, *found.notes, *((found.hint,) if found.hint else ())))


def sarif(
    found: Sequence[Diagnostic],
    located: Located,
    examples: Mapping[str, str],
    ignored: Mapping[str, int] = _NONE,
    notes: Sequence[Note] = (),
) -> str:
    """Return SARIF 2.1.0, which GitHub and GitLab import as code-scanning findings; rules show an example by code.

    https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
    """
    used = sorted({*(diagnostic.code for diagnostic in found), *(note.code for note in notes)})
    rules = [_note_rule(code) if code in NOTES else _rule(code, examples.get(code, "")) for code in used]
    driver = {"name": "kae", "semanticVersion": __version__, "rules": rules}
    results = [_sarif(item.code, item.severity, _moved(item.span, located), sentences(item), used) for item in found]
    results += [_sarif(note.code, "note", _moved(note.span, located), note.text, used) for note in notes]
    run: dict[str, Any] = {"tool": {"driver": driver}, "results": results}
    if ignored:  # GitHub shows suppressed results as alerts, so they are no results.
        run["properties"] = {"ignored": dict(ignored)}
    body = {"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0", "runs": [run]}
    return json.dumps(body, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str, example: str) -> dict[str, Any]:
    rule, more = CODES[code].rule, f"`kae rule {code}` shows this page."
    fenced = f"```text\n{example}```\n\n" if example else ""
    page = release.page(code)
    return {
        "id": code,
        **({"helpUri": page} if page else {}),
        "shortDescription": {"text": rule},
        "help": {"text": f"{rule}\n\n{example}\n{more}", "markdown": f"{rule}\n\n{fenced}{more}"},
    }


def _note_rule(code: str) -> dict[str, Any]:
    return {"id": code, "shortDescription": {"text": NOTES[code]}, "help": {"text": NOTES[code]}}


def _sarif(code: str, level: str, span: Span, words: str, rules: Sequence[str]) -> dict[str, Any]:
    from urllib.parse import quote  # noqa: PLC0415 - needed here only

    place: dict[str, Any] = {"artifactLocation": {"uri": quote(span.file)}}
    if span.line:
        place["region"] = {"startLine": span.line, "startColumn": max(span.column, 1)}
    return {
        "ruleId": code,
        "ruleIndex": rules.index(code),
        "level": level,
        "message": {"text": words},
        "locations": [{"physicalLocation": place}],
    }
