"""The differences between a rendered and a live object.

The objects that grant, confine, label or run something are compared in every field, apart from what the API server
fills in; the others, and all metadata, in the rendered fields only, as others may add theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler import wording
from compiler.formats import field_difference
from compiler.model import base
from compiler.status import defaults

_AMOUNTS = ("limits", "requests")
"""Fields of quantities, which the API server writes in a form of its own."""

_AGGREGATION = "rbac.authorization.k8s.io/aggregate-to-"
"""The beginning of a label by which a ClusterRole gives its rules to another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A field that is not as rendered."""

    path: str
    """From the top, as in spec.containers[worker].image."""
    wanted: Any
    """None for a field, or an item of a list, that is not rendered."""
    live: Any
    """None where the live object lacks the field."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a value is."""

    path: str = ""
    """From the top, with the names of list items."""
    place: str = ""
    """The same without them, as `defaults` writes it."""
    filled_in: defaults.Fields | None
    """What the API server fills in; None where only rendered fields are compared."""

    def field(self, key: str) -> "_Place":
        """Return the place of a field."""
        # Metadata is everybody's: labels and annotations of others, and what the API server records.
        filled_in = self.filled_in if self.path or key != "metadata" else None
        path = field_difference.below(self.path, wording.dotted((key,)))
        return _Place(path=path, place=f"{self.place}.{key}" if self.place else key, filled_in=filled_in)

    def item(self, name: str) -> "_Place":
        """Return the place of an item of a list."""
        return _Place(path=f"{self.path}[{name}]", place=f"{self.place}.*", filled_in=self.filled_in)


def changes(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return every field of `wanted` that `live` lacks or has otherwise, and what others added to it.

    That is every extra item in a rendered list, and of the kinds that `defaults` names every extra field.
    """
    return tuple(_in_mapping(wanted, live, _Place(filled_in=defaults.of_kind(wanted.get("kind")))))


def _compared(wanted: Any, live: Any, at: _Place) -> Iterator[Change]:
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        yield from _in_mapping(wanted, live, at)
    elif isinstance(wanted, list) and isinstance(live, list):
        yield from _in_list(wanted, live, at)
    elif isinstance(wanted, bool) is not isinstance(live, bool) or wanted != live:
        yield Change(path=at.path, wanted=wanted, live=live)


def _in_mapping(wanted: Mapping[str, Any], live: Mapping[str, Any], at: _Place) -> Iterator[Change]:
    is_amounts = at.path.rpartition(".")[2] in _AMOUNTS
    for key in sorted(wanted):
        if not (is_amounts and _is_same_amount(wanted[key], live.get(key))):
            yield from _compared(wanted[key], live.get(key), at.field(key))
    for key in sorted(live.keys() - wanted.keys()):
        below = at.field(key)
        if _is_added(below, key, live):
            yield Change(path=below.path, wanted=None, live=live[key])


def _is_added(at: _Place, key: str, live: Mapping[str, Any]) -> bool:
    """Return whether somebody has added a field that is not rendered, and that has to be as rendered."""
    if at.filled_in is None:
        return at.place == f"metadata.labels.{key}" and key.startswith(_AGGREGATION)
    return at.path != "status" and not defaults.is_filled_in(at.filled_in, at.place, live[key], live)


def _in_list(wanted: Sequence[Any], live: Sequence[Any], at: _Place) -> Iterator[Change]:
    key = field_difference.naming_key(wanted, live)
    ours, theirs = (
        {str(item[key]) if key else str(index): item for index, item in enumerate(items)} for items in (wanted, live)
    )
    for name, wanted_item in ours.items():
        yield from _compared(wanted_item, theirs.get(name), at.item(name))
    for name, live_item in theirs.items():
        if name not in ours:
            yield Change(path=at.item(name).path, wanted=None, live=live_item)


def _is_same_amount(wanted: Any, live: Any) -> bool:
    ours, theirs = base.amount_of(wanted), base.amount_of(live)
    return ours is not None and ours == theirs
