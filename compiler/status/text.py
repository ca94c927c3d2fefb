"""The status of a live cluster for people: a table of its DaemonSets, then everything that is not as planned."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from compiler import wording
from compiler.status import cluster_status, drift, live_objects, rollout

_NODES = 8
"""Nodes that are named for each problem; the JSON names all."""

_VALUE = 80
"""Characters that are shown of a value."""

_OUTPUT = {
    "old": "is not what the documents compile to",
    "incomplete": "was left incomplete by a compile that was interrupted",
    "edited": "was edited by hand",
}
_KINDS = {"missing": "no pod", "surplus": "one too many", "not-ready": "not ready", "old": "old", "image": "image"}


AgeS = Callable[[str], int | None]
"""The seconds since a time of Kubernetes; None where it is none."""


def text(found: cluster_status.ClusterStatus, age_s: AgeS) -> str:
    """Return the status as text."""
    return "".join(f"{wording.escaped(line)}\n" if line else "\n" for line in _lines(found, age_s))


def age(seconds: int | None) -> str:
    """Return an age as kubectl writes it: 45s, 12m, 3h, 5d."""
    if seconds is None:
        return "an unknown time"
    for unit, length, enough in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172_800)):
        if seconds < enough:
            return f"{seconds // length}{unit}"
    return f"{seconds // 86_400}d"


def _lines(found: cluster_status.ClusterStatus, age_s: AgeS) -> Iterator[str]:
    stands = "as planned" if found.as_planned else "not as planned"
    yield f"cluster {found.cluster} at {found.server}, {wording.counted(len(found.nodes), 'node')}: {stands}"
    if found.output != "fine":
        yield f"The output {_OUTPUT[found.output]}; this compares with what they compile to. Run `kae compile`."
    yield ""
    yield from _table(found)
    for title, lines in (
        ("pods", _pods(found.rollouts, age_s)),
        ("rollouts held up", _held_up(found.rollouts)),
        ("leases", _leases(found.leases)),
        ("deployments", _deployments(found.deployments)),
        ("nodes not ready", _not_ready(found, age_s)),
        ("objects", _objects(found.drifts)),
        ("inventory", _inventory(found)),
    ):
        shown = list(lines)
        if shown:
            yield from ("", f"{title}:", *(f"  {line}" for line in shown))


def _table(found: cluster_status.ClusterStatus) -> Iterator[str]:
    import tabulate  # noqa: PLC0415 - only people's tables need it

    rows = [
        (
            item.wanted.name,
            str(len(item.wanted.planned)),
            str(item.pods),
            str(item.ready),
            str(item.current),
            _summary(item),
        )
        for item in found.rollouts
    ]
    head = ("DAEMONSET", "PLANNED", "PODS", "READY", "CURRENT", "STATE")
    drawn = tabulate.tabulate(rows, headers=head, tablefmt="plain", disable_numparse=True)
    yield from (line.rstrip() for line in drawn.splitlines())


def _summary(found: rollout.Rollout) -> str:
    if not found.found:
        return "not there"
    if not found.observed:
        return "its controller has not seen the last change"
    counts = {kind: sum(item.kind == kind for item in found.problems) for kind in _KINDS}
    said = [f"{count} {_KINDS[kind]}" for kind, count in counts.items() if count]
    return ", ".join(said) or "as planned"


def _pods(rollouts: Sequence[rollout.Rollout], age_s: AgeS) -> Iterator[str]:
    """Yield a line for each problem and reason, with its nodes."""
    for item in rollouts:
        groups: dict[tuple[str, str], list[rollout.Problem]] = {}
        for problem in item.problems:
            groups.setdefault((problem.kind, problem.reason), []).append(problem)
        for (kind, reason), problems in groups.items():
            since = [age_s(problem.since) for problem in problems if problem.since]
            lasting = max((seconds for seconds in since if seconds is not None), default=None)
            longest = f" for {age(lasting)}" if lasting is not None else ""
            words = {"old": "an older template", "image": "another image"}.get(kind, _KINDS[kind])
            nodes = wording.listed((problem.node or "no node" for problem in problems), most=_NODES)
            yield f"{item.wanted.name} on {nodes}: {words}{longest}{f': {reason}' if reason else ''}"


def _held_up(rollouts: Sequence[rollout.Rollout]) -> Iterator[str]:
    for item in rollouts:
        if item.held_up_by:
            nodes = wording.listed(item.held_up_by, most=_NODES)
            yield f"{item.wanted.name} by {nodes}: as many as may be unavailable are"


def _leases(leases: Sequence[cluster_status.Held]) -> Iterator[str]:
    for item in leases:
        held, renewed = age(item.held_s), age(item.renewed_s)
        end = ", and it has expired" if item.expired else ""
        yield f"{item.lease.name} is held by {item.lease.holder} for {held}, renewed {renewed} ago{end}"


def _deployments(deployments: Sequence[cluster_status.Workload]) -> Iterator[str]:
    for item in deployments:
        live = item.live
        if live is None:
            yield f"{item.ref.name}: not there"
        elif live.available < live.replicas:
            reason = f": {live.reason}" if live.reason else ""
            yield f"{item.ref.name}: {live.available} of {live.replicas} available{reason}"


def _not_ready(found: cluster_status.ClusterStatus, age_s: AgeS) -> Iterator[str]:
    groups: dict[str, list[live_objects.NodeState]] = {}
    for node in found.nodes:
        if not node.ready:
            groups.setdefault(node.reason, []).append(node)
    for reason, nodes in groups.items():
        since = [seconds for seconds in (age_s(node.since) for node in nodes) if seconds is not None]
        longest = f" for {age(max(since))}" if since else ""
        yield f"{wording.listed([node.name for node in nodes], most=_NODES)}{longest}{f': {reason}' if reason else ''}"


def _objects(drifts: Sequence[cluster_status.Drift]) -> Iterator[str]:
    for item in drifts:
        yield f"{item.state:8} {item.ref}"
        for change in item.changes:
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


def _inventory(found: cluster_status.ClusterStatus) -> Iterator[str]:
    if found.unknown:
        yield f"it does not know {wording.listed(found.unknown, most=_NODES)}"
    if found.gone:
        yield f"it still has {wording.listed(found.gone, most=_NODES)}"
