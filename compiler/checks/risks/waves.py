"""The risk of a change that a driver comes to nodes before the waves ahead of them could show that it works."""

import functools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from compiler import repeats, wording
from compiler.changes import exchange, sides
from compiler.changes.acceptance import Acceptable, Nodes, Place
from compiler.changes.effects import DISTURBING, Effect, Placement
from compiler.checks.risks import drivers
from compiler.checks.risks.change import RevisionChange, divisions
from compiler.diagnostics import rule
from compiler.planning import images, loaded, pools

_Cell = tuple[str, str]
"""A group, and the name of its nodes' kernels: a wave has nothing to show for kernels that none of its nodes has."""


class _Target(msgspec.Struct, frozen=True, order=True):
    """The driver that nodes get."""

    images: tuple[str, ...]
    """Those that hold it, or else the one whose version it has."""
    state: str
    rest: str
    """Its source and its modules."""

    def __str__(self) -> str:
        absent = " (state Absent)" if self.state == "Absent" else ""
        return f"{wording.listed(map(images.unqualified, self.images), most=3)}{absent}"

    def is_newer(self, other: "_Target") -> bool:
        """Return whether it is a later release of the same sort."""
        if (self.state, self.rest, len(self.images)) != (other.state, other.rest, len(other.images)):
            return False
        mine, theirs = ([images.release(images.tag(each) or "") for each in one.images] for one in (self, other))
        pairs = [(own, its) for own, its in zip(mine, theirs, strict=True) if own is not None and its is not None]
        return len(pairs) == len(mine) and mine != theirs and all(own >= its for own, its in pairs)


class _Rollout(msgspec.Struct, frozen=True, dict=True):
    """The waves of a policy, on one side of a change, that have to show a driver before it comes to others."""

    order: Sequence[str]
    """The groups of that side that are not frozen: the waves, then the rest."""
    waves: Collection[str]
    """The waves that count."""
    targets: Mapping[_Cell, Counter[_Target]]
    """The drivers of the nodes on that side."""
    moves: Sequence[tuple[_Cell, _Target, Effect]]
    """What nodes get, in their groups of that side."""
    had: Mapping[_Cell, Counter[_Target]]
    """The drivers that the nodes of the same groups had before the change."""
    is_later: bool
    """True for the side after the change, which has a driver also on nodes that get it by the change."""

    def skipped(self, cell: _Cell, target: _Target) -> Iterator[str]:
        """Yield the waves that had to show a driver before a group gets it, and had no time to."""
        group, kernels = cell
        for wave in self.order[: self.order.index(group)]:
            here = self.targets.get((wave, kernels), Counter())
            shows = here[target] > (self._moved[(wave, kernels), target] if self.is_later else 0)
            shows = shows or self.had.get((wave, kernels), Counter())[target] > 0
            is_ahead = all(other.is_newer(target) for other in here)
            if wave in self.waves and here and not shows and not is_ahead:
                yield wave

    @functools.cached_property
    def _moved(self) -> Counter[tuple[_Cell, _Target]]:
        moved: Counter[tuple[_Cell, _Target]] = Counter()
        for cell, target, effect in self.moves:
            moved[cell, target] += len(effect.nodes)
        return moved


@rule("waves-skipped", "risk")
def waves_skipped(change: RevisionChange) -> Iterator[Acceptable]:
    """A driver is on the nodes of a wave before it comes to those after it."""
    earlier, later = divisions(change.before), divisions(change.after)
    for policy, division in later.items():
        effects = [effect for effect in change.difference.effects if _moves(effect, policy)]
        former = earlier.get(change.renamed.get(policy, policy))
        rollouts = [_later(change, former, division, effects)] if effects else []
        for owner in dict.fromkeys(effect.before.policy for effect in effects if effect.before):
            if owner in earlier and (gone := _gone(earlier[owner], division, later.values())):
                rollouts.append(_former(change, earlier[owner], gone, division, effects))
        yield from _skipped(change, policy, rollouts)


def _skipped(change: RevisionChange, policy: str, rollouts: Sequence[_Rollout]) -> Iterator[Acceptable]:
    found: dict[_Target, dict[str, list[Effect]]] = {}
    waves: dict[_Target, dict[str, bool]] = {}
    for rollout in rollouts:
        for cell, target, effect in rollout.moves:
            if skipped := [*rollout.skipped(cell, target)]:
                found.setdefault(target, {}).setdefault(cell[0], []).append(effect)
                waves.setdefault(target, {}).update(dict.fromkeys(skipped, rollout.is_later))
    for target, groups in sorted(found.items()):
        first, is_there = next(iter(waves[target].items()))
        named = f"{wording.inflected('wave', len(waves[target]))} {wording.listed(waves[target])}"
        late = sorted(groups, key=[group for rollout in rollouts for group in rollout.order].index)
        yield change.acceptable(
            drivers.cause(effect for moved in groups.values() for effect in moved),
            "In ",
            Place.CLUSTER,
            f", {target} comes to {wording.listed(late)} of policy '{policy}' before {named} could show that it works.",
            hint=f"Bring it to {first} alone, and to the next when the pods there are ready."
            if is_there
            else f"Keep the nodes of {first} in it until they have the driver: this change takes them out.",
            policy=policy,
        )


