"""A document as read from a file: plain data, and the position of each value."""

import functools
import operator
from dataclasses import dataclass
from typing import Any, Protocol

from compiler import diagnostics

Path = tuple[str | int, ...]
"""The keys and indexes that lead from the top of a document to a value."""


class Positions(Protocol):
    """Positions of a document's values in its file."""

    def span(self, path: Path, *, key: bool = False) -> diagnostics.Span:
        """Return the span of the value at `path`, or of its key.

        For a value that the document does not hold, it is the span of the nearest value around it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """A document as read from a file: plain data, and the positions of its values."""

    file: str
    data: Any
    positions: Positions

    def has(self, path: Path) -> bool:
        """Return whether the document itself holds a value at `path`."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def value(self, path: Path) -> Any:
        """Return the value at `path`, which the document holds."""
        return functools.reduce(operator.getitem, path, self.data)

    def span(self, *path: str | int) -> diagnostics.Span:
        """Return the span of the value at `path`."""
        return self.positions.span(path)

    def key_span(self, *path: str | int) -> diagnostics.Span:
        """Return the span of the key that leads to `path`."""
        return self.positions.span(path, key=True)

    def setting_span(self, *path: str | int) -> diagnostics.Span:
        """Return the span of a scalar, of the key of a mapping or list, or of metadata.name where `path` is absent."""
        if not self.has(path):
            return self.span("metadata", "name")
        return self.positions.span(path, key=isinstance(self.value(path), dict | list))
