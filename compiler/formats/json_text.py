"""JSON documents, read by the scanner of the standard library, with the positions of their values."""

import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import Any

from compiler import diagnostics, wording
from compiler.formats import documents, scalars

diagnostics.shared_rule("json-syntax", "error", "The file is well-formed JSON, without NaN or Infinity.")

_STRING = r'"(?:[^"\\]++|\\.)*+"'
_BRACKET = re.compile(rf"{_STRING}|([\[{{]|[\]}}])", re.DOTALL)
_NUMBER = re.compile(rf"{_STRING}|(-?(?:Infinity|NaN|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?))", re.DOTALL)
# A pair of surrogates is a character; an unpaired one matches the group. Every backslash begins an escape.
_SURROGATE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")
_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(parse_int=str)  # Of long numbers, int makes an error.


def read(text: str, file: str) -> documents.Reading:
    """Return the one document of a file, or all its mistakes."""
    where = documents.Lines(file, text)
    counts = _Oddities()
    try:
        data = counts.decoder.decode(text)
    except json.JSONDecodeError as error:
        return [], [_syntax(where, error)]
    except RecursionError:
        return [], [_too_deep(where)]
    if _height(data) > documents.DEPTH:
        return [], [_too_deep(where)]
    findings: list[diagnostics.Diagnostic] = []
    if counts.duplicates:
        del data  # The search decodes values again, which takes as much memory as the first time.
        findings += _first(_duplicates(where, counts))
    if counts.numbers:
        findings += _first(_numbers(where))
    if "\\" in text and "\\u" in text:  # The search of one character is many times quicker.
        findings += _first(_unpaired_surrogates(where))
    if findings:
        return [], findings
    return [documents.Document(file, data, positions(where))], []


def positions(where: documents.Lines) -> documents.Positions:
    """Return the positions of the values in a file that has no mistakes."""
    start = after_space(where.text, 0)
    return documents.TextPositions(where, start, start, _Branches(where.text).member)


class _Oddities:
    """A JSON decoder that counts values that are valid JSON but not allowed in documents."""

    def __init__(self) -> None:
        self.duplicates = 0
        self.numbers = 0
        self.decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=self._integer,
            parse_float=self._float,
            parse_constant=self._constant,
        )

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            self.duplicates += len(pairs) - len(members)
        return members

    def _integer(self, digits: str) -> int:
        if len(digits) > scalars.DIGITS and _number_problem(digits):
            self.numbers += 1
            return 0
        return int(digits)

    def _float(self, digits: str) -> float:
        value = float(digits)
        self.numbers += not math.isfinite(value)
        return value

    def _constant(self, _: str) -> float:
        self.numbers += 1
        return 0.0


def _first(findings: Iterator[diagnostics.Diagnostic]) -> list[diagnostics.Diagnostic]:
    return list(itertools.islice(findings, documents.FINDINGS))


_BRANCHES = frozenset({dict, list})


def _height(data: Any) -> int:
    """Return the depth of a value, measured level by level; the loop skips branches of scalars, as most are."""
    height, level = 0, [data] if type(data) in _BRANCHES else []
    while level:
        height += 1
        inner: list[Any] = []
        for branch in level:
            values = branch.values() if type(branch) is dict else branch
            if not _BRANCHES.isdisjoint(map(type, values)):
                inner.extend(itertools.compress(values, map(_BRANCHES.__contains__, map(type, values))))
        level = inner
    return height


def _too_deep(where: documents.Lines) -> diagnostics.Diagnostic:
    """Return the finding at the first bracket that opens a level too many."""
    depth = 0
    position = 0
    for match in _BRACKET.finditer(where.text):
        bracket = match[1]
        if bracket:
            depth += 1 if bracket in "[{" else -1
        if depth > documents.DEPTH:
            position = match.start()
            break
    return where.finding(position, "nesting-too-deep", documents.TOO_DEEP)


def _duplicates(where: documents.Lines, counts: _Oddities) -> Iterator[diagnostics.Diagnostic]:
    """Yield a finding for each key that its object already has; only values that hold such a key are searched."""
    text = where.text
    search = [after_space(text, 0)]
    for branch in search:  # The loop appends to it.
        first: dict[str | int, int] = {}
        for step, key_at, at in members(text, branch):
            earlier = first.setdefault(step, key_at)
            if earlier != key_at:
                message = f"The key {wording.quoted(str(step))} appears twice in its object."
                note = f"It first appears at {where.span(earlier)}."
                yield where.finding(key_at, "duplicate-key", message, "Keep one of the two.", (note,))
            if text[at] in "[{" and len(search) < documents.FINDINGS:
                before = counts.duplicates
                counts.decoder.raw_decode(text, at)
                if counts.duplicates > before:
                    search.append(at)


def _number_problem(number: str) -> tuple[str, str, str] | None:
    """Return code, message and hint for a number that documents cannot hold, or None."""
    if number.lstrip("-").isdigit():
        if len(number.lstrip("-")) <= scalars.DIGITS:
            return None
        message = f"{wording.quoted(number)} has more digits than every JSON reader keeps."
        return "ambiguous-scalar", message, "Put it in double quotes for the string."
    if number.lstrip("-") in ("Infinity", "NaN"):
        return "json-syntax", f"{wording.quoted(number)} is not a number of JSON.", ""
    if math.isfinite(float(number)):
        return None
    return "json-syntax", f"{wording.quoted(number)} is larger than any number that JSON readers hold.", ""