def _moves(effect: Effect, policy: str) -> bool:
    """Return whether nodes of a policy get another driver, which a wave could have had first."""
    is_staged = effect.work in (*DISTURBING, "installs") and not drivers.STAGED.isdisjoint(effect.reasons)
    return is_staged and effect.after is not None and effect.after.policy == policy


def _later(
    change: RevisionChange, former: pools.Division | None, division: pools.Division, effects: Iterable[Effect]
) -> _Rollout:
    """Return the waves after a change, and what comes to their groups."""
    order, own = _order(division), {pool.name: pool for pool in division.pools}
    moves = [
        ((now.group or "", _kernels(own[now.pool])), _target(change.after, division, own[now.pool]), effect)
        for effect in effects
        if (now := effect.after) and now.pool in own and now.group in order
    ]
    had = _targets(change, change.before, former) if former else {}
    return _Rollout(order, order, _targets(change, change.after, division), moves, had, is_later=True)


def _gone(former: pools.Division, division: pools.Division, later: Iterable[pools.Division]) -> frozenset[str]:
    """Return the waves that a change takes away, whatever their nodes are in now.

    No wave of the policy has their name, and none of any policy of the recipe one of their nodes.
    """
    recipe = division.policy.recipe.name
    waves = [(each, group) for each in later if each.policy.recipe.name == recipe for group in each.groups]
    waves = [(each, group) for each, group in waves if group.sort == "wave" and group.nodes]
    kept = {name for _, group in waves for name in group.nodes}
    own = {group.name for each, group in waves if each is division}
    gone = (group for group in former.groups if group.sort == "wave" and kept.isdisjoint(group.nodes))
    return frozenset(group.name for group in gone if group.name not in own)


def _former(
    change: RevisionChange,
    former: pools.Division,
    gone: frozenset[str],
    division: pools.Division,
    effects: Iterable[Effect],
) -> _Rollout:
    """Return the waves that a change takes away, and what comes to the groups that were after them."""
    order, own, known = _order(former), *({pool.name: pool for pool in each.pools} for each in (division, former))
    moves: list[tuple[_Cell, _Target, Effect]] = []
    for effect in effects:
        now = effect.after
        was = effect.before if effect.before and effect.before.policy == former.policy.name else None
        if now is None or now.pool not in own:
            continue
        # Nodes that are in no wave any more had their place in the order before.
        group = now.group if now.group_sort == "wave" or was is None else was.group
        if now.group_sort != "wave" and group not in order:
            group = order[-1]
        if group in order:
            pool = known.get(was.pool) if was and was.pool else None
            moves.append(
                ((group or "", _kernels(pool or own[now.pool])), _target(change.after, division, own[now.pool]), effect)
            )
    return _Rollout(order, gone, _targets(change, change.before, former), moves, {}, is_later=False)


def _order(division: pools.Division) -> Sequence[str]:
    """Return the names of the groups that are not frozen: the waves, then the rest."""
    return [group.name for group in division.groups if group.sort != "frozen"]


def _targets(
    change: RevisionChange, side: sides.Planned | None, division: pools.Division
) -> Mapping[_Cell, Counter[_Target]]:
    targets: dict[_Cell, Counter[_Target]] = {}
    for decision in side.planned.decisions if side else ():
        if decision.division is division and decision.pool is not None:
            group = division.group(decision.node.name)
            here = targets.setdefault((group.name if group else "", _kernels(decision.pool)), Counter())
            here[_target(side, division, decision.pool)] += change.basis.count(decision.names)
    return targets


def _kernels(pool: pools.Pool) -> str:
    return pool.kernels.name if pool.kernels else ""


def _target(side: sides.Planned | None, division: pools.Division, pool: pools.Pool) -> _Target:
    config = side.configs[division.policy.name, pool.name] if side else None
    held = exchange.held(pool, config) if config else {}
    source = pool.driver.source
    packages = source.packages.names if source.packages else None
    rest = repr((source.name, packages, config.names if config else ()))
    return _Target(tuple(held.values()) or (pool.image,), pool.driver.state, rest)


