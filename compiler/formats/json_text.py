"""JSON documents by the standard library's scanner; places are looked up in the text only when asked for."""

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from compiler import diagnostics, wording
from compiler.formats import documents, json_positions, lines, scalars

DEPTH = 64
"""How deep a document may nest, as in the rule of nesting-too-deep."""

FINDINGS = 1000
"""Findings after which a file is not searched on."""

_STRING = r'"(?:[^"\\]++|\\.)*+"'
_BRACKET = re.compile(rf"{_STRING}|([\[{{]|[\]}}])", re.DOTALL)
_NUMBER = re.compile(rf"{_STRING}|(-?(?:Infinity|NaN|[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?))", re.DOTALL)
# A pair of halves is a character; each other half matches alone. Every backslash of JSON begins an escape.
_HALF = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)")

Reading = tuple[documents.Document | None, list[diagnostics.Diagnostic]]
"""The document of a file, or what is wrong with it."""


def document(text: str, file: str) -> Reading:
    """A file's one document, or everything that is wrong with it."""
    where = lines.Lines(file, text)
    odd = _Oddities()
    try:
        data = odd.decoder.decode(text)
    except json.JSONDecodeError as error:
        return None, [_syntax(where, error)]
    except RecursionError:
        return None, [_too_deep(where)]
    if _height(data) > DEPTH:
        return None, [_too_deep(where)]
    found: list[diagnostics.Diagnostic] = []
    if odd.duplicates:
        del data  # The search reads the text again, and the memory with it.
        found += _first(_duplicates(where, odd))
    if odd.numbers:
        found += _first(_numbers(where))
    if "\\u" in text:
        found += _first(_halves(where))
    return (None, found) if found else (documents.Document(file, data, json_positions.Positions(where)), [])


class _Oddities:
    """A decoder, and how often it met what JSON allows and documents do not."""

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
        found = dict(pairs)
        self.duplicates += len(pairs) - len(found)
        return found

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


def _first(found: Iterator[diagnostics.Diagnostic]) -> list[diagnostics.Diagnostic]:
    return [each for each, _ in zip(found, range(FINDINGS), strict=False)]


_BRANCHES = frozenset({dict, list})


def _height(data: Any) -> int:
    """How deep a value nests; level by level, and past mappings of scalars without a step for each of them."""
    height, level = 0, [data] if type(data) in _BRANCHES else []
    while level:
        height += 1
        inner: list[Any] = []
        for branch in level:
            values = branch.values() if type(branch) is dict else branch
            if not _BRANCHES.isdisjoint(map(type, values)):
                inner.extend(value for value in values if type(value) in _BRANCHES)
        level = inner
    return height


def _too_deep(where: lines.Lines) -> diagnostics.Diagnostic:
    """The first bracket that opens a level too many."""
    depth = 0
    position = 0
    for match in _BRACKET.finditer(where.text):
        bracket = match[1]
        if bracket:
            depth += 1 if bracket in "[{" else -1
        if depth > DEPTH:
            position = match.start()
            break
    message = f"The document nests more than {DEPTH} levels deep."
    return diagnostics.Diagnostic(code="nesting-too-deep", span=where.span(position), message=message)


def _duplicates(where: lines.Lines, odd: _Oddities) -> Iterator[diagnostics.Diagnostic]:
    """Each key that its object already has; only values that hold such a key are looked into."""
    text = where.text
    search = [json_positions.top(text)]
    for branch in search:  # It grows on the way.
        first: dict[str | int, int] = {}
        for step, key_at, at in json_positions.members(text, branch):
            earlier = first.setdefault(step, key_at)
            if earlier != key_at:
                yield diagnostics.Diagnostic(
                    code="duplicate-key",
                    span=where.span(key_at),
                    message=f"The key {wording.quoted(str(step))} stands twice in its object.",
                    notes=(f"It first stands at {where.span(earlier)}.",),
                )
            if text[at] in "[{" and len(search) < FINDINGS:
                before = odd.duplicates
                odd.decoder.raw_decode(text, at)
                if odd.duplicates > before:
                    search.append(at)


