"""The difference between two revisions for people."""

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from compiler import wording
from compiler.changes import deletions
from compiler.changes.difference import ClusterDifference, Difference, PrivilegeChange
from compiler.changes.intent import DocumentChange
from compiler.changes.objects import Pair
from compiler.names import POLICY_KINDS
from compiler.rendering.privileges import pod_template, texts
from compiler.views.diff import risk_groups, sentences

_NAMES = 5
"""Nodes that are named below a sentence."""

_CLUSTERS = 3
"""Clusters that a line names."""

_FIELDS = 8
"""Fields that are shown of an object."""

_LEFT = 20
"""Objects that a line names of those which stay after their cluster."""

_OBJECTS = 40
"""Lines on objects."""

_FINDINGS = 3
"""Errors that are shown of a revision that does not compile."""

_LONGEST = 80
"""Characters of a value that are shown."""

_BEFORE = 20
"""Characters that are shown before the first one that differs, of values that begin alike and are cut."""


def lines(difference: Difference, accepted: Iterable[risk_groups.Group] = ()) -> Iterator[str]:
    """Yield the lines of a difference. `accepted` are the risks that people accepted."""
    revisions = f"from {difference.before.text} to {difference.after.text}"
    yield f"{revisions}: no change" if difference.is_empty else revisions
    for title, part in (
        ("does not compile", faults(difference)),
        ("intent", intent(difference.intent)),
        ("effect", _effects(difference)),
        ("pods", pods(difference)),
        ("privileges", privileges(difference)),
        ("objects", _first([*objects(difference)], _OBJECTS, "more line", "; -o json has all objects")),
        ("accepted", (f"{group.scope}: {wording.escaped(group.text)}" for group in accepted)),
    ):
        shown = list(part)
        if shown:
            yield from ("", f"{title}:", *(f"  {line}" for line in shown))


def faults(difference: Difference) -> Iterator[str]:
    """Yield the lines on what does not compile."""
    for fault in difference.faults:
        revision = difference.before if fault.side == "from" else difference.after
        where = f", cluster {fault.cluster}" if fault.cluster else ""
        number = wording.counted(len(fault.findings), "error")
        yield f"{revision.text}{where}: {number}, so nothing is known of the effect"
        errors = [f"{item.span}: error[{item.code}]: {wording.escaped(item.message)}" for item in fault.findings]
        yield from (f"  {line}" for line in _first(errors, _FINDINGS, "more error"))
    if difference.described:
        sides = {fault.side for fault in difference.faults}
        yield f"{(difference.after if 'from' in sides else difference.before).text} compiles:"
        # That its nodes come to be known is no news.
        running = [structs.replace(effect, before=effect.after) for effect in difference.described]
        yield from (f"  {sentence.text}" for sentence in sentences.sentences(running))


def intent(changes: Sequence[DocumentChange]) -> Iterator[str]:
    """Yield the lines on the fields of documents that differ."""
    for change in changes:
        what = f"{change.kind} {wording.cut(change.name)}".rstrip()
        if change.action == "changed":
            yield f"{what}:"
        elif change.action == "renamed":
            yield f"{what} was {wording.cut(change.old_name)}: {change.span}"
        else:
            yield f"{what} is {change.action}: {change.span}"
        for field in change.fields:
            old, new = values(field.old, field.new)
            yield f"  {field.span}: {field.text}: {old} -> {new}"


def values(old: Any, new: Any) -> tuple[str, str]:
    """Return both values of a field without credentials; long ones are cut, to where they begin to differ."""
    ours, theirs = _value(old), _value(new)
    if ours == theirs:
        # A string and a number may have one text.
        ours, theirs = (json.dumps(wording.value_without_credentials(value)) for value in (old, new))
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    start = max(0, same - _BEFORE) if same > _LONGEST - _BEFORE else 0
    return _cut(ours, start), _cut(theirs, start)


def _value(value: Any) -> str:
    if value is None:
        return "(none)"
    # Cut first, a password could lose the mark by which it is known.
    known = wording.value_without_credentials(value)
    return known if isinstance(known, str) else json.dumps(known, ensure_ascii=False)


def _cut(text: str, start: int) -> str:
    end = start + _LONGEST
    # A text that differs behind what both begin with may end there.
    return wording.escaped(f"{'…' if start else ''}{text[start:end]}{'…' if text[end:] else ''}")


def remarks(difference: Difference) -> Iterator[str]:
    """Yield the sentences on clusters that come and go, and on policies with another name."""
    if difference.is_first:
        yield f"{difference.before.text} has no documents in this project: all that there is counts as new."
    for state, names in (
        ("new", [cluster.cluster for cluster in difference.clusters if cluster.is_new]),
        ("gone", [cluster.cluster for cluster in difference.clusters if cluster.is_gone]),
    ):
        if len(names) == 1:
            yield f"Cluster {names[0]} is {state}."
        elif names:
            yield f"{len(names)} clusters are {state}: {wording.listed(names, most=_NAMES)}."
    gone = [cluster for cluster in difference.clusters if cluster.is_gone]
    if any(cluster.deletion.engine for cluster in gone):
        yield f"{deletions.OF_FOLDERS} What is told of the cluster comes true when its objects are deleted."
    yield from _by_hand(difference.clusters)
    for change in difference.intent:
        if change.kind in POLICY_KINDS and change.action == "renamed":
            was, now = wording.cut(change.old_name), wording.cut(change.name)
            comes = "DaemonSets of the new name come, and the others leave the output"
            yield f"Policy {was} is named {now} from now on: {comes}."
    for cluster in difference.clusters:
        yield from _tainted(cluster)


