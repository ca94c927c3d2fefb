"""The forecast of a change in a cluster: the fleet that it makes of hosts, and the sum of many runs."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import msgspec

from compiler.changes import effects, objects, pods
from compiler.changes.difference import ClusterDifference
from compiler.simulation import durations, holders, rollout
from compiler.simulation.rollout import Fleet

CHANGING = ("installs", *effects.DISTURBING)
"""The work of an installer that changes the driver of a host."""

_STAGING = ("installs", "swaps", "may-swap")
_RESTARTING = ("restarts", "cleared")
_BUSY = 0.75
"""The share of time for which Leases are held where they are what hosts wait for; they begin with none."""
_POINTS = 60
"""Points of a curve."""


class Moments(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds, in half of the runs at most and in 95 of 100; infinite where it never comes to it."""

    p50: float
    p95: float


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """A number, in half of the runs at most, in 95 of 100, and in all of them."""

    p50: int
    p95: int
    most: int


Cause = Literal["budget", "budgets", "waits", "tired", "failed", "leases", "unavailable"]
"""Why hosts are not done at the end; what follows from the others comes last.

- budget: a budget allows no eviction at all.
- budgets: a pod has several budgets, so the API server refuses each eviction.
- waits: the policy evicts nobody, and pods hold devices.
- tired: pods were evicted in vain too often.
- failed: the change failed.
- leases: failed hosts keep all Leases of a policy.
- unavailable: as many pods of a DaemonSet are not available as maxUnavailable lets be.
"""


_CAUSES = get_args(Cause)


