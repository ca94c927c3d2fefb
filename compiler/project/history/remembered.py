"""The examples of inventories that an earlier comparison made, by the id of the inventory's content in git."""

from pathlib import Path
from typing import Any

from compiler import __version__
from compiler.fleet import examples
from compiler.output import cache

_ROOT = Path()
_FORM = 2
"""The form of an entry, for folders that are older than it."""


class Remembered:
    """Examples of earlier comparisons, read at the first question; those of this one are saved at its end."""

    def __init__(self, *, is_used: bool) -> None:
        """`is_used` is False where nothing is to be read or written."""
        self._is_used = is_used
        self._known: dict[str, Any] | None = None
        self._asked: dict[str, Any] = {}

    def get(self, blob: str, keys: frozenset[str]) -> examples.Examples | None:
        """Return the examples of an inventory for these labels; None where they are not known."""
        if self._known is None:
            self._known = cache.examples(_ROOT) if self._is_used else {}
        key = _key(blob, keys)
        entry = self._known.get(key)
        if entry is None:
            return None
        self._asked[key] = entry
        text, members = entry
        return examples.Examples(text.encode(), members)

    def put(self, blob: str, keys: frozenset[str], found: examples.Examples) -> None:
        """Remember the examples of an inventory."""
        self._asked[_key(blob, keys)] = [found.text.decode(), found.members]

    def save(self) -> None:
        """Keep the examples of this comparison for the next one."""
        if self._is_used and self._asked and self._asked.keys() != (self._known or {}).keys():
            cache.save_examples(_ROOT, self._asked)


def _key(blob: str, keys: frozenset[str]) -> str:
    return cache.key(__version__, _FORM, blob, sorted(keys))