def _tainted(cluster: ClusterDifference) -> Iterator[str]:
    """Yield the sentences on pods that may be there from before a NoSchedule taint, which no inventory tells."""
    taint = "NoSchedule taint that the policy does not tolerate: a pod that is there from before the taint"
    for nodes, verb, end in (
        (cluster.barred, ("has", "have"), "is deleted, and none comes until the taint goes"),
        (cluster.freed, ("loses", "lose"), "counts as one that comes, and stays unless its template changes"),
    ):
        if count := len(nodes):
            yield f"{wording.counted(count, 'node')} of cluster {cluster.cluster} {verb[count > 1]} a {taint} {end}."


def _by_hand(clusters: Iterable[ClusterDifference]) -> Iterator[str]:
    """Yield the sentence on clusters of which no engine deletes what leaves the output."""
    own = [each.cluster for each in clusters if not each.deletion.engine and any(map(_leaves, each.objects))]
    if own:
        verb = "has" if len(own) == 1 else "have"
        has = f"{wording.inflected('Cluster', len(own))} {wording.listed(own, most=_NAMES)} {verb}"
        yield (
            f"{has} no engine (gitops.engine: none): what is told of objects that leave the output comes true when "
            "somebody deletes them, which kubectl apply does not."
        )


def _leaves(pair: Pair) -> bool:
    return pair.after is None and not pair.is_by_hand


def unknown(difference: Difference) -> Iterator[str]:
    """Yield the sentences on what nobody knows of a change."""
    if difference.is_unexplained:
        yield "What output/ has beside the documents, made by another release of kae or by hand, is not in this."
    if difference.is_moved:
        yield "What applies an output decides what becomes of nodes as that comes to another folder: it is not in this."


def _effects(difference: Difference) -> Iterator[str]:
    yield from remarks(difference)
    several = len(difference.clusters) > 1
    for sentence in sentences.sentences(difference.effects):
        first = list(itertools.islice(sentence.names(with_clusters=several), _NAMES))
        more = sentence.size - len(first)
        yield sentence.text
        yield f"  {wording.listed([*first, f'{more} more'] if more else first)}"
    if difference.effects:
        yield sentences.loss(difference.effects, difference.barred)
    elif difference.clusters and not (difference.faults or any(unknown(difference))):
        yield "No node is affected."
    yield from unknown(difference)


def pods(difference: Difference) -> Iterator[str]:
    """Yield the lines on the pods that are created, replaced and deleted; those of equal names are one."""
    for kind, name, clusters, counts in pod_groups(difference):
        unit = f"{wording.inflected('pod', sum(counts.values()))} " if kind == "Deployment" else ""
        fates = wording.listed(f"{number} {unit}{fate}" for fate, number in counts.items() if number)
        yield f"{kind} {name}{where(difference, clusters)}: {fates}"


def pod_groups(difference: Difference) -> Iterator[tuple[str, str, Sequence[str], Mapping[str, int]]]:
    """Yield the kind and the name of each workload, its clusters, and the pods in them by what happens to them."""
    found: dict[tuple[str, str, tuple[str, ...]], dict[str, Counter[str]]] = {}
    for cluster, change in ((each.cluster, change) for each in difference.clusters for change in each.pods):
        counts = Counter({fate: len(nodes) for fate, nodes in change.nodes._asdict().items()})
        counts.update({change.fate: change.replicas} if change.fate else {})
        fates = tuple(fate for fate, number in counts.items() if number)
        found.setdefault((change.ref.kind, change.ref.name, fates), {})[cluster] = counts
    for (kind, name, _), own in found.items():
        yield kind, name, list(own), sum(own.values(), Counter())


def objects(difference: Difference) -> Iterator[str]:
    """Yield the lines on objects that are pruned, changed and added; equal changes share them.

    Those of clusters that come or go are only counted.
    """
    gone = [cluster for cluster in difference.clusters if cluster.is_gone]
    yield from _whole("no longer in the output", gone)
    yield from _left(gone)
    yield from _whole("added", [cluster for cluster in difference.clusters if cluster.is_new])
    shared: dict[tuple[int, str, tuple[str, ...]], dict[str, list[str]]] = {}
    for cluster in (item for item in difference.clusters if not item.is_new and not item.is_gone):
        for pair in cluster.objects:
            # What is pruned is gone as soon as it is merged.
            rank = ("pruned", "changed", "added").index(pair.change)
            own = shared.setdefault((rank, _happens(pair, cluster.deletion), tuple(_object_fields(pair))), {})
            own.setdefault(wording.escaped(str(pair.ref)), []).append(cluster.cluster)
    for (_, happens, changes), own in sorted(shared.items(), key=lambda item: item[0][0]):
        named = [f"{text}{where(difference, clusters)}" for text, clusters in own.items()]
        yield from (f"{happens}: {name}" for name in ([wording.listed(named, most=_NAMES)] if changes else named))
        yield from (f"  {line}" for line in changes)


