"""The differences between a rendered and a live object, in the rendered fields only."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler.model import quantities

_KEYS = ("name", "mountPath", "path", "key")
"""The keys of list items; the first that every item has, with no value twice, identifies the items."""

_AMOUNTS = ("limits", "requests")
"""Fields of quantities, which the API server writes in a form of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A field that is not as rendered."""

    path: str
    """From the top, as in spec.containers[worker].image."""
    wanted: Any
    """None for an item of a list that is not rendered."""
    live: Any
    """None where the live object lacks the field."""


def changes(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return every field of `wanted` that `live` lacks or has otherwise, and every extra item in a rendered list."""
    return tuple(_in_mapping(wanted, live, ""))


def _compared(wanted: Any, live: Any, path: str) -> Iterator[Change]:
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        yield from _in_mapping(wanted, live, path)
    elif isinstance(wanted, list) and isinstance(live, list):
        yield from _in_list(wanted, live, path)
    elif isinstance(wanted, bool) is not isinstance(live, bool) or wanted != live:
        yield Change(path=path, wanted=wanted, live=live)


def _in_mapping(wanted: Mapping[str, Any], live: Mapping[str, Any], path: str) -> Iterator[Change]:
    is_amounts = path.rpartition(".")[2] in _AMOUNTS
    for key in sorted(wanted):
        place = f"{path}.{key}" if path and _is_plain(key) else f"{path}[{key}]" if path else key
        if not (is_amounts and _is_same_amount(wanted[key], live.get(key))):
            yield from _compared(wanted[key], live.get(key), place)


def _in_list(wanted: Sequence[Any], live: Sequence[Any], path: str) -> Iterator[Change]:
    key = next((key for key in _KEYS if _tells_apart(key, wanted) and _tells_apart(key, live)), None)
    ours = {str(item[key]) if key else str(index): item for index, item in enumerate(wanted)}
    theirs = {str(item[key]) if key else str(index): item for index, item in enumerate(live)}
    for name, wanted_item in ours.items():
        yield from _compared(wanted_item, theirs.get(name), f"{path}[{name}]")
    for name, live_item in theirs.items():
        if name not in ours:
            yield Change(path=f"{path}[{name}]", wanted=None, live=live_item)


def _tells_apart(key: str, items: Sequence[Any]) -> bool:
    names = [item.get(key) if isinstance(item, Mapping) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _is_plain(key: str) -> bool:
    """Return whether a key can be written between dots."""
    return "." not in key and "/" not in key


def _is_same_amount(wanted: Any, live: Any) -> bool:
    ours, theirs = quantities.value(wanted), quantities.value(live)
    return ours is not None and ours == theirs
