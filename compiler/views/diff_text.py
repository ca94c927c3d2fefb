"""The difference between two revisions for people."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from compiler import wording
from compiler.changes.comparison import Risk
from compiler.changes.difference import Difference, Fault
from compiler.changes.intent import DocumentChange, FieldChange
from compiler.changes.pods import ObjectPair, PodChange
from compiler.changes.privileges import PrivilegeChange, texts
from compiler.views import effect_sentences

_NAMES = 5
"""Nodes that are named below a sentence."""

_VALUE = 80
"""Characters of a value that are shown."""

_FIELDS = 8
"""Fields that are shown of an object."""

_FINDINGS = 3
"""Errors that are shown of a revision that does not compile."""


def lines(difference: Difference, accepted: Iterable[Risk] = ()) -> Iterator[str]:
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
        ("accepted", (f"{risk.scope}: {wording.escaped(risk.finding.message)}" for risk in accepted)),
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
    for cluster in difference.clusters:
        if cluster.is_new or cluster.is_gone:
            yield f"Cluster {cluster.cluster} is {'new' if cluster.is_new else 'gone'}."
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
    """Yield the lines on the pods that are created, replaced and deleted."""
    several = len(difference.clusters) > 1
    for change in (change for cluster in difference.clusters for change in cluster.pods):
        where = f" in {change.cluster}" if several else ""
        yield f"{change.kind} {change.name}{where}: {_fates(change)}"


def objects(difference: Difference) -> Iterator[str]:
    """Yield the lines on objects that are pruned, changed and added; equal changes share them."""
    several = len(difference.clusters) > 1
    shared: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for cluster in difference.clusters:
        where = f" in {cluster.cluster}" if several else ""
        for pair in cluster.objects:
            shared.setdefault((pair.action, tuple(_object_fields(pair))), []).append(f"{pair.text}{where}")
    for action, changes in sorted(shared, key=lambda key: ("pruned", "changed", "added").index(key[0])):
        yield f"{action}: {wording.listed(shared[action, changes], most=_NAMES)}"
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
    several = len(difference.clusters) > 1
    # A cluster that comes or goes does so with all that its objects may do.
    for cluster in (each for each in difference.clusters if not each.is_new and not each.is_gone):
        objects: dict[tuple[str, ...], list[str]] = {}
        for change in cluster.privileges:
            objects.setdefault(tuple(_privileges(change)), []).append(f"{change.kind} {change.name}")
        for facts, names in objects.items():
            yield f"{wording.listed(names, most=_NAMES)}{f' in {cluster.cluster}' if several else ''}:"
            yield from (f"  {fact}" for fact in facts)


def _privileges(change: PrivilegeChange) -> Iterator[str]:
    yield from ("created",) if change.is_new else ()
    yield from (f"+ {wording.escaped(text)}" for text in texts(change.gained))
    lost = [item for item in change.lost if not change.is_gone or item.sort == "confinement"]
    yield from ("deleted, with what it was allowed",) if change.is_gone else ()
    yield from (f"- {wording.escaped(text)}" for text in texts(lost))


def _fates(change: PodChange) -> str:
    if change.kind == "Deployment":
        return f"{wording.counted(change.replicas, 'pod')} {change.fate}"
    fates = (("created", change.created), ("replaced", change.replaced), ("deleted", change.deleted))
    return f"{wording.listed(f'{len(nodes)} {fate}' for fate, nodes in fates if nodes)}"