class Halt(msgspec.Struct, frozen=True, kw_only=True):
    """A place where the rollout halts."""

    cause: Cause
    name: str
    """Of the policy, the DaemonSet, the budget or the pod."""
    recipe: str
    runs: int
    """The runs in which it does."""
    hosts: int
    """Those that are not done for it, in the worst of these runs."""


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that a rollout waits for most of the time."""

    setting: Literal["maxParallel", "maxUnavailable"]
    name: str
    """Of the policy, or of the DaemonSet."""
    recipe: str
    number: int
    """Hosts, or pods, at a time."""


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """How the rollout of a change goes in a cluster."""

    cluster: str
    hosts: int
    """Those whose driver changes, or may."""
    pods: int
    """Pods that come or are replaced on hosts where no driver changes, and those of other programs."""
    half: Moments
    end: Moments
    """Of the hosts whose driver changes; of the pods where none does."""
    done: int
    """The fewest that are done at the end, of all runs."""
    away: Counts
    devices_away: Counts
    evictions: Counts
    evicting: Counts
    halted: int
    """The runs in which it halts."""
    halts: tuple[Halt, ...]
    paces: tuple[Pace, ...]
    curve: tuple[tuple[float, int], ...]
    """Seconds and hosts that are done, of the run in the middle."""
    idle: int = 0
    """The most hosts that may be without devices at once, as where no pod holds one, and none waits for a Lease."""
    guessed: bool = False
    """True where pods that hold a device are guessed, as no snapshot tells of them."""
    uncertain: int = 0
    """Hosts whose driver may change, or not."""
    loaded: int = 0
    """Hosts that have the driver that they get, by their labels."""
    unknown: int = 0
    """Hosts of which the number of devices or of their holders is unknown."""


def of_cluster(
    difference: ClusterDifference,
    known: durations.Durations,
    snapshot: holders.Snapshot | None,
    rate: float,
    chances: Sequence[durations.Chance],
) -> Forecast | None:
    """Return the forecast for a cluster, with a run for each of these chances; None where no pod comes."""
    fleet = fleet_of(difference, snapshot)
    if not fleet.hosts:
        return None
    runs = [rollout.run(fleet, durations.draws(fleet, known, rate, chance)) for chance in chances]
    works = [effect for effect in difference.effects if effect.work in effects.DISTURBING and not effect.is_loaded]
    summed = _sum(difference.cluster, fleet, runs)
    return msgspec.structs.replace(
        summed,
        idle=_idle(fleet),
        guessed=snapshot is None and any(host.held for host in fleet.hosts),
        uncertain=sum(len(effect.nodes) for effect in works if effect.work == "may-swap"),
        loaded=sum(len(effect.nodes) for effect in difference.effects if effect.is_loaded),
        unknown=sum(len(effect.nodes) for effect in works if _is_unknown(effect, snapshot)),
    )


def _is_unknown(effect: effects.Effect, snapshot: holders.Snapshot | None) -> bool:
    amounts = [amount for place in (effect.before,) if place for _, amount in place.resources]
    return None in amounts or (effect.drain is not None and not _are_told(effect, effect.drain, snapshot))


def _are_told(effect: effects.Effect, drain: effects.Drain, snapshot: holders.Snapshot | None) -> bool:
    """Return whether it is known how many pods hold a device: of what another device plugin offers, it is not."""
    return drain.most is not None or bool(snapshot is not None and effect.before and effect.before.resources)


def fleet_of(difference: ClusterDifference, snapshot: holders.Snapshot | None) -> Fleet:
    """Return what a change does to the nodes of a cluster."""
    return _Fleet(difference, snapshot).made()


class _Fleet:
    """A fleet in the making."""

    def __init__(self, difference: ClusterDifference, snapshot: holders.Snapshot | None) -> None:
        self._difference = difference
        self._snapshot = snapshot
        pairs = {pair.ref: pair.after for pair in difference.objects if pair.ref.kind == "DaemonSet" and pair.after}
        self._specs: Mapping[objects.Ref, Mapping[str, Any]] = {ref: data["spec"] for ref, data in pairs.items()}
        self._changes = {change.ref: change.nodes for change in difference.pods if change.ref.kind == "DaemonSet"}
        self._replaced = {ref: frozenset(nodes.replaced) for ref, nodes in self._changes.items()}
        self._sets: dict[objects.Ref, int] = {}
        self._leases: dict[tuple[str, str], rollout.Leases] = {}

    def made(self) -> Fleet:
        hosts = [host for effect in self._difference.effects for host in self._of_effect(effect)]
        driven = frozenset(effect.daemon_set for effect in self._difference.effects)
        for ref, nodes in self._changes.items():
            if ref not in driven:
                for name in (*nodes.created, *nodes.replaced):
                    hosts.append(self._host(ref, name, changes=False))
        hosts.sort(key=lambda host: (host.daemon_set, host.node))
        return Fleet(
            hosts=tuple(hosts),
            daemon_sets=tuple(map(self._daemon_set, self._sets)),
            leases=tuple(self._leases.values()),
            budgets=self._snapshot.budgets if self._snapshot else (),
        )

    def _host(self, ref: objects.Ref, node: str, **fields: Any) -> rollout.Host:
        number = self._sets.setdefault(ref, len(self._sets))
        rolls = node in self._replaced.get(ref, ())
        return rollout.Host(node=node, daemon_set=number, rolls=rolls, **fields)

    def _daemon_set(self, ref: objects.Ref) -> rollout.DaemonSet:
        nodes, spec = self._changes.get(ref), self._specs.get(ref, {})
        number = len(nodes.created) + len(nodes.replaced) if nodes else 0
        update = spec.get("updateStrategy", {}).get("rollingUpdate", {})
        return rollout.DaemonSet(
            name=ref.name,
            most_unavailable=pods.scaled(update.get("maxUnavailable", 1), number),
            min_ready_s=spec.get("minReadySeconds", 0),
        )

    def _of_effect(self, effect: effects.Effect) -> Iterator[rollout.Host]:
        ref, work = effect.daemon_set, effect.work
        # Where no pod comes, as on a node that has booted another kernel, the change starts nothing.
        if ref is None or effect.driver_pod is None or work not in (*CHANGING, *_RESTARTING):
            return
        if effect.is_loaded:
            yield from (self._host(ref, node, changes=False) for node in effect.nodes)
            return
        fields: dict[str, Any] = {"changes": work in CHANGING, "stages": work in _STAGING}
        place = effect.before or effect.after
        if (drain := effect.drain) is not None and work in effects.DISTURBING:
            policy = next((each.policy for each in (effect.after, effect.before) if each and each.policy), "") or ""
            fields |= {
                "disturbs": True,
                "leases": self._number(effect.recipe.name, policy, drain.hosts_at_a_time),
                "devices": sum(amount or 0 for _, amount in place.resources) if place else 0,
                "evicts": drain.evicts,
                "timeout_s": drain.timeout_seconds,
            }
        resources = frozenset(
            name for each in (effect.before, effect.after) if each is not None for name, _ in each.resources
        )
        for node in effect.nodes:
            held = self._held(node, resources, drain, told=_are_told(effect, drain, self._snapshot)) if drain else {}
            yield self._host(ref, node, **fields, **held)

    def _number(self, recipe: str, policy: str, number: int) -> int:
        """Return the number of a policy's Leases in the fleet."""
        key = recipe, policy
        most = max(number, self._leases[key].number if key in self._leases else 0)
        self._leases[key] = rollout.Leases(policy=policy, recipe=recipe, number=most)
        return [*self._leases].index(key)

    def _held(self, node: str, resources: frozenset[str], drain: effects.Drain, *, told: bool) -> dict[str, Any]:
        """Return the pods that hold a device of a node: of the snapshot, or as many as can."""
        if self._snapshot is None or not told:
            return {"free": 1 if drain.most is None else drain.most, "grace_s": durations.DEFAULT_GRACE_S}
        found = [*self._snapshot.holding(node, resources)]
        free = [each.grace_s for each in found if not each.budgets]
        bound = [
            rollout.Pod(name=each.name, budgets=each.budgets, grace_s=each.grace_s) for each in found if each.budgets
        ]
        return {"free": len(free), "grace_s": max(free, default=0), "pods": tuple(bound)}


