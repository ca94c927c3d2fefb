"""The fields in which two structures differ, by path and value; lists are compared by the names of their items."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_KEYS = ("name", "mountPath", "path", "key")
"""The keys of list items; the first that every item has, with no value twice, identifies the items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field with another value."""

    path: str
    """From the top, as in spec.containers[worker].image."""
    old: Any
    """None for a field that is added."""
    new: Any
    """None for a field that is removed."""


def changed(old: Any, new: Any, path: str = "") -> Iterator[Field]:
    """Yield the fields that differ, sorted by path; those of a config in JSON, too."""
    old, new = _decoded(old, new)
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in sorted({*old, *new}):
            yield from changed(old.get(key), new.get(key), below(path, key))
    elif isinstance(old, list) and isinstance(new, list):
        before, after = _by_value(old, new) or by_name(old, new)
        for name in {**before, **after}:
            yield from changed(before.get(name), after.get(name), f"{path}[{name}]")
    elif isinstance(old, bool) is not isinstance(new, bool) or old != new:
        yield Field(path=path, old=old, new=new)


def _by_value(old: Sequence[Any], new: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return the items of two lists of words by themselves; None for other lists, and where only the order differs."""
    words = all(isinstance(item, str) for item in (*old, *new))
    if not words or len({*old}) < len(old) or len({*new}) < len(new) or {*old} == {*new}:
        return None
    return {item: item for item in old}, {item: item for item in new}


def _decoded(old: Any, new: Any) -> tuple[Any, Any]:
    """Return two objects in JSON as their data, and any other values as they are."""
    if isinstance(old, str) and isinstance(new, str) and old != new and old[:1] == new[:1] == "{":
        try:
            return json.loads(old), json.loads(new)
        except ValueError:
            return old, new
    return old, new


def below(path: str, key: str) -> str:
    """Return the path of a field; a key with dots or slashes is in brackets."""
    is_plain = "." not in key and "/" not in key
    return f"{path}.{key}" if path and is_plain else f"{path}[{key}]" if path else key


def by_name(one: Sequence[Any], other: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the items of two lists by name, or by index where names do not tell them apart."""
    key = next((key for key in _KEYS if _tells_apart(key, one) and _tells_apart(key, other)), None)
    first, second = (
        {str(item[key]) if key else str(index): item for index, item in enumerate(items)} for items in (one, other)
    )
    return first, second


def _tells_apart(key: str, items: Sequence[Any]) -> bool:
    names = [item.get(key) if isinstance(item, Mapping) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
