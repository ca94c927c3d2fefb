"""Items that have a key in common: duplicates of what should be unique, and groups."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


def of(items: Iterable[Item], key: Callable[[Item], Hashable]) -> Iterator[tuple[Item, Item]]:
    """Yield each item whose key an earlier item has, as a pair: the first item with that key, then this one."""
    first: dict[Hashable, Item] = {}
    for item in items:
        known = key(item)
        if known in first:
            yield first[known], item
        else:
            first[known] = item


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Return the items of each key, the keys in the order of their first items."""
    found: dict[Key, list[Item]] = {}
    for key, item in pairs:
        found.setdefault(key, []).append(item)
    return found