def _sum(cluster: str, fleet: Fleet, runs: Sequence[rollout.Run]) -> Forecast:
    """Return what runs have in common, and how they differ."""
    changing = [index for index, host in enumerate(fleet.hosts) if host.changes]
    counted = changing or range(len(fleet.hosts))
    every = [sorted(run.done[index] for index in counted) for run in runs]
    halts: dict[tuple[Cause, str, str], list[int]] = {}
    for run in runs:
        for key, number in _halts(fleet, run).items():
            halts.setdefault(key, []).append(number)
    middle = sorted(every, key=lambda done: done[-1])[(len(every) - 1) // 2]
    return Forecast(
        cluster=cluster,
        hosts=len(changing),
        pods=len(fleet.hosts) - len(changing),
        half=_moments([done[(len(done) - 1) // 2] for done in every]),
        end=_moments([done[-1] for done in every]),
        done=min(sum(map(math.isfinite, done)) for done in every),
        away=_counts(runs, lambda run: run.most_away),
        devices_away=_counts(runs, lambda run: run.most_devices_away),
        evictions=_counts(runs, lambda run: run.evictions),
        evicting=_counts(runs, lambda run: run.most_evicting),
        halted=sum(not all(map(math.isfinite, run.done)) for run in runs),
        halts=tuple(
            Halt(cause=cause, recipe=recipe, name=name, runs=len(numbers), hosts=max(numbers))
            for (cause, recipe, name), numbers in sorted(halts.items(), key=lambda item: _CAUSES.index(item[0][0]))
        ),
        paces=tuple(_paces(fleet, runs[0])),
        curve=tuple(_curve([each for each in middle if math.isfinite(each)])),
    )


def _idle(fleet: Fleet) -> int:
    """Return the hosts that swap at once if none needs a Lease: of each DaemonSet all that come to it, or its pace."""
    coming, rolling = Counter[int](), Counter[int]()
    for host in fleet.hosts:
        (rolling if host.rolls else coming)[host.daemon_set] += host.disturbs
    return sum(
        coming[number] + min(rolling[number], each.most_unavailable) for number, each in enumerate(fleet.daemon_sets)
    )


def _paces(fleet: Fleet, run: rollout.Run) -> Iterator[Pace]:
    """Yield the settings by which more hosts at a time would be done sooner, unless the rollout halts."""
    if not all(map(math.isfinite, run.done)):
        return
    ends, rolling = [0.0] * len(fleet.leases), [0] * len(fleet.daemon_sets)
    busy, matters = [False] * len(fleet.daemon_sets), [False] * len(fleet.daemon_sets)
    for host, done in zip(fleet.hosts, run.done, strict=True):
        rolling[host.daemon_set] += host.rolls
        matters[host.daemon_set] |= host.changes
        if host.disturbs and host.held:
            ends[host.leases] = max(ends[host.leases], done)
    full = [run.held_s[number] > _BUSY * each.number * ends[number] for number, each in enumerate(fleet.leases)]
    for host in fleet.hosts:
        busy[host.daemon_set] |= host.disturbs and host.held and full[host.leases]
    for number, own in enumerate(fleet.leases):
        if full[number] and ends[number]:
            yield Pace(setting="maxParallel", name=own.policy, recipe=own.recipe, number=own.number)
    for number, each in enumerate(fleet.daemon_sets):
        counts = matters[number] or not any(matters)
        if counts and rolling[number] > each.most_unavailable and not busy[number]:
            yield Pace(setting="maxUnavailable", name=each.name, recipe="", number=each.most_unavailable)


def _curve(done: Sequence[float]) -> Iterator[tuple[float, int]]:
    step = max(1, math.ceil(len(done) / _POINTS))
    numbers = range(step, len(done), step)
    yield from ((done[number - 1], number) for number in (*numbers, *([len(done)] if done else [])))


def _at(values: Sequence[Any], percent: int) -> Any:
    """Return the value that so many of 100 are at most: the nearest rank."""
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def _moments(values: Sequence[float]) -> Moments:
    return Moments(p50=_at(values, 50), p95=_at(values, 95))


def _counts(runs: Sequence[rollout.Run], of: Callable[[rollout.Run], int]) -> Counts:
    values = [of(run) for run in runs]
    return Counts(p50=_at(values, 50), p95=_at(values, 95), most=max(values))


def _halts(fleet: Fleet, run: rollout.Run) -> Mapping[tuple[Cause, str, str], int]:
    """Return where a run halts, by cause, recipe and name, and the hosts that are not done for it."""
    found: dict[tuple[Cause, str, str], int] = {}
    for index, host in enumerate(fleet.hosts):
        if not math.isfinite(run.done[index]):
            for key in {*_causes(fleet, run, index, host)}:
                found[key] = found.get(key, 0) + 1
    return found


def _causes(fleet: Fleet, run: rollout.Run, index: int, host: rollout.Host) -> Iterator[tuple[Cause, str, str]]:
    if not run.begun[index]:
        yield "unavailable", "", fleet.daemon_sets[host.daemon_set].name
        return
    leases = fleet.leases[host.leases] if fleet.leases else rollout.Leases(policy="", recipe="", number=0)
    fate = run.fates[index]
    if fate == "undrained":
        yield from _undrained(fleet, host, leases)
    elif fate == "failed":
        yield fate, "", fleet.daemon_sets[host.daemon_set].name
    elif fate == "tired":
        yield fate, leases.recipe, leases.policy
    else:
        yield "leases", leases.recipe, leases.policy


def _undrained(fleet: Fleet, host: rollout.Host, leases: rollout.Leases) -> Iterator[tuple[Cause, str, str]]:
    if not host.evicts:
        yield "waits", leases.recipe, leases.policy
        return
    for pod in host.pods:
        if len(pod.budgets) > 1:
            yield "budgets", "", pod.name
        elif fleet.never_evicted(pod):
            yield "budget", "", fleet.budgets[pod.budgets[0]].name