def _whole(change: str, clusters: Sequence[ClusterDifference]) -> Iterator[str]:
    """Yield the line on all objects of clusters."""
    number = sum(len(cluster.objects) for cluster in clusters)
    if number:
        named = f"cluster {clusters[0].cluster}" if len(clusters) == 1 else f"{len(clusters)} clusters"
        yield f"{change}: {wording.counted(number, 'object')}, with {named}"


def _left(gone: Sequence[ClusterDifference]) -> Iterator[str]:
    """Yield the lines on what engines leave in clusters whose output goes."""
    left: dict[str, list[str]] = {}
    for cluster in gone:
        for pair in cluster.objects:
            if pair.protector is not None:
                where = f" of cluster {cluster.cluster}" if len(gone) > 1 else ""
                left.setdefault(deletions.ENGINES[pair.protector], []).append(wording.escaped(f"{pair.ref}{where}"))
    for engine, own in left.items():
        yield f"  but {engine} leaves {len(own)} of them in the cluster: {wording.listed(own, most=_LEFT)}"


def _happens(pair: Pair, deletion: deletions.Deletion) -> str:
    """Return what happens to an object, with what a person has to know of it."""
    if pair.is_by_hand:
        return f"{pair.change} in bootstrap/, which people apply"
    if pair.protector is not None:
        return f"pruned from the output, but {deletions.ENGINES[pair.protector]} leaves it in the cluster"
    if pair.change != "pruned" or deletion.prunes:
        return f"pruned by {deletion.engine}" if pair.change == "pruned" else pair.change
    return f"leaves the output, and {deletion.of('it')}" if deletion.engine else "leaves the output"


def _object_fields(pair: Pair) -> Iterator[str]:
    fields = ["{}: {} -> {}".format(item.text, *values(item.old, item.new)) for item in pair.fields()]
    yield from _first(fields, _FIELDS, "more field")
    if pair.change == "changed" and not fields:
        yield "only the order of items"


def _first(found: Sequence[str], most: int, noun: str, where: str = "") -> Iterator[str]:
    """Yield the first lines, and the number of the others."""
    yield from found[:most]
    if len(found) > most:
        yield f"and {wording.counted(len(found) - most, noun)}{where}"


def privileges(difference: Difference) -> Iterator[str]:
    """Yield the lines on privileges that objects gain and lose; those of equal changes are one."""
    for clusters, names, facts in privilege_groups(difference):
        yield f"{wording.listed(names, most=_NAMES)}{where(difference, clusters)}:"
        yield from (f"  {fact}" for fact in facts)


def privilege_groups(difference: Difference) -> Iterator[tuple[Sequence[str], Sequence[str], Sequence[str]]]:
    """Yield the clusters, the objects in each of them, and what these gain and lose."""
    found: dict[tuple[tuple[str, ...], tuple[str, ...]], list[str]] = {}
    # A cluster that comes or goes does so with all that its objects may do.
    for cluster in (each for each in difference.clusters if not each.is_new and not each.is_gone):
        objects: dict[tuple[str, ...], list[str]] = {}
        for change in cluster.privileges:
            objects.setdefault(tuple(_privileges(change, cluster.deletion)), []).append(
                f"{change.pair.ref.kind} {change.pair.ref.name}"
            )
        for facts, names in objects.items():
            found.setdefault((tuple(names), facts), []).append(cluster.cluster)
    for (equal, facts), clusters in found.items():
        yield clusters, equal, facts


def where(difference: Difference, clusters: Sequence[str]) -> str:
    """Return where something happens; nothing for a difference of one cluster."""
    if len(difference.clusters) == 1:
        return ""
    return f" in {wording.listed(clusters) if len(clusters) <= _CLUSTERS else f'{len(clusters)} clusters'}"


def _privileges(change: PrivilegeChange, deletion: deletions.Deletion) -> Iterator[str]:
    pair = change.pair
    is_gone, is_new = pair.after is None, pair.before is None
    # What a workload does not do says nothing where all of it comes or goes; another object confines others.
    confines = not (is_gone or is_new) or pod_template(pair.after or pair.before or {}) is None
    gained, lost = (
        [item for item in own if item.sort != "confinement" or confines] for own in (change.gained, change.lost)
    )
    yield from ("created",) if is_new else ()
    yield from (f"+ {wording.escaped(text)}" for text in texts(gained))
    if is_gone and (pair.protector is not None or not deletion.prunes):
        yield "leaves the output, and stays with what it is allowed until somebody deletes it"
    elif is_gone:
        yield "deleted, with what it was allowed"
    lost = [item for item in lost if not is_gone or item.sort == "confinement"]
    yield from (f"- {wording.escaped(text)}" for text in texts(lost))