def _number_problem(number: str) -> tuple[str, str, str] | None:
    """The code, the message and the hint for a number that documents do not hold."""
    if number.lstrip("-").isdigit():
        if len(number.lstrip("-")) <= scalars.DIGITS:
            return None
        message = f"{wording.quoted(number)} has more digits than every JSON reader keeps."
        return "ambiguous-scalar", message, "Put it in double quotes for the string."
    if number.lstrip("-") in ("Infinity", "NaN"):
        return "json-syntax", f"{wording.quoted(number)} is not a number of JSON.", ""
    if math.isfinite(float(number)):
        return None
    return "json-syntax", f"{wording.quoted(number)} is larger than a number of JSON readers can be.", ""


def _numbers(where: lines.Lines) -> Iterator[diagnostics.Diagnostic]:
    for match in _NUMBER.finditer(where.text):
        problem = _number_problem(match[1]) if match[1] else None
        if problem:
            code, message, hint = problem
            span = where.span(match.start())
            yield diagnostics.Diagnostic(code=code, span=span, message=message, hint=hint)


def _halves(where: lines.Lines) -> Iterator[diagnostics.Diagnostic]:
    for match in _HALF.finditer(where.text):
        if match[1]:
            yield diagnostics.Diagnostic(
                code="forbidden-character",
                span=where.span(match.start()),
                message=f"The escape {wording.quoted(match[0])} is half a character.",
                hint="Write the character itself, or both halves.",
            )


_SYNTAX: tuple[tuple[str, str, str], ...] = (
    # What the scanner's message begins with, and our sentence and hint for it.
    ("Extra data", "The file goes on after its JSON value.", "Keep one value in a .json file."),
    ("Unterminated string", "The string that opens here does not close.", ""),
    (
        "Invalid control character",
        "A string cannot go on over a tab or a line break.",
        "Write '\\t' or '\\n'.",
    ),
    ("Invalid \\", "A string holds an escape that JSON does not know.", "Write '\\\\' for a backslash."),
    ("Expecting property name", "A key in double quotes is missing here.", ""),
    ("Expecting ':'", "A ':' is missing here.", ""),
    ("Expecting ','", "A ',' or a closing bracket is missing here.", ""),
    ("Expecting value", "A value is missing here.", ""),
)


def _syntax(where: lines.Lines, error: json.JSONDecodeError) -> diagnostics.Diagnostic:
    """What the scanner found, in a sentence that is the same for every Python."""
    text, position = where.text, error.pos
    message, hint = next(
        (entry[1:] for entry in _SYNTAX if error.msg.startswith(entry[0])), ("The file is not JSON.", "")
    )
    start = json_positions.top(text)
    comma = _trailing_comma(text, position)
    if comma is not None:
        message, hint, position = "A ',' stands before a closing bracket.", "Remove it.", comma
    elif position == start and not text.startswith(("{", "["), start):
        message, hint = "The file is not JSON.", "Name a YAML file .yaml."
    elif json_positions.after_space(text, position) == len(text):
        message, hint = "The file ends before its JSON value does.", ""
    elif text[position] in "/#":
        hint = "JSON has no comments."
    return diagnostics.Diagnostic(code="json-syntax", span=where.span(position), message=message, hint=hint)


def _trailing_comma(text: str, position: int) -> int | None:
    """Where a comma stands that only a bracket follows; scanners point at the one (3.13) or the other."""
    if text.startswith(("]", "}"), position):
        comma = position - 1
        while comma > 0 and text[comma] in " \t\r\n":
            comma -= 1
    else:
        comma = position
        if not text.startswith(("]", "}"), json_positions.after_space(text, min(position + 1, len(text)))):
            return None
    return comma if text.startswith(",", comma) else None
