"""What stands twice in what should be unique."""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def of(items: Iterable[Item], key: Callable[[Item], Hashable]) -> Iterator[tuple[Item, Item]]:
    """Each item whose key an earlier one has, behind the first that had it."""
    first: dict[Hashable, Item] = {}
    for item in items:
        known = key(item)
        if known in first:
            yield first[known], item
        else:
            first[known] = item
