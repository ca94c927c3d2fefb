"""Where the values of a JSON document stand: found by walking the text, each branch only as far as needed."""

import json
import re
from collections.abc import Iterator

from compiler import diagnostics
from compiler.formats import documents, lines

_SPACE = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()


def top(text: str) -> int:
    """Where the document's value begins."""
    return passed(text, 0)


def members(text: str, at: int) -> Iterator[tuple[str | int, int, int]]:
    """The keys or indexes of the branch at a position of well-formed text; where they and their values begin.

    A value is passed, at the scanner's speed, only when the next one is asked for.
    """
    if text[at] not in "[{":
        return
    keyed = text[at] == "{"
    position = passed(text, at + 1)
    index = 0
    while text[position] not in "]}":
        step: str | int = index
        start = position
        if keyed:
            step, position = _DECODER.raw_decode(text, position)
            position = passed(text, passed(text, position) + 1)  # Over the colon.
        yield step, start, position
        _, position = _DECODER.raw_decode(text, position)
        position = passed(text, position)
        if text[position] == ",":
            position = passed(text, position + 1)
        index += 1


def passed(text: str, position: int) -> int:
    """The position of what stands after blank characters."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


class _Branch:
    """The members of an object or a list, as far as anybody asked."""

    __slots__ = ("_known", "_rest")

    def __init__(self, text: str, at: int) -> None:
        self._known: dict[str | int, tuple[int, int]] = {}
        self._rest = members(text, at)

    def find(self, step: str | int) -> tuple[int, int] | None:
        """Where a member's key and value begin; None where there is no such member."""
        while step not in self._known:
            member = next(self._rest, None)
            if member is None:
                return None
            self._known[member[0]] = member[1:]
        return self._known[step]


class Places:
    """The places of a file's one document."""

    __slots__ = ("_branches", "_lines")

    def __init__(self, text: lines.Lines) -> None:
        self._lines = text
        self._branches: dict[int, _Branch] = {}

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        """The place of a value or of its key; of the nearest value around it where it is absent."""
        text = self._lines.text
        key_at = at = top(text)
        for step in path:
            branch = self._branches.setdefault(at, _Branch(text, at))
            found = branch.find(step)
            if found is None:
                return self._lines.span(at)
            key_at, at = found
        return self._lines.span(key_at if key else at)
