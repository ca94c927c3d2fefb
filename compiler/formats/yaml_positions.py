"""Positions of the values of a YAML document: a tree beside the data, built while the text is read."""

from compiler import diagnostics
from compiler.formats import documents, lines


class Branch:
    """The position of a mapping or list, and the positions of its members."""

    __slots__ = ("at", "inside")

    def __init__(self, at: int, inside: "dict[str, tuple[int, Position]] | list[Position]") -> None:
        self.at = at
        self.inside = inside


Position = int | Branch
"""The position of a scalar, or the branch of a mapping or list."""


class Positions:
    """Positions of the values of one document."""

    __slots__ = ("_lines", "_root")

    def __init__(self, text: lines.Lines, root: Position) -> None:
        self._lines = text
        self._root = root

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        """Return the span of a value or its key, or of the nearest value around one that is absent."""
        position, at = self._root, start(self._root)
        for step in path:
            inside = position.inside if isinstance(position, Branch) else []
            if isinstance(inside, dict) and isinstance(step, str) and step in inside:
                at, position = inside[step]
            elif isinstance(inside, list) and isinstance(step, int) and 0 <= step < len(inside):
                position = inside[step]
                at = start(position)
            else:
                return self._lines.span(start(position))
        return self._lines.span(at if key else start(position))


def start(position: Position) -> int:
    """Return the index of the character at which a value begins."""
    return position.at if isinstance(position, Branch) else position
