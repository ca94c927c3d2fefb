"""The risk that a driver comes to nodes before the waves that should have had it first."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler import wording
from compiler.changes.acceptance import Acceptable, Place
from compiler.changes.revisions import pods
from compiler.changes.revisions.effects import Effect
from compiler.checks.risks.change import STAGED, RevisionChange, divisions, release
from compiler.diagnostics import rule
from compiler.planning import images, plan, pools


@dataclass(frozen=True, slots=True, order=True)
class _Target:
    """The driver that nodes get."""

    image: str
    """Without its registry and path, which a mirror changes."""
    state: str
    source: str

    def __str__(self) -> str:
        return f"{self.image}{' (state Absent)' if self.state == 'Absent' else ''}"

    def is_newer(self, other: "_Target") -> bool:
        """Return whether it is a later release of the same sort."""
        mine, theirs = release(images.tag(self.image)), release(images.tag(other.image))
        same = (self.state, self.source) == (other.state, other.source)
        return same and mine is not None and theirs is not None and mine > theirs


_Cell = tuple[str, str]
"""A group, and the name of its nodes' kernels: a wave has nothing to show for kernels that none of its nodes has."""


@dataclass(frozen=True, slots=True)
class _Rollout:
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
        effects = [effect for effect in change.effects if _moves(effect, policy)]
        is_later = _has_waves(later.get(policy))
        division = later.get(policy) if is_later else earlier.get(policy)
        if effects and division is not None and _has_waves(division):
            side = change.after if is_later else change.before
            rollout = _rollout(division, side, effects, later[policy], is_later=is_later)
            yield from _risks(change, policy, rollout, effects)


def _risks(change: RevisionChange, policy: str, rollout: _Rollout, effects: Sequence[Effect]) -> Iterator[Acceptable]:
    found: dict[_Target, dict[str, set[str]]] = {}
    for (group, kernels), moved in rollout.moved.items():
        for target in moved if group in rollout.order else ():
            skipped = rollout.skipped((group, kernels), target)
            found.setdefault(target, {}).setdefault(group, set()).update(skipped)
    for target, groups in sorted(found.items()):
        late = [group for group in rollout.order if groups.get(group)]
        waves = [wave for wave in rollout.order if any(wave in groups[group] for group in late)]
        if late:
            own = [effect for effect in effects if _group(effect, is_later=rollout.is_later) in late]
            yield change.acceptable(
                "waves-skipped",
                max(own, key=lambda effect: len(effect.nodes)).cause,
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
    is_staged = effect.work in ("swaps", "may-swap", "removes") and not STAGED.isdisjoint(effect.reasons)
    return is_staged and effect.after is not None and effect.after.policy == policy


def _rollout(
    division: pools.Division,
    side: pods.Side | None,
    effects: Sequence[Effect],
    later: pools.Division,
    *,
    is_later: bool,
) -> _Rollout:
    targets: dict[_Cell, Counter[_Target]] = {}
    for decision in side.planned.decisions if side else ():
        if decision.division is division and decision.pool is not None:
            here = targets.setdefault(_cell(decision), Counter())
            here[_target(decision.pool)] += len(decision.nodes)
    own, new = ({pool.name: pool for pool in each.pools} for each in (division, later))
    moved: dict[_Cell, Counter[_Target]] = {}
    for effect in effects:
        place = effect.after if is_later else effect.before
        group = _group(effect, is_later=is_later)
        if place and place.pool in own and effect.after and effect.after.pool in new and group is not None:
            cell = group, _kernels(own[place.pool])
            moved.setdefault(cell, Counter())[_target(new[effect.after.pool])] += len(effect.nodes)
    order = [group.name for group in division.groups if not (group.declared and group.declared.is_frozen)]
    return _Rollout(is_later, order, targets, moved)


def _group(effect: Effect, *, is_later: bool) -> str | None:
    place = effect.after if is_later else effect.before
    return place.group if place else None


def _cell(decision: plan.Decision) -> _Cell:
    group = decision.division.group(decision.node.name) if decision.division else None
    return group.name if group else "", _kernels(decision.pool)


def _kernels(pool: pools.Pool | None) -> str:
    return pool.kernels.name if pool and pool.kernels else ""


def _target(pool: pools.Pool) -> _Target:
    source = pool.driver.source
    names = source.packages.names if source.packages else None
    return _Target(images.unqualified(pool.image), pool.driver.state, repr((source.name, names)))
