"""Duplicates among items that should be unique."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def of(items: Iterable[Item], key: Callable[[Item], Hashable]) -> Iterator[tuple[Item, Item]]:
    """Yield each item whose key an earlier item has, as a pair: the first item with that key, then this one."""
    first: dict[Hashable, Item] = {}
    for item in items:
        known = key(item)
        if known in first:
            yield first[known], item
        else:
            first[known] = item
