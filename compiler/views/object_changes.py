"""What a compile changes, by object: lines for people, data for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from compiler import diagnostic_formats, wording
from compiler.changes import objects
from compiler.packing import Packed

_MOST = 20
"""The objects that are listed of a cluster; the others are counted."""

_CLUSTERS = 10
"""The clusters whose objects are listed; of the others, the first line tells how many objects change."""


class Said(msgspec.Struct, frozen=True):
    """The change of a cluster, as it is said to people or to programs."""

    headline: str
    listed: tuple[str, ...]
    """A line for each object; none for a new cluster."""
    data: Packed[str] | None
    """The JSON of an item in a list of changes; None for people."""


def said(change: objects.Objects, *, for_programs: bool) -> Said | None:
    """Return what is said of a change; None where nothing changes."""
    if not change:
        return None
    if for_programs:
        return Said("", (), Packed.of(diagnostic_formats.item(_data(change))))
    return Said(_headline(change), () if change.is_new else tuple(_listed(change)), None)


def lines(changes: Sequence[Said]) -> Iterator[str]:
    """Yield a line for each cluster, with its objects below it."""
    for number, change in enumerate(changes):
        yield change.headline
        yield from change.listed if number < _CLUSTERS else ()


def _by_word(change: objects.Objects) -> dict[str, tuple[objects.Ref, ...]]:
    return {"created": change.created, "replaced": change.replaced, "deleted": change.deleted}


def _headline(change: objects.Objects) -> str:
    said = [f"{len(refs)} {word}" for word, refs in _by_word(change).items() if refs]
    total = sum(map(len, _by_word(change).values()))
    said[0] = said[0].replace(" ", f" {wording.inflected('object', total)} ", 1)
    if change.nodes is None:
        return f"{change.cluster}: {', '.join(said)}"
    touched = f"{wording.nodes(change.nodes)} touched" if change.nodes else "no node touched"
    return f"{change.cluster}: {', '.join(said)}; {touched}"


def _listed(change: objects.Objects) -> Iterator[str]:
    # What goes comes first: it must not be among those that are only counted.
    rows = [(word, ref) for word, refs in reversed(_by_word(change).items()) for ref in refs]
    for word, ref in rows[:_MOST]:
        nodes = change.restarts.get(ref, ()) if word == "replaced" else ()
        restart = f", whose pods restart on {wording.counted(len(nodes), 'node')}" if nodes else ""
        yield f"  {word:8}  {wording.escaped(str(ref))}{restart}"
    if rows[_MOST:]:
        yield f"  and {wording.counted(len(rows) - _MOST, 'more object')}, which -o json lists"


def _data(change: objects.Objects) -> dict[str, Any]:
    return {
        "cluster": change.cluster,
        **{word: list(map(_ref, refs)) for word, refs in _by_word(change).items()},
        "restarts": [{**_ref(ref), "nodes": list(nodes)} for ref, nodes in change.restarts.items()],
        "nodes": None if change.nodes is None else list(change.nodes),
    }


def _ref(ref: objects.Ref) -> dict[str, str | None]:
    return {"kind": ref.kind, "namespace": ref.namespace or None, "name": ref.name}
