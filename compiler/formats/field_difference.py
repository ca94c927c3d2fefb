"""The fields that differ between two versions of data, by path and value.

Mappings are compared by key, lists of mappings by the names of their items, and other lists as sequences: an item that
is inserted moves no other one.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from compiler import wording
from compiler.formats import documents

_KEYS = ("name", "mountPath", "path", "key")
"""The keys of list items; the first that every item has, with no value twice, identifies the items."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A field with another value."""

    text: str
    """The path for people, with the names of list items: spec.containers[worker].image."""
    was: documents.Path | None
    """The path in the old version; None for a field that is added."""
    now: documents.Path | None
    """The path in the new version; None for a field that is removed."""
    old: Any
    new: Any


class _Place(msgspec.Struct, frozen=True):
    text: str
    was: documents.Path
    now: documents.Path
    with_order: bool
    by_place: bool

    def member(self, key: str) -> "_Place":
        """Return the place of a value in a mapping."""
        text = below(self.text, wording.dotted((key,)))
        return structs.replace(self, text=text, was=(*self.was, key), now=(*self.now, key))

    def item(self, name: str | int, was: int | None, now: int | None) -> "_Place":
        """Return the place of an item of a list, which has one of the indexes at least."""
        path_was, path_now = ((*path, index or 0) for path, index in ((self.was, was), (self.now, now)))
        shown = name if self.by_place else wording.cut(name)
        return structs.replace(self, text=f"{self.text}[{shown}]", was=path_was, now=path_now)

    def changed(self, old: Any, new: Any) -> Field:
        return Field(text=self.text, was=self.was, now=self.now, old=old, new=new)

    def added(self, value: Any) -> Field:
        return Field(text=self.text, was=None, now=self.now, old=None, new=value)

    def removed(self, value: Any) -> Field:
        return Field(text=self.text, was=self.was, now=None, old=value, new=None)


def fields(old: Any, new: Any, *, with_order: bool = False, by_place: bool = False) -> Iterator[Field]:
    """Yield the fields that differ; `with_order` also the lists whose named items have another order.

    `by_place` compares the items of lists without names place by place, so that an inserted one moves the others, takes
    keys in their order, and cuts no name: a support bundle tells by it what is secret.
    """
    yield from _compared(old, new, _Place("", (), (), with_order, by_place))


def below(text: str, inner: str) -> str:
    """Return the path of people that goes on with another."""
    return f"{text}.{inner}" if text and inner[:1] not in ("", "[") else f"{text}{inner}"


def naming_key(old: Sequence[Any], new: Sequence[Any]) -> str | None:
    """Return the key whose values tell the items of both lists apart; None where no key does."""
    return next((key for key in _KEYS if _tells_apart(key, old) and _tells_apart(key, new)), None)


def _tells_apart(key: str, items: Sequence[Any]) -> bool:
    names = [item.get(key) if isinstance(item, Mapping) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)


def _compared(old: Any, new: Any, at: _Place) -> Iterator[Field]:
    if old is new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _members(old, new, at)
    elif isinstance(old, list) and isinstance(new, list):
        key = naming_key(old, new)
        if key is not None or at.by_place:
            yield from _named_items(old, new, key, at)
        else:
            yield from _sequence(old, new, at)
    elif old != new or isinstance(old, bool) is not isinstance(new, bool):
        yield at.changed(old, new)


def _members(old: Mapping[str, Any], new: Mapping[str, Any], at: _Place) -> Iterator[Field]:
    for key in [*sorted(new), *sorted(old.keys() - new.keys())] if at.by_place else {**new, **old}:
        below = at.member(key)
        if key not in old:
            yield below.added(new[key])
        elif key not in new:
            yield below.removed(old[key])
        else:
            yield from _compared(old[key], new[key], below)


def _named_items(old: Sequence[Any], new: Sequence[Any], key: str | None, at: _Place) -> Iterator[Field]:
    ours, theirs = ({item[key] if key else index: index for index, item in enumerate(items)} for items in (old, new))
    kept_before, kept_after = [name for name in ours if name in theirs], [name for name in theirs if name in ours]
    if at.with_order and kept_before != kept_after:
        yield at.changed(list(ours), list(theirs))
    for name in {**theirs, **ours}:
        was, now = ours.get(name), theirs.get(name)
        below = at.item(name, was, now)
        if was is None or now is None:
            yield below.added(new[now]) if now is not None else below.removed(old[was or 0])
        else:
            yield from _compared(old[was], new[now], below)


def _sequence(old: Sequence[Any], new: Sequence[Any], at: _Place) -> Iterator[Field]:
    ours, theirs = ([json.dumps(item, sort_keys=True) for item in items] for items in (old, new))
    import difflib  # noqa: PLC0415 - only where something differs

    matcher = difflib.SequenceMatcher(None, ours, theirs, autojunk=False)
    for happens, start, end, other_start, other_end in matcher.get_opcodes():
        was, now = range(start, end), range(other_start, other_end)
        if happens == "equal":
            continue
        if len(was) == len(now):
            for index, other in zip(was, now, strict=True):
                yield from _compared(old[index], new[other], at.item(other, index, other))
        else:
            yield from (at.item(index, index, None).removed(old[index]) for index in was)
            yield from (at.item(other, None, other).added(new[other]) for other in now)
