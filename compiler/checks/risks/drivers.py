"""Risks of a change for the drivers of nodes."""

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from compiler import repeats, wording
from compiler.changes import hardware
from compiler.changes.acceptance import Acceptable, Nodes, Place
from compiler.changes.effects import DISTURBING, Effect, Placement, Work
from compiler.checks.output import causes
from compiler.checks.risks.change import RevisionChange, divisions
from compiler.diagnostics import Span, rule
from compiler.planning import images, plan, pools

_Key = TypeVar("_Key", bound=Hashable)

_STAGED = frozenset({"version", "source", "image", "repository", "modules", "state"})
"""The reasons of a change that a wave can bring to its nodes alone."""

_RELEASE = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)")

_LOSSES: Mapping[Work | None, tuple[str, str]] = {
    "removes": ("is removed from", "Undo the change that takes it away."),
    "leaves": (
        "loses its installer, and stays, on",
        causes.from_hosts(causes.first_absent("make this change")),
    ),
    None: (
        "is out of sight, as the inventory has no nodes any more, on",
        "Restore the inventory from git, or take a new one.",
    ),
}
"""What happens to a driver, and what to do, by what its installer does."""


def _way(found: Iterable[Effect]) -> str:
    """Return how to bring a setting to some of the nodes first."""
    reasons = [set(effect.reasons) for effect in found]
    if all(_STAGED.intersection(each) for each in reasons):
        return "Bring the change to a wave first, in a commit of its own."
    if any("mirrors" in each for each in reasons):
        return "A mirror is of a whole cluster: change it in one cluster first, after a look at what it holds."
    return "No wave can carry this setting: give it to a policy of its own for some of the nodes first."


@rule("large-step", "risk")
def large_step(change: RevisionChange) -> Iterator[Acceptable]:
    """A change disturbs at most limits.stepPercent of a policy's nodes, or one node."""
    for policy, found in _by(change.difference.effects, _policy, lambda effect: effect.work in DISTURBING).items():
        count = sum(len(effect.nodes) for effect in found)
        every = max(change.driven(policy), count)
        if count > 1 and count * 100 > change.basis.step_percent * every:
            yield change.acceptable(
                _cause(found),
                f"Policy '{policy}' takes the drivers of ",
                count,
                " of its ",
                every,
                " nodes in ",
                Place.CLUSTER,
                " out of use in one step.",
                notes=(f"limits.stepPercent allows {change.basis.step_percent} %, or one node.",),
                hint=_way(found),
                policy=policy,
            )