def _numbers(where: documents.Lines) -> Iterator[diagnostics.Diagnostic]:
    for match in _NUMBER.finditer(where.text):
        problem = _number_problem(match[1]) if match[1] else None
        if problem:
            yield where.finding(match.start(), *problem)


def _unpaired_surrogates(where: documents.Lines) -> Iterator[diagnostics.Diagnostic]:
    for match in _SURROGATE.finditer(where.text):
        if match[1]:
            message = f"The escape {wording.quoted(match[0])} is an unpaired surrogate."
            hint = "Write the character itself, or both surrogates of its pair."
            yield where.finding(match.start(), "forbidden-character", message, hint)


_SYNTAX: tuple[tuple[str, str, str], ...] = (
    # The beginning of the scanner's message, then our message and hint.
    ("Extra data", "The file continues after its JSON value.", "Keep one value in a .json file."),
    ("Unterminated string", "The string that opens here does not close.", "Close it with '\"'."),
    ("Invalid control character", "A string cannot hold a raw tab.", "Write '\\t'."),
    ("Invalid \\", "A string holds an unknown escape.", "Write '\\\\' for a backslash."),
    ("Expecting property name", "A key in double quotes is missing here.", ""),
    ("Expecting ':'", "A ':' is missing here.", ""),
    ("Expecting ','", "A ',' or a closing bracket is missing here.", ""),
    ("Expecting value", "A value is missing here.", ""),
)


def _syntax(where: documents.Lines, error: json.JSONDecodeError) -> diagnostics.Diagnostic:
    """Return the finding for the scanner's error, in words that are the same for every version of Python."""
    text, position = where.text, error.pos
    message, hint = next(
        (entry[1:] for entry in _SYNTAX if error.msg.startswith(entry[0])), ("The file is not JSON.", "")
    )
    start = after_space(text, 0)
    comma = _trailing_comma(text, position)
    if comma is not None:
        message, hint, position = "A closing bracket follows this ','.", "Remove it.", comma
    elif position == start and not text.startswith(("{", "["), start):
        message, hint = "The file is not JSON.", "Name a YAML file .yaml."
    elif after_space(text, position) == len(text):
        message, hint = "The file ends before its JSON value does.", "Write it anew: its end is lost."
    elif error.msg.startswith("Invalid control") and text[position] in "\r\n":
        message, hint = "The string does not close on its line.", "Close it, or write '\\n' for a line break."
    elif text[position] in "/#":
        is_inside = text.endswith('"', 0, position)
        hint = "Check that the string before it ends where it should." if is_inside else "JSON has no comments."
    return where.finding(position, "json-syntax", message, hint)


def _trailing_comma(text: str, position: int) -> int | None:
    """Return the position of a comma before a closing bracket; Python 3.13 points at the comma, others behind it."""
    if text.startswith(("]", "}"), position):
        comma = position - 1
        while comma > 0 and text[comma] in " \t\r\n":
            comma -= 1
    else:
        comma = position
        if not text.startswith(("]", "}"), after_space(text, min(position + 1, len(text)))):
            return None
    return comma if text.startswith(",", comma) else None


def members(text: str, at: int) -> Iterator[tuple[str | int, int, int]]:
    """Yield each key or index of the object or list at a position, with the positions of key and value.

    The text is well-formed. A value is scanned only when the member after it is requested.
    """
    if text[at] not in "[{":
        return
    keyed = text[at] == "{"
    position = after_space(text, at + 1)
    index = 0
    while text[position] not in "]}":
        step: str | int = index
        start = position
        if keyed:
            step, position = _DECODER.raw_decode(text, position)
            position = after_space(text, after_space(text, position) + 1)  # Past the colon.
        yield step, start, position
        position = after_space(text, _end(text, position))
        if text[position] == ",":
            position = after_space(text, position + 1)
        index += 1


def _end(text: str, at: int) -> int:
    """Return the end of the value at a position."""
    try:
        return _DECODER.raw_decode(text, at)[1]
    except RecursionError:  # What nobody reads of a list of nodes may nest deeper.
        depth = 0
        for match in _BRACKET.finditer(text, at):
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(match[1], 0)
            if match[1] and not depth:
                return match.end()
        raise


def after_space(text: str, position: int) -> int:
    """Return the position of the first character that is no white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


class _Branches:
    """The branches of a file's one document, scanned only as far as their members are asked for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._known: dict[int, tuple[dict[str | int, tuple[int, int]], Iterator[tuple[str | int, int, int]]]] = {}

    def member(self, branch: int, step: str | int) -> tuple[int, int, int] | None:
        """Return the positions of a member's key and value, and that of the value as a branch."""
        known, rest = self._known.setdefault(branch, ({}, members(self._text, branch)))
        while step not in known:
            if (member := next(rest, None)) is None:
                return None
            known[member[0]] = member[1:]
        key_at, at = known[step]
        return key_at, at, at
