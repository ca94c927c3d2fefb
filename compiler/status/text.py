"""The status of a live cluster for people: a table of its DaemonSets, then everything that is not as planned."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import compiler
from compiler import repeats, wording
from compiler.planning import images, loaded
from compiler.status import cluster_status, dra_devices, drift, live_objects, rollout

_NODES = 8
"""Nodes that are named for each problem; the JSON names all."""

_VALUE = 80
"""Characters that are shown of a value."""

_COMPILE = "this compares with what they compile to. Run `kae compile`"
_OUTPUT = {
    "old": f"is not what the documents compile to; {_COMPILE}",
    "incomplete": f"was left incomplete by a compile that was interrupted; {_COMPILE}",
    "edited": f"was edited by hand; {_COMPILE}",
    "foreign": "holds files that are not the compiler's; `kae compile --check` names them",
}
_KINDS = {"missing": "no pod", "surplus": "one too many", "not-ready": "not ready", "old": "old", "image": "image"}


AgeS = Callable[[str], int | None]
"""The seconds since a time of Kubernetes; None where it is none."""


def text(status: cluster_status.ClusterStatus, age_s: AgeS) -> str:
    """Return the status as text."""
    return "".join(f"{wording.escaped(line)}\n" if line else "\n" for line in _lines(status, age_s))


def age(seconds: int | None) -> str:
    """Return an age as kubectl writes it: 45s, 12m, 3h, 5d."""
    if seconds is None:
        return "an unknown time"
    for unit, length, enough in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172_800)):
        if seconds < enough:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86_400}d"


def _lines(status: cluster_status.ClusterStatus, age_s: AgeS) -> Iterator[str]:
    stands = "as planned" if status.as_planned else "not as planned"
    yield f"cluster {status.cluster} at {status.server}, {wording.counted(len(status.nodes), 'node')}: {stands}"
    if status.output != "fine":
        yield f"The output {_OUTPUT[status.output]}."
    yield ""
    yield from _table(status)
    for title, lines in (
        ("pods", _pods(status.rollouts, age_s)),
        ("drivers not loaded as planned", _differing(status.differing)),
        ("devices by DRA", _devices(status.devices)),
        ("rollouts held up", _held_up(status.rollouts)),
        ("leases", _leases(status.leases)),
        ("deployments", _deployments(status.deployments)),
        ("nodes not ready", _not_ready(status, age_s)),
        ("objects", _objects(status.drifts)),
        ("other releases", _skews(status.skews)),
        ("inventory", _inventory(status)),
    ):
        shown = list(lines)
        if shown:
            yield from ("", f"{title}:", *(f"  {line}" for line in shown))


def _table(status: cluster_status.ClusterStatus) -> Iterator[str]:
    rows = [
        (
            daemon_set.wanted.name,
            str(len(daemon_set.wanted.planned)),
            str(daemon_set.pods),
            str(daemon_set.ready),
            str(daemon_set.current),
            _summary(daemon_set),
        )
        for daemon_set in status.rollouts
    ]
    head = ("DAEMONSET", "PLANNED", "PODS", "READY", "CURRENT", "STATE")
    yield from wording.table(head, rows)


def _summary(daemon_set: rollout.Rollout) -> str:
    if not daemon_set.exists:
        return "not there"
    if not daemon_set.observed:
        return "its controller has not seen the last change"
    counts = {kind: sum(problem.kind == kind for problem in daemon_set.problems) for kind in _KINDS}
    said = [f"{count} {_KINDS[kind]}" for kind, count in counts.items() if count]
    return ", ".join(said) or "as planned"


def _pods(rollouts: Sequence[rollout.Rollout], age_s: AgeS) -> Iterator[str]:
    """Yield a line for each problem and reason, with its nodes."""
    for daemon_set in rollouts:
        groups = repeats.grouped(((problem.kind, problem.reason), problem) for problem in daemon_set.problems)
        for (kind, reason), problems in groups.items():
            longest = _longest((problem.since for problem in problems), age_s)
            words = {"old": "an older template", "image": "another image"}.get(kind, _KINDS[kind])
            nodes = wording.listed((problem.node or "no node" for problem in problems), most=_NODES)
            yield f"{daemon_set.wanted.name} on {nodes}: {words}{longest}{f': {reason}' if reason else ''}"


def _longest(times: Iterable[str], age_s: AgeS) -> str:
    """Return the phrase for the longest of the ages that are known; empty where none is."""
    ages = [seconds for time in times if time and (seconds := age_s(time)) is not None]
    return f" for {age(max(ages))}" if ages else ""


def _held_up(rollouts: Sequence[rollout.Rollout]) -> Iterator[str]:
    for daemon_set in rollouts:
        if daemon_set.held_up_by:
            nodes = wording.listed(daemon_set.held_up_by, most=_NODES)
            yield f"{daemon_set.wanted.name} by {nodes}: as many as may be unavailable are"


def _differing(groups: Sequence[loaded.Group]) -> Iterator[str]:
    for group in groups:
        recipe = "" if group.recipe.builtin else f"{group.recipe.name}: "
        yield f"{recipe}{wording.listed(group.nodes, most=_NODES)}: {group.loaded.sentence}"


def _devices(every: Sequence[dra_devices.Devices]) -> Iterator[str]:
    """Yield a line for nodes of which the same is planned and published."""
    groups = repeats.grouped(((one.resource, one.planned, one.published, one.unhealthy), one) for one in every)
    for (resource, planned, published, unhealthy), own in groups.items():
        nodes = wording.listed((one.node for one in own), most=_NODES)
        counts = f"{'?' if planned is None else planned} planned, {published} published, {unhealthy} unhealthy"
        yield f"{resource} on {nodes}: {counts}"


def _leases(leases: Sequence[cluster_status.Held]) -> Iterator[str]:
    for lease in leases:
        held, renewed = age(lease.held_s), age(lease.renewed_s)
        end = ", and it has expired" if lease.expired else ""
        if lease.lease.swap:
            end = f", in a swap since {lease.lease.swap}"
        if lease.silent and lease.lease.swap:
            namespace = lease.lease.rest["metadata"]["namespace"]
            end += (
                ". The host has vanished in it, and no other swaps before it is back or, after a look at it, you run:"
                f" kubectl delete lease -n {namespace} {lease.lease.name}"
            )
        yield f"{lease.lease.name} is held by {lease.lease.holder} for {held}, renewed {renewed} ago{end}"


def _deployments(deployments: Sequence[live_objects.Deployment]) -> Iterator[str]:
    for each in deployments:
        if not each.found:
            yield f"{each.name}: not there"
        elif each.available < each.replicas:
            reason = f": {each.reason}" if each.reason else ""
            yield f"{each.name}: {each.available} of {each.replicas} available{reason}"


def _not_ready(status: cluster_status.ClusterStatus, age_s: AgeS) -> Iterator[str]:
    for reason, nodes in repeats.grouped((node.reason, node) for node in status.nodes if not node.ready).items():
        longest = _longest((node.since for node in nodes), age_s)
        yield f"{wording.listed([node.name for node in nodes], most=_NODES)}{longest}{f': {reason}' if reason else ''}"


def _objects(drifts: Sequence[cluster_status.Drift]) -> Iterator[str]:
    for deviation in drifts:
        yield f"{deviation.state:8} {deviation.ref}"
        for change in deviation.changes:
            yield f"           {_change(change)}"


def _change(change: drift.Change) -> str:
    if change.wanted is None:
        return f"{change.path}: {_value(change.live)} is not in the output"
    if change.live is None:
        return f"{change.path}: {_value(change.wanted)} is missing"
    return f"{change.path}: {_value(change.live)} instead of {_value(change.wanted)}"


def _value(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return shown if len(shown) <= _VALUE else f"{shown[:_VALUE]}…"


def _skews(skews: Sequence[cluster_status.Skew]) -> Iterator[str]:
    for skewed in skews:
        running = f"{skewed.release} of kae" if skewed.release else images.short(skewed.image)
        yield f"{skewed.name} runs {running}, and this is {compiler.__version__}"


def _inventory(status: cluster_status.ClusterStatus) -> Iterator[str]:
    if status.unknown:
        yield f"it does not know {wording.listed(status.unknown, most=_NODES)}"
    if status.gone:
        yield f"it still has {wording.listed(status.gone, most=_NODES)}"
