"""Positions of the values of a JSON document, found by scanning the text: each branch only as far as needed."""

import json
import re
from collections.abc import Iterator

from compiler import diagnostics
from compiler.formats import documents, lines

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def top(text: str) -> int:
    """Return the position of the document's value."""
    return after_space(text, 0)


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
        _, position = _DECODER.raw_decode(text, position)
        position = after_space(text, position)
        if text[position] == ",":
            position = after_space(text, position + 1)
        index += 1


def after_space(text: str, position: int) -> int:
    """Return the position of the first character that is no white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


class _Branch:
    """The members of an object or list that were found so far."""

    __slots__ = ("_known", "_rest")

    def __init__(self, text: str, at: int) -> None:
        self._known: dict[str | int, tuple[int, int]] = {}
        self._rest = members(text, at)

    def find(self, step: str | int) -> tuple[int, int] | None:
        """Return the positions of a member's key and value, or None where there is no such member."""
        while step not in self._known:
            member = next(self._rest, None)
            if member is None:
                return None
            self._known[member[0]] = member[1:]
        return self._known[step]


class Positions:
    """Positions of the values of a file's one document."""

    __slots__ = ("_branches", "_lines")

    def __init__(self, text: lines.Lines) -> None:
        self._lines = text
        self._branches: dict[int, _Branch] = {}

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        """Return the span of a value or its key, or of the nearest value around one that is absent."""
        text = self._lines.text
        key_at = at = top(text)
        for step in path:
            branch = self._branches.setdefault(at, _Branch(text, at))
            member = branch.find(step)
            if member is None:
                return self._lines.span(at)
            key_at, at = member
        return self._lines.span(key_at if key else at)
