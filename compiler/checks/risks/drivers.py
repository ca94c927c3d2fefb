"""Risks of a change for the drivers of nodes."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from compiler.changes.acceptance import Acceptable, Nodes, Place
from compiler.changes.revisions import pods
from compiler.changes.revisions.effects import DISTURBING, Effect, Work
from compiler.checks.risks.change import STAGED, RevisionChange, release
from compiler.diagnostics import Span, rule

_Key = TypeVar("_Key", bound=Hashable)

_LOSSES: Mapping[Work | None, tuple[str, str]] = {
    "removes": ("is removed from", "Undo the change that takes it away."),
    "leaves": (
        "loses its installer, and stays, on",
        "To have the driver removed too, set driver.state: Absent first.",
    ),
    None: (
        "is out of sight, as the inventory has no nodes any more, on",
        "Restore the inventory from git, or take a new one.",
    ),
}
"""What happens to a driver, and what to do, by what its installer does."""


@rule("large-step", "risk")
def large_step(change: RevisionChange) -> Iterator[Acceptable]:
    """A change disturbs at most limits.stepPercent of a policy's nodes, or one node."""
    for policy, found in _by(change.effects, _policy, lambda effect: effect.work in DISTURBING).items():
        count = _count(found)
        every = max(change.driven(policy), count)
        if count > 1 and count * 100 > change.step_percent * every:
            staged = all(STAGED.intersection(effect.reasons) for effect in found)
            yield change.acceptable(
                "large-step",
                _cause(found),
                f"Policy '{policy}' takes the drivers of ",
                count,
                " of its ",
                every,
                " nodes in ",
                Place.CLUSTER,
                " out of use in one step.",
                notes=(f"limits.stepPercent allows {change.step_percent} %, or one node.",),
                hint="Bring the change to a wave first, in a commit of its own."
                if staged
                else "No wave can carry this setting: give it to a policy of its own for some of the nodes first.",
                policy=policy,
            )


@rule("frozen-touched", "risk")
def frozen_touched(change: RevisionChange) -> Iterator[Acceptable]:
    """A change leaves the drivers of frozen groups as they are."""

    def frozen(effect: Effect) -> bool:
        return bool(effect.before and effect.before.group_sort == "frozen" and effect.work in (*DISTURBING, "leaves"))

    for (policy, group), found in _by(change.effects, _frozen_group, frozen).items():
        yield change.acceptable(
            "frozen-touched",
            _cause(found),
            f"The change reaches the drivers of the frozen group '{group}' of policy '{policy}' in ",
            Place.CLUSTER,
            ": ",
            _nodes(found),
            ".",
            hint="Keep its nodes in it, and what they have; settings that no group overrides, such as "
            "moduleParameters, reach them too.",
            policy=policy,
        )


@rule("driver-removed", "risk")
def driver_removed(change: RevisionChange) -> Iterator[Acceptable]:
    """A change takes no driver or installer from a node, and not all nodes from the inventory."""
    is_emptied = change.after is not None and not change.after.planned.inventory.nodes

    def gone(effect: Effect) -> bool:
        was = effect.before
        is_unknown = is_emptied and effect.after is None and was is not None and was.state == "Present"
        return effect.work in ("removes", "leaves") or is_unknown

    for (policy, work), found in _by(change.effects, lambda each: (_owner(each), each.work), gone).items():
        yield change.acceptable(
            "driver-removed",
            _cause(found),
            f"The driver of policy '{policy}' {_LOSSES[work][0]} ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ".",
            hint=_LOSSES[work][1],
            policy=policy,
        )


@rule("driver-downgrade", "risk")
def driver_downgrade(change: RevisionChange) -> Iterator[Acceptable]:
    """A change brings no older driver."""

    def older(effect: Effect) -> bool:
        if effect.work not in ("swaps", "may-swap") or not (effect.before and effect.after):
            return False
        # Of versions that are no releases, the order is unknown.
        was, now = release(effect.before.version), release(effect.after.version)
        return was is not None and now is not None and now < was

    for (policy, was, now), found in _by(change.effects, _versions, older).items():
        yield change.acceptable(
            "driver-downgrade",
            _cause(found),
            f"The driver of policy '{policy}' goes back from {was} to {now} on ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ".",
            hint=f"Set the version to {was} or a newer one, unless going back is meant.",
            policy=policy,
        )


@rule("drain-unbounded", "risk")
def drain_unbounded(change: RevisionChange) -> Iterator[Acceptable]:
    """Fewer hosts drain at a time than the policy has."""
    before = _pace(change.before)
    evicting = {_policy(effect) for effect in change.effects if effect.drain and effect.drain.evicts}
    for policy, leases in _pace(change.after).items():
        nodes = change.driven(policy)
        if nodes > 1 and leases >= nodes and (policy in evicting or leases > before.get(policy, 0)):
            yield change.acceptable(
                "drain-unbounded",
                change.span(policy, ("spec", "driver", "rollout", "maxParallel"), ("spec", "driver", "drain")),
                "All ",
                nodes,
                f" nodes of policy '{policy}' in ",
                Place.CLUSTER,
                " may drain at once.",
                notes=(
                    f"Its driver.rollout.maxParallel is {leases}, and no pod is evicted without one of its Leases.",
                    "rollout.maxUnavailable paces no node that changes its pool or boots another kernel.",
                ),
                hint="Set driver.rollout.maxParallel to less than the nodes that the policy has in a cluster.",
                policy=policy,
            )


def _pace(side: pods.Side | None) -> dict[str, int]:
    """Return the hosts that may drain at a time, by policy; none for a policy that evicts nobody."""
    found = side.daemon_sets.items() if side else ()
    return {
        policy: len(item.config.leases.names)
        for (_, policy, _), item in found
        if item.config is not None and item.config.drain.enabled
    }


def _by(
    effects: Iterable[Effect], key: Callable[[Effect], _Key], is_meant: Callable[[Effect], bool]
) -> dict[_Key, list[Effect]]:
    found: dict[_Key, list[Effect]] = {}
    for effect in filter(is_meant, effects):
        found.setdefault(key(effect), []).append(effect)
    return found


def _policy(effect: Effect) -> str | None:
    """Return the policy of nodes, or the one that they had."""
    return effect.after.policy if effect.after and effect.after.policy else _owner(effect)


def _owner(effect: Effect) -> str | None:
    """Return the policy that nodes had."""
    return effect.before.policy if effect.before else None


def _frozen_group(effect: Effect) -> tuple[str | None, str | None]:
    return _owner(effect), effect.before.group if effect.before else None


def _versions(effect: Effect) -> tuple[str | None, str | None, str | None]:
    was, now = effect.before, effect.after
    return _policy(effect), was.version if was else None, now.version if now else None


def _nodes(effects: Iterable[Effect]) -> Nodes:
    return Nodes(tuple(sorted(name for effect in effects for name in effect.nodes)))


def _count(effects: Iterable[Effect]) -> int:
    return sum(len(effect.nodes) for effect in effects)


def _cause(effects: Iterable[Effect]) -> Span:
    """Return the cause for most of the nodes."""
    return max(effects, key=lambda effect: len(effect.nodes)).cause
