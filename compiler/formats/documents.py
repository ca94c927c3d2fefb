"""A document as it was read: plain data, and the position of each value in its file."""

import functools
import operator
from dataclasses import dataclass
from typing import Any, Protocol

from compiler import diagnostics

Path = tuple[str | int, ...]
"""The way to a value inside a document: keys and indexes from the top."""


class Positions(Protocol):
    """Where the values of a document stand in its file."""

    def span(self, path: Path, *, key: bool = False) -> diagnostics.Span:
        """The place of the value at `path`, or of its key; of the nearest value around it where it is absent."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was read: plain data, and the places of its values."""

    file: str
    data: Any
    places: Positions

    def has(self, path: Path) -> bool:
        """Whether the document itself writes a value at `path`."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def span(self, *path: str | int) -> diagnostics.Span:
        """The place of the value at `path`."""
        return self.places.span(path)

    def place(self, *path: str | int) -> diagnostics.Span:
        """Where a setting stands: its value, or the key of a mapping or list; unwritten, the document's name."""
        if not self.has(path):
            return self.span("metadata", "name")
        value = functools.reduce(operator.getitem, path, self.data)
        return self.places.span(path, key=isinstance(value, dict | list))