@rule("frozen-touched", "risk")
def frozen_touched(change: RevisionChange) -> Iterator[Acceptable]:
    """A change leaves the drivers of frozen groups as they are."""

    def frozen(effect: Effect) -> bool:
        return bool(effect.before and effect.before.group_sort == "frozen" and effect.work in (*DISTURBING, "leaves"))

    for (policy, group), found in _by(change.difference.effects, _frozen_group, frozen).items():
        yield change.acceptable(
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

    for (policy, work), found in _by(change.difference.effects, lambda each: (_policy(each), each.work), gone).items():
        yield change.acceptable(
            _cause(found),
            f"The driver of policy '{policy}' {_LOSSES[work][0]} ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ".",
            hint=_LOSSES[work][1],
            policy=policy,
        )


@rule("match-changed", "risk")
def match_changed(change: RevisionChange) -> Iterator[Acceptable]:
    """A changed match of a recipe takes the same hardware: no node may lose its components by it, and none get some."""
    shifts: tuple[tuple[str, Callable[[Effect], bool]], ...] = (
        ("may not take the hardware of ", lambda effect: bool(effect.may_lose)),
        ("may take more hardware of ", lambda effect: effect.may_gain),
    )
    for does, is_meant in shifts:
        for (policy, recipe), found in _by(
            change.difference.effects, lambda effect: (_policy(effect), effect.recipe.name), is_meant
        ).items():
            yield change.acceptable(
                _cause(found),
                f"The new match of recipe '{recipe}' {does}",
                _nodes(found),
                f" of policy '{policy}' in ",
                Place.CLUSTER,
                ".",
                notes=(hardware.UNKNOWN,),
                hint="Compare the new match with the hardware of these nodes (`lspci -nn`).",
                policy=policy,
            )


@rule("driver-downgrade", "risk")
def driver_downgrade(change: RevisionChange) -> Iterator[Acceptable]:
    """A change brings no older driver."""

    def older(effect: Effect) -> bool:
        if effect.work not in (*DISTURBING, "installs") or not (effect.before and effect.after):
            return False
        # Of versions that are no releases, the order is unknown.
        was, now = _release(effect.before.version), _release(effect.after.version)
        return was is not None and now is not None and now < was

    for (policy, was, now), found in _by(change.difference.effects, _versions, older).items():
        yield change.acceptable(
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
    before, after = (side.pace if side else {} for side in (change.before, change.after))
    evicting = {_policy(effect) for effect in change.difference.effects if effect.drain and effect.drain.evicts}
    for policy, leases in after.items():
        nodes = change.driven(policy)
        if nodes > 1 and leases >= nodes and (policy in evicting or leases > before.get(policy, 0)):
            yield change.acceptable(
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


def _release(version: str | None) -> tuple[int, ...] | None:
    """Return the numbers of a release such as 2.3.0; None for any other version, whose order is unknown."""
    match = _RELEASE.fullmatch((version or "").partition("@")[0])
    return tuple(map(int, match[1].split("."))) if match else None


def _by(
    effects: Iterable[Effect], key: Callable[[Effect], _Key], is_meant: Callable[[Effect], bool]
) -> dict[_Key, list[Effect]]:
    return repeats.grouped((key(effect), effect) for effect in filter(is_meant, effects))


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
    return Nodes(tuple(sorted({name for effect in effects for name in effect.nodes})))


def _cause(effects: Iterable[Effect]) -> Span:
    """Return the cause for most of the nodes."""
    return max(effects, key=lambda effect: len(effect.nodes)).cause


class _Target(msgspec.Struct, frozen=True, order=True):
    """The driver that nodes get."""

    image: str
    state: str
    source: str

    def __str__(self) -> str:
        return f"{images.unqualified(self.image)}{' (state Absent)' if self.state == 'Absent' else ''}"

    def is_newer(self, other: "_Target") -> bool:
        """Return whether it is a later release of the same sort."""
        mine, theirs = _release(images.tag(self.image)), _release(images.tag(other.image))
        same = (self.state, self.source) == (other.state, other.source)
        return same and mine is not None and theirs is not None and mine > theirs


_Cell = tuple[str, str]
"""A group, and the name of its nodes' kernels: a wave has nothing to show for kernels that none of its nodes has."""


_Move = tuple[Placement | None, Effect]
"""The place of nodes on the side of a change that has the waves, and the effect on them."""


class _Rollout(msgspec.Struct, frozen=True):
    """The groups of a policy with waves, on the side of a change that has them."""

    is_later: bool
    """True where the side after the change has them."""
    order: Sequence[str]
    """The waves, then the rest."""
    targets: Mapping[_Cell, Counter[_Target]]
    """The drivers of the nodes on that side."""
    moved: Mapping[_Cell, Counter[_Target]]
    """The nodes that get another driver, by the new one."""

    def skipped(self, cell: _Cell, target: _Target) -> Iterator[str]:
        """Yield the waves that had to show a driver before a group gets it, and had no time to."""
        group, kernels = cell
        for wave in self.order[: self.order.index(group)]:
            here = self.targets.get((wave, kernels), Counter())
            moved = self.moved.get((wave, kernels), Counter())[target]
            shows = here[target] > moved if self.is_later else here.total() > moved
            is_ahead = self.is_later and bool(here) and all(other.is_newer(target) for other in here)
            if here and not shows and not is_ahead:
                yield wave


@rule("waves-skipped", "risk")
def waves_skipped(change: RevisionChange) -> Iterator[Acceptable]:
    """A driver is on the nodes of a wave before it comes to those after it."""
    earlier, later = divisions(change.before), divisions(change.after)
    for policy in {**earlier, **later}:
        effects = [effect for effect in change.difference.effects if _moves(effect, policy)]
        is_later = _has_waves(later.get(policy))
        division = later.get(policy) if is_later else earlier.get(policy)
        if effects and division is not None and _has_waves(division):
            side = change.after if is_later else change.before
            moves = [(effect.after if is_later else effect.before, effect) for effect in effects]
            targets = _targets(division, side.planned.decisions if side else ())
            order = [group.name for group in division.groups if not (group.declared and group.declared.is_frozen)]
            rollout = _Rollout(is_later, order, targets, _moved(division, later[policy], moves))
            yield from _risks(change, policy, rollout, moves)


def _risks(change: RevisionChange, policy: str, rollout: _Rollout, moves: Sequence[_Move]) -> Iterator[Acceptable]:
    found: dict[_Target, dict[str, set[str]]] = {}
    for (group, kernels), moved in rollout.moved.items():
        for target in moved if group in rollout.order else ():
            skipped = rollout.skipped((group, kernels), target)
            found.setdefault(target, {}).setdefault(group, set()).update(skipped)
    for target, groups in sorted(found.items()):
        late = [group for group in rollout.order if groups.get(group)]
        waves = [wave for wave in rollout.order if any(wave in groups[group] for group in late)]
        if late:
            yield change.acceptable(
                _cause(effect for place, effect in moves if place and place.group in late),
                "In ",
                Place.CLUSTER,
                f", {target} comes to {wording.listed(late)} of policy '{policy}' before "
                f"{wording.inflected('wave', len(waves))} {wording.listed(waves)} could show that it works.",
                hint=f"Bring it to {waves[0]} alone, and to the next when the pods there are ready.",
                policy=policy,
            )


def _has_waves(division: pools.Division | None) -> bool:
    return division is not None and any(group.declared and not group.declared.is_frozen for group in division.groups)


def _moves(effect: Effect, policy: str) -> bool:
    """Return whether nodes of a policy get another driver, which a wave could have had first."""
    is_staged = effect.work in (*DISTURBING, "installs") and not _STAGED.isdisjoint(effect.reasons)
    return is_staged and effect.after is not None and effect.after.policy == policy


def _targets(division: pools.Division, decisions: Iterable[plan.Decision]) -> Mapping[_Cell, Counter[_Target]]:
    targets: dict[_Cell, Counter[_Target]] = {}
    for decision in decisions:
        if decision.division is division and decision.pool is not None:
            group = division.group(decision.node.name)
            here = targets.setdefault((group.name if group else "", _kernels(decision.pool)), Counter())
            here[_target(decision.pool)] += len(decision.nodes)
    return targets


def _moved(division: pools.Division, later: pools.Division, moves: Iterable[_Move]) -> Mapping[_Cell, Counter[_Target]]:
    own, new = ({pool.name: pool for pool in each.pools} for each in (division, later))
    moved: dict[_Cell, Counter[_Target]] = {}
    for place, effect in moves:
        if place and place.pool in own and effect.after and effect.after.pool in new and place.group is not None:
            here = moved.setdefault((place.group, _kernels(own[place.pool])), Counter())
            here[_target(new[effect.after.pool])] += len(effect.nodes)
    return moved


def _kernels(pool: pools.Pool) -> str:
    return pool.kernels.name if pool.kernels else ""


def _target(pool: pools.Pool) -> _Target:
    source = pool.driver.source
    names = source.packages.names if source.packages else None
    return _Target(pool.image, pool.driver.state, repr((source.name, names)))
