"""What a compile changes, by object: lines for people, data for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from compiler import diagnostic_formats, wording
from compiler.changes import objects, pods
from compiler.packing import Packed

_MOST = 20
"""The objects that are listed of a cluster; the others are counted."""

_CLUSTERS = 10
"""The clusters whose objects are listed; of the others, the first line tells how many objects change."""

_WORDS: Mapping[str, str] = {"added": "created", "changed": "replaced", "pruned": "deleted"}
"""What an engine does to an object, by what happens to it in the output."""


class Said(msgspec.Struct, frozen=True):
    """The change of a cluster, as it is said to people or to programs."""

    headline: str
    listed: tuple[str, ...]
    """A line for each object; none for a new cluster."""
    data: Packed[str] | None
    """The JSON of an item in a list of changes; None for people."""


def said(change: pods.Compiled, *, for_programs: bool) -> Said | None:
    """Return what is said of a change; None where nothing changes."""
    if not change.pairs:
        return None
    if for_programs:
        return Said("", (), Packed.of(diagnostic_formats.item(_data(change))))
    return Said(_headline(change), () if change.is_new else tuple(_listed(change)), None)


def lines(changes: Sequence[Said]) -> Iterator[str]:
    """Yield a line for each cluster, with its objects below it."""
    for number, change in enumerate(changes):
        yield change.headline
        yield from change.listed if number < _CLUSTERS else ()


def _refs(change: pods.Compiled, own: str) -> list[objects.Ref]:
    refs = (pair.ref for pair in change.pairs if pair.change == own)
    return sorted(refs, key=lambda ref: (ref.kind, ref.name, ref.namespace))


def _restarts(change: pods.Compiled, ref: objects.Ref) -> Sequence[str]:
    """Return the nodes on which the pods of a workload restart with another template."""
    return next((own.nodes.replaced for own in change.pods or () if own.ref == ref), ())


def _headline(change: pods.Compiled) -> str:
    (count, word), *others = [(len(refs), word) for own, word in _WORDS.items() if (refs := _refs(change, own))]
    said = [f"{wording.counted(count, 'object')} {word}", *(f"{number} {word}" for number, word in others)]
    nodes = change.nodes
    if nodes is None:
        return f"{change.cluster}: {', '.join(said)}"
    touched = f"{wording.nodes(nodes)} touched" if nodes else "no node touched"
    return f"{change.cluster}: {', '.join(said)}; {touched}"


def _listed(change: pods.Compiled) -> Iterator[str]:
    # What goes comes first: it must not be among those that are only counted.
    rows = [(word, ref) for own, word in reversed(tuple(_WORDS.items())) for ref in _refs(change, own)]
    for word, ref in rows[:_MOST]:
        nodes = _restarts(change, ref)
        restart = f", whose pods restart on {wording.counted(len(nodes), 'node')}" if nodes else ""
        yield f"  {word:8}  {wording.escaped(str(ref))}{restart}"
    if rows[_MOST:]:
        yield f"  and {wording.counted(len(rows) - _MOST, 'more object')}, which -o json lists"
    if change.deletion and not change.deletion.prunes and _refs(change, "pruned"):
        yield f"  what is deleted leaves the output: {change.deletion.of('it')}"


def _data(change: pods.Compiled) -> dict[str, Any]:
    refs = [pair.ref for pair in change.pairs]
    return {
        "cluster": change.cluster,
        **{word: list(map(_ref, _refs(change, own))) for own, word in _WORDS.items()},
        "restarts": [{**_ref(ref), "nodes": nodes} for ref in refs if (nodes := _restarts(change, ref))],
        "nodes": change.nodes,
    }


def _ref(ref: objects.Ref) -> dict[str, str | None]:
    return {"kind": ref.kind, "namespace": ref.namespace or None, "name": ref.name}