@rule("wave-unproven", "risk")
def wave_unproven(change: RevisionChange) -> Iterator[Acceptable]:
    """Before the driver of a wave comes to others, all nodes of the wave have it, as far as labels tell.

    A wave without a node has shown nothing, nor has one on which the change failed or is not done.
    """
    for policy, division in divisions(change.after).items():
        order, own = _order(division), {pool.name: pool for pool in division.pools}
        found: dict[tuple[str, _Target, _Unproven], dict[str, list[Effect]]] = {}
        effects = [effect for effect in change.difference.effects if _moves(effect, policy)]
        # That a wave gets it in the same change is told as waves-skipped.
        moved = frozenset(name for effect in effects for name in effect.nodes)
        by_pool = repeats.grouped((now.pool, effect) for effect in effects if (now := effect.after))
        for pool, group in ((own[name], own[name].group) for name in by_pool if name in own):
            if group is None or group.name not in order:
                continue
            target, ahead = _target(change.after, division, pool), order[: order.index(group.name)]
            for wave in (each for each in division.groups if each.name in ahead):
                for unproven in _unproven(change, division, wave, pool, moved):
                    late = found.setdefault((wave.name, target, unproven), {}).setdefault(group.name, [])
                    late.extend(by_pool[pool.name])
        for (name, target, unproven), groups in found.items():
            yield change.acceptable(
                drivers.cause(effect for each in groups.values() for effect in each),
                "In ",
                Place.CLUSTER,
                f", {target} comes to {wording.listed(sorted(groups, key=order.index))} of policy '{policy}', and wave "
                f"{name} has not shown that it works: ",
                *((Nodes(unproven.nodes), " ") if unproven.nodes else ()),
                f"{unproven.said}.",
                hint=unproven.way,
                policy=policy,
            )


class _Unproven(NamedTuple):
    """Why a wave has shown nothing."""

    nodes: tuple[str, ...]
    """Those that tell so."""
    said: str
    way: str


_NO_NODE = _Unproven((), "it has no node with a driver", "Give the wave a node, and bring the driver there first.")
_UNDONE = "Wait until they are Ready, or mend them, and take the inventory again."


def _unproven(
    change: RevisionChange, division: pools.Division, wave: pools.Group, pool: pools.Pool, moved: Collection[str]
) -> Iterator[_Unproven]:
    """Yield why a wave has not shown the driver of a pool that others get; of its nodes that do not get it as well."""
    side = change.after
    every = [
        decision
        for decision in (side.planned.decisions if side else ())
        if decision.division is division and decision.pool is not None and decision.runs("driver")
        if (group := division.group(decision.node.name)) is not None and group.name == wave.name
    ]
    overrides = wave.declared.overrides.images if wave.declared else {}
    parts = [(name, part, own) for name, each in overrides.items() for part, own in each.items()]
    if not every and parts and all(pool.driver.images.get(name, {}).get(part) == own for name, part, own in parts):
        yield _NO_NODE
    target = _target(side, division, pool)
    behind: dict[str, list[str]] = {}
    for decision in loaded.apart(every):
        known = loaded.of(decision)
        is_behind = known is not None and known.differs
        if known and is_behind and decision.pool and _target(side, division, decision.pool) == target:
            behind.setdefault(known.sentence, []).extend(name for name in decision.names if name not in moved)
    yield from (_Unproven(tuple(sorted(names)), said, _UNDONE) for said, names in behind.items() if names)


def programs_skipped(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield the programs whose image comes to nodes before it is on those of the waves ahead of them."""
    earlier, later = divisions(change.before), divisions(change.after)
    for policy, division in later.items():
        former = earlier.get(change.renamed.get(policy, policy))
        for name in (program.name for program in division.policy.programs if program.is_pooled):
            found: dict[str, dict[str, list[Effect]]] = {}
            for effect in change.difference.effects:
                image = _image(effect.after, name) if effect.after and effect.after.policy == policy else None
                if image is None or image == _image(effect.before, name) or effect.recipe.name != _recipe(division):
                    continue
                for wave in _unshown(
                    change, (former, division), (name, image), effect.after.group if effect.after else None
                ):
                    found.setdefault(image, {}).setdefault(wave, []).append(effect)
            for image, waves in found.items():
                yield change.acceptable(
                    drivers.cause(effect for moved in waves.values() for effect in moved),
                    "In ",
                    Place.CLUSTER,
                    f", {images.unqualified(image)} of program '{name}' of policy '{policy}' comes to nodes before "
                    f"{wording.inflected('wave', len(waves))} {wording.listed(waves)} could show that it works.",
                    code="waves-skipped",
                    hint=f"Bring it to {next(iter(waves))} alone, and to the next when the pods there are ready.",
                    policy=policy,
                )


def _recipe(division: pools.Division) -> str:
    return division.policy.recipe.name


def _image(placement: Placement | None, program: str) -> str | None:
    return dict(placement.programs).get(program) if placement else None


def _unshown(
    change: RevisionChange,
    sides_of: tuple[pools.Division | None, pools.Division],
    what: tuple[str, str],
    group: str | None,
) -> Iterator[str]:
    """Yield the waves ahead of a group that have nodes with a program, and had its new image on none of them."""
    (former, division), (program, image) = sides_of, what
    order = _order(division)
    for wave in order[: order.index(group)] if group in order else ():
        had, have = (
            {
                landing.image
                for decision in (side.planned.decisions if side else ())
                if each is not None and decision.division is each
                if (own := each.group(decision.node.name)) and own.name == wave
                if (landing := decision.landing(program)).image
            }
            for side, each in ((change.before, former), (change.after, division))
        )
        mine = images.release(images.tag(image) or "")
        ahead = [images.release(images.tag(str(each)) or "") for each in have]
        is_ahead = bool(ahead) and all(mine and theirs and theirs > mine for theirs in ahead)
        if have and image not in had and not is_ahead:
            yield wave
