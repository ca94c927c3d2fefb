"""The difference between two revisions for people."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compiler import wording
from compiler.changes.difference import Difference, Fault
from compiler.changes.intent import DocumentChange, FieldChange
from compiler.changes.pods import ObjectPair
from compiler.changes.privileges import PrivilegeChange, texts
from compiler.views import effect_sentences, risk_groups

_NAMES = 5
"""Nodes that are named below a sentence."""

_CLUSTERS = 3
"""Clusters that a line names."""

_VALUE = 80
"""Characters of a value that are shown."""

_FIELDS = 8
"""Fields that are shown of an object."""

_FINDINGS = 3
"""Errors that are shown of a revision that does not compile."""


def lines(difference: Difference, accepted: Iterable[risk_groups.Group] = ()) -> Iterator[str]:
    """Yield the lines of a difference; none where nothing differs. `accepted` are the risks that people accepted."""
    if difference.is_empty:
        return
    yield f"from {difference.before.text} to {difference.after.text}"
    for title, part in (
        ("does not compile", faults(difference)),
        ("intent", intent(difference.intent)),
        ("effect", _effects(difference)),
        ("pods", pods(difference)),
        ("objects", objects(difference)),
        ("privileges", privileges(difference)),
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
        yield from _findings(fault)
    if difference.described:
        sides = {fault.side for fault in difference.faults}
        yield f"{(difference.after if 'from' in sides else difference.before).text} compiles:"
        # That its nodes come to be known is no news.
        running = [replace(effect, before=effect.after) for effect in difference.described]
        yield from (f"  {sentence.text}" for sentence in effect_sentences.sentences(running))


def _findings(fault: Fault) -> Iterator[str]:
    for finding in fault.findings[:_FINDINGS]:
        yield f"  {finding.span}: error[{finding.code}]: {wording.escaped(finding.message)}"
    if len(fault.findings) > _FINDINGS:
        yield f"  and {wording.counted(len(fault.findings) - _FINDINGS, 'more error')}"


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
            yield f"  {field_line(field)}"


def field_line(field: FieldChange) -> str:
    """Return a field that differs on one line: its place, its path, and its values."""
    return f"{field.span}: {field.text}: {value_text(field.old)} -> {value_text(field.new)}"


def value_text(value: Any) -> str:
    """Return the value of a field on one line, without credentials, and cut where it is long."""
    if value is None:
        return "(none)"
    # Cut first, a password could lose the mark by which it is known.
    known = wording.value_without_credentials(value)
    text = known if isinstance(known, str) else json.dumps(known, ensure_ascii=False)
    return wording.escaped(text if len(text) <= _VALUE else f"{text[:_VALUE]}…")


def remarks(difference: Difference) -> Iterator[str]:
    """Yield the sentences on clusters that come and go, and on policies with another name."""
    for state, names in (
        ("new", [cluster.cluster for cluster in difference.clusters if cluster.is_new]),
        ("gone", [cluster.cluster for cluster in difference.clusters if cluster.is_gone]),
    ):
        if len(names) == 1:
            yield f"Cluster {names[0]} is {state}."
        elif names:
            yield f"{len(names)} clusters are {state}: {wording.listed(names, most=_NAMES)}."
    for change in difference.intent:
        if change.kind == "KAEPolicy" and change.action == "renamed":
            was, now = wording.cut(change.old_name), wording.cut(change.name)
            yield f"Policy {was} is named {now} from now on: its DaemonSets are deleted, and created with the new name."


def _effects(difference: Difference) -> Iterator[str]:
    yield from remarks(difference)
    several = len(difference.clusters) > 1
    for sentence in effect_sentences.sentences(difference.effects):
        yield sentence.text
        yield f"  {sentence.named(_NAMES, with_clusters=several)}"
    if difference.effects:
        yield effect_sentences.loss(difference.effects)
    elif difference.clusters and not difference.faults:
        yield "No node is affected."


def pods(difference: Difference) -> Iterator[str]:
    """Yield the lines on the pods that are created, replaced and deleted; those of equal names are one."""
    for kind, name, clusters, counts in pod_groups(difference):
        unit = f"{wording.inflected('pod', sum(counts.values()))} " if kind == "Deployment" else ""
        fates = wording.listed(f"{number} {unit}{fate}" for fate, number in counts.items() if number)
        yield f"{kind} {name}{where(difference, clusters)}: {fates}"


def pod_groups(difference: Difference) -> Iterator[tuple[str, str, Sequence[str], Mapping[str, int]]]:
    """Yield the kind and the name of each workload, its clusters, and the pods in them by what happens to them."""
    found: dict[tuple[str, str, tuple[str, ...]], dict[str, Counter[str]]] = {}
    for change in (change for cluster in difference.clusters for change in cluster.pods):
        counts = Counter(
            {"created": len(change.created), "replaced": len(change.replaced), "deleted": len(change.deleted)}
        )
        counts.update({change.fate: change.replicas} if change.fate else {})
        fates = tuple(fate for fate, number in counts.items() if number)
        found.setdefault((change.kind, change.name, fates), {})[change.cluster] = counts
    for (kind, name, _), own in found.items():
        yield kind, name, list(own), sum(own.values(), Counter())


def objects(difference: Difference) -> Iterator[str]:
    """Yield the lines on objects that are pruned, changed and added; equal changes share them."""
    shared: dict[tuple[str, tuple[str, ...]], dict[str, list[str]]] = {}
    for cluster in difference.clusters:
        for pair in cluster.objects:
            own = shared.setdefault((pair.action, tuple(_object_fields(pair))), {})
            own.setdefault(pair.text, []).append(cluster.cluster)
    for action, changes in sorted(shared, key=lambda key: ("pruned", "changed", "added").index(key[0])):
        same = shared[action, changes].items()
        yield f"{action}: {wording.listed((f'{text}{where(difference, own)}' for text, own in same), most=_NAMES)}"
        yield from (f"  {line}" for line in changes)


def _object_fields(pair: ObjectPair) -> Iterator[str]:
    fields = pair.fields
    for item in fields[:_FIELDS]:
        yield f"{item.path}: {value_text(item.old)} -> {value_text(item.new)}"
    if len(fields) > _FIELDS:
        yield f"and {wording.counted(len(fields) - _FIELDS, 'more field')}"
    if pair.action == "changed" and not fields:
        yield "only the order of items"


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
            objects.setdefault(tuple(_privileges(change)), []).append(f"{change.kind} {change.name}")
        for facts, names in objects.items():
            found.setdefault((tuple(names), facts), []).append(cluster.cluster)
    for (equal, facts), clusters in found.items():
        yield clusters, equal, facts


def where(difference: Difference, clusters: Sequence[str]) -> str:
    """Return where something happens; nothing for a difference of one cluster."""
    if len(difference.clusters) == 1:
        return ""
    return f" in {wording.listed(clusters) if len(clusters) <= _CLUSTERS else f'{len(clusters)} clusters'}"


def _privileges(change: PrivilegeChange) -> Iterator[str]:
    yield from ("created",) if change.is_new else ()
    yield from (f"+ {wording.escaped(text)}" for text in texts(change.gained))
    lost = [item for item in change.lost if not change.is_gone or item.sort == "confinement"]
    yield from ("deleted, with what it was allowed",) if change.is_gone else ()
    yield from (f"- {wording.escaped(text)}" for text in texts(lost))
