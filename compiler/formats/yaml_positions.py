"""Where the values of a YAML document stand: a tree beside the data, of positions in the text."""

from compiler import diagnostics
from compiler.formats import documents, lines


class Branch:
    """The place of a mapping or a list, and of what stands in it."""

    __slots__ = ("at", "inside")

    def __init__(self, at: int, inside: "dict[str, tuple[int, Place]] | list[Place]") -> None:
        self.at = at
        self.inside = inside


Place = int | Branch
"""The position of a plain value, or the branch of a mapping or list."""


class Places:
    """The places of one document of a file."""

    __slots__ = ("_lines", "_root")

    def __init__(self, text: lines.Lines, root: Place) -> None:
        self._lines = text
        self._root = root

    def span(self, path: documents.Path, *, key: bool = False) -> diagnostics.Span:
        """The place of a value or of its key; of the nearest value around it where it is absent."""
        place, at = self._root, start(self._root)
        for step in path:
            inside = place.inside if isinstance(place, Branch) else []
            if isinstance(inside, dict) and isinstance(step, str) and step in inside:
                at, place = inside[step]
            elif isinstance(inside, list) and isinstance(step, int) and 0 <= step < len(inside):
                place = inside[step]
                at = start(place)
            else:
                return self._lines.span(start(place))
        return self._lines.span(at if key else start(place))


def start(place: Place) -> int:
    """The position at which a value begins."""
    return place.at if isinstance(place, Branch) else place
