"""Risks of a change for the drivers and programs of nodes."""

import functools
import itertools
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from compiler import repeats, wording
from compiler.changes import devices, exchange, hardware, pods, sides
from compiler.changes.acceptance import Acceptable, Nodes, Place
from compiler.changes.effects import DISTURBING, Effect, Placement, Work
from compiler.checks.output import causes
from compiler.checks.risks.change import RevisionChange, divisions
from compiler.diagnostics import Span, rule
from compiler.planning import images
from runtime import driver_work

_Key = TypeVar("_Key", bound=Hashable)

STAGED = frozenset({"version", "source", "image", "repository", "modules", "state"})
"""The reasons of a change that a wave can bring to its nodes alone."""

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
    if all(STAGED.intersection(each) for each in reasons):
        return _IN_WAVES
    if any("mirrors" in each for each in reasons):
        return "A mirror is of a whole cluster: change it in one cluster first, after a look at what it holds."
    return "No wave can carry this setting: give it to a policy of its own for some of the nodes first."


@rule("large-step", "risk")
def large_step(change: RevisionChange) -> Iterator[Acceptable]:
    """A change disturbs at most limits.stepPercent of a policy's nodes, or one node."""
    # Nodes that join are none that go on working, and those that move to a policy were counted on by their own.
    for policy, found in _by(change.difference.effects, _first_owner, _disturbs).items():
        count = len({name for effect in found for name in effect.nodes})
        every = max(change.driven(policy, is_later=False), count)
        if count > 1 and count * 100 > change.basis.step_percent * every:
            yield change.acceptable(
                cause(found),
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


def large_program_step(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield the programs that a change starts anew, as something else, on more than limits.stepPercent of their nodes.

    While such a program is away, and where the new one fails, pods get no device of it: others do not count.
    """
    for program in sorted({name for effect in change.difference.effects for name, _ in effect.program_pods}):
        had, have = (_programs(side, program) for side in (change.before, change.after))
        found: dict[str, list[tuple[Effect, str]]] = {}
        for effect in change.difference.effects:
            for key in ((effect.recipe.name, name) for name in effect.nodes):
                is_replaced = dict(effect.program_pods).get(program) == "replaced" and key in had and key in have
                if is_replaced and had[key].content != have[key].content:
                    found.setdefault(had[key].policy, []).append((effect, key[1]))
        for policy, reached in found.items():
            count = change.basis.count([name for _, name in reached])
            every = [(name, made) for (_, name), made in had.items() if made.policy == policy]
            if count > 1 and count * 100 > change.basis.step_percent * change.basis.count([name for name, _ in every]):
                yield change.acceptable(
                    cause(effect for effect, _ in reached),
                    f"Policy '{policy}' starts another program '{program}' on ",
                    count,
                    " of its ",
                    change.basis.count([name for name, _ in every]),
                    " nodes in ",
                    Place.CLUSTER,
                    " in one step.",
                    code="large-step",
                    notes=(f"limits.stepPercent allows {change.basis.step_percent} %, or one node.", _AWAY),
                    hint=_IN_WAVES if every[0][1].is_pooled else _WHOLE,
                    policy=policy,
                )


_AWAY = "Until the new one is ready, pods that start on a node get no device of it."
_IN_WAVES = "Bring the change to a wave first, in a commit of its own."
_WHOLE = "No wave can carry it: give it to a policy of its own for some of the nodes first."


@rule("pace-bypassed", "risk")
def pace_bypassed(change: RevisionChange) -> Iterator[Acceptable]:
    """No more nodes come to another DaemonSet and change their driver in one step than its maxUnavailable.

    A DaemonSet makes the pods of nodes that come to it all at once, and a host without a pod that holds a device needs
    no Lease.
    """

    def comes(effect: Effect) -> bool:
        is_there = effect.before is not None and effect.before.driver is not None
        return is_there and effect.drain is not None and not effect.drain.rolls and _pool(effect)[1] is not None

    found: dict[str | None, list[Effect]] = {}
    for (policy, pool), moved in _by(change.difference.effects, _pool, comes).items():
        own = divisions(change.after).get(policy or "")
        most = own.policy.installed.max_unavailable if own and own.policy.installed else 1
        size = sum(
            change.basis.count(decision.names)
            for decision in (change.after.planned.decisions if change.after else ())
            if decision.division is own and decision.pool is not None and decision.pool.name == pool
        )
        if sum(len(effect.nodes) for effect in moved) > pods.scaled(most, size):
            found.setdefault(policy, []).extend(moved)
    for policy, moved in found.items():
        yield change.acceptable(
            cause(moved),
            f"Policy '{policy}' brings ",
            sum(len(effect.nodes) for effect in moved),
            " nodes in ",
            Place.CLUSTER,
            " to another DaemonSet and changes their drivers in one step: all at once where no pod holds a device.",
            notes=(_BYPASSED, "A host without a pod that holds a device needs no Lease either."),
            hint=_IN_TWO,
            policy=policy,
        )


def _pool(effect: Effect) -> tuple[str | None, str | None]:
    """Return the policy and the pool of nodes; none for nodes that get no installer."""
    now = effect.after
    return (now.policy, now.pool) if now and now.driver else (None, None)


def pace_bypassed_by_programs(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield the programs of pools that a change starts anew, as something else, on nodes that come to a DaemonSet."""
    for program in sorted({name for effect in change.difference.effects for name, _ in effect.program_pods}):
        had, have = (_programs(side, program) for side in (change.before, change.after))
        both = had.keys() & have.keys()
        moving = {key for key in both if _place(had[key]) != _place(have[key])}
        found: dict[tuple[str, str], list[tuple[Effect, str]]] = {}
        for effect in change.difference.effects:
            for key in moving.intersection((effect.recipe.name, name) for name in effect.nodes):
                if had[key].content != have[key].content:
                    found.setdefault(_place(have[key]), []).append((effect, key[1]))
        for place, moved in found.items():
            every = [(name, made) for (_, name), made in have.items() if _place(made) == place]
            count = change.basis.count([name for _, name in moved])
            if count > pods.scaled(every[0][1].pace, change.basis.count([name for name, _ in every])):
                yield change.acceptable(
                    cause(effect for effect, _ in moved),
                    f"Policy '{place[0]}' brings ",
                    count,
                    " nodes in ",
                    Place.CLUSTER,
                    f" to another DaemonSet of program '{program}' and changes it in one step: all at once.",
                    code="pace-bypassed",
                    notes=(_BYPASSED,),
                    hint=_IN_TWO,
                    policy=place[0],
                )


_BYPASSED = (
    "maxUnavailable paces pods that a DaemonSet replaces, and not those that it makes for nodes that come to it."
)
_IN_TWO = "Take two commits: one that moves the nodes with what they have, and one that changes that where they are."


class _Made(NamedTuple):
    """A program on a node."""

    policy: str
    pool: str
    """Empty in a policy without pools, and for a program that a policy has once."""
    is_pooled: bool
    pace: int | str
    """Its maxUnavailable."""
    content: object
    """What decides over what it does."""


def _place(made: _Made) -> tuple[str, str]:
    """Return what a program has a DaemonSet for."""
    return made.policy, made.pool


def _programs(side: sides.Planned | None, program: str) -> dict[tuple[str, str], _Made]:
    """Return what a program is on the nodes that have it, by recipe and node, if pods get devices by it."""
    found = {}
    for decision in side.planned.decisions if side else ():
        made = decision.division.deployment(program, decision.node) if decision.division else None
        if made is None or decision.policy is None or not decision.runs(program):
            continue
        own = made.program
        if own.offers or own.disrupts:
            content = (made.images, own.data["pod"], own.data.get("files"), own.values, own.resources)
            pool = made.part.name if made.part else ""
            here = _Made(decision.policy.name, pool, own.is_pooled, own.pace, content)
            found.update(dict.fromkeys(((decision.recipe.name, name) for name in decision.names), here))
    return found


def _disturbs(effect: Effect) -> bool:
    """Return whether nodes stop to serve; where neither driver nor device plugin was, nobody counts on one."""
    was = effect.before
    is_served = was is None or was.driver is not None or was.device_plugin is not None
    return effect.work in DISTURBING and is_served


@rule("frozen-touched", "risk")
def frozen_touched(change: RevisionChange) -> Iterator[Acceptable]:
    """A change leaves the drivers of frozen groups as they are."""

    def frozen(effect: Effect) -> bool:
        return bool(effect.before and effect.before.group_sort == "frozen" and effect.work in (*DISTURBING, "leaves"))

    own = "and what they have; settings that no group overrides, such as moduleParameters, reach them too"
    yield from _frozen(change, frozen, "the drivers", own)


def frozen_programs(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield the programs of pools that a change starts anew in frozen groups."""
    for program in sorted({name for effect in change.difference.effects for name, _ in effect.program_pods}):

        def frozen(effect: Effect, program: str = program) -> bool:
            was, fate = effect.before, dict(effect.program_pods).get(program)
            own = divisions(change.before).get(was.policy or "") if was else None
            is_pooled = own is not None and any(one.name == program and one.is_pooled for one in own.policy.programs)
            return bool(was and was.group_sort == "frozen" and is_pooled and fate in ("replaced", "deleted"))

        own = "and name the images and values that they have in the entry of the group"
        yield from _frozen(change, frozen, f"program '{program}'", own)


def _frozen(change: RevisionChange, is_reached: Callable[[Effect], bool], what: str, way: str) -> Iterator[Acceptable]:
    """Yield the frozen groups whose nodes are reached, with what they should keep besides."""
    for (policy, group), found in _by(change.difference.effects, _frozen_group, is_reached).items():
        yield change.acceptable(
            cause(found),
            f"The change reaches {what} of the frozen group '{group}' of policy '{policy}' in ",
            Place.CLUSTER,
            ": ",
            _nodes(found),
            ".",
            code="frozen-touched",
            hint=f"Keep its nodes in it, {way}.",
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
            cause(found),
            f"The driver of policy '{policy}' {_LOSSES[work][0]} ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ".",
            hint=_LOSSES[work][1],
            policy=policy,
        )


@rule("claims-unended", "risk")
def claims_unended(change: RevisionChange) -> Iterator[Acceptable]:
    """A change takes no device plugin with the interface DRA from a node: nobody else ends claims of its devices."""
    known = divisions(change.before)

    def gone(effect: Effect) -> bool:
        own = known.get(effect.before.policy or "") if effect.before else None
        is_dra = own is not None and own.policy.offered is not None and own.policy.offered.is_dra
        return is_dra and effect.device_plugin_pod == "deleted" and not effect.is_unseen

    for policy, found in _by(change.difference.effects, _first_owner, gone).items():
        yield change.acceptable(
            cause(found),
            f"The device plugin of policy '{policy}', whose interface is DRA, leaves ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ".",
            notes=("Pods there that have a device by a claim would stay in Terminating.",),
            hint="Set devicePlugin.interface: DevicePlugin first, and make this change once these claims have ended:"
            " `kubectl get resourceclaims -A` lists them.",
            policy=policy,
        )


@rule("program-removed", "risk")
def program_removed(change: RevisionChange) -> Iterator[Acceptable]:
    """A change takes no device plugin and no vendor's program from a node."""
    is_emptied = change.after is not None and not change.after.planned.inventory.nodes

    def gone(effect: Effect, program: str) -> bool:
        was = effect.before
        if effect.is_unseen:  # Where all nodes leave the inventory, `driver-removed` tells of those with a driver.
            return is_emptied and was is not None and was.driver is None and program in _on(was)
        fates = dict(effect.program_pods)
        return (fates.get(program) if program else effect.device_plugin_pod) == "deleted"

    names = sorted({name for effect in change.difference.effects if effect.before for name in _on(effect.before)})
    for name in names:
        for (policy, is_unknown), found in _by(
            change.difference.effects,
            lambda each: (_owner(each), each.is_unseen),
            functools.partial(gone, program=name),
        ).items():
            lost = {one for each in found for one in _withdrawn(each)}
            what = f"Program '{name}'" if name else "The device plugin"
            yield change.acceptable(
                cause(found),
                f"{what} of policy '{policy}' {_LOSSES[None][0] if is_unknown else 'is taken from'} ",
                _nodes(found),
                " of ",
                Place.CLUSTER,
                ".",
                notes=(_pending(lost),) if lost else (),
                hint=_LOSSES[None if is_unknown else "removes"][1],
                policy=policy,
            )


def _on(placement: Placement) -> Iterator[str]:
    """Yield the names of the programs on a node; that of the device plugin is empty."""
    yield from ("",) if placement.device_plugin is not None else ()
    yield from (name for name, _ in placement.programs)


def _withdrawn(effect: Effect) -> frozenset[str]:
    """Return the resources that nodes offer no more."""
    sides = (effect.before, effect.after)
    had, have = (frozenset(name for name, _ in side.resources) if side else frozenset[str]() for side in sides)
    return had - have


def _pending(resources: Iterable[str]) -> str:
    return f"Pods that ask for {wording.listed(sorted(resources))} stay Pending from now on."


@rule("resource-withdrawn", "risk")
def resource_withdrawn(change: RevisionChange) -> Iterator[Acceptable]:
    """The device plugins and programs that stay on a node offer what they have offered."""

    def key(effect: Effect) -> tuple[str | None, frozenset[str]]:
        return _policy(effect), _withdrawn(effect)

    def stays(effect: Effect) -> bool:
        # Of what goes with its driver or its pods the other risks tell.
        gone = "deleted" in (effect.device_plugin_pod, *(fate for _, fate in effect.program_pods))
        is_there = effect.before is not None and effect.after is not None and not effect.standing
        return is_there and not gone and effect.work != "removes" and bool(_withdrawn(effect))

    for (policy, lost), found in _by(change.difference.effects, key, stays).items():
        yield change.acceptable(
            cause(found),
            f"Policy '{policy}' no longer offers {wording.listed(sorted(lost))} on ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ".",
            notes=(_pending(lost),),
            hint="Undo it, unless no pod asks for them any more.",
            policy=policy,
        )
    yield from _narrowed(change)
    yield from _uncounted(change)


def _uncounted(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield the resources that NFD gives nodes with the hardware of a recipe no more, or fewer of them."""
    for one, later in change.kept_recipes:
        has = later.recipe.extended
        lost = [name for name, amount in one.recipe.extended.items() if _is_less(has.get(name), amount)]
        if lost:
            yield change.acceptable(
                change.span(None, ("spec", "match")),
                "NFD of ",
                Place.CLUSTER,
                f" no longer gives as many {wording.listed(sorted(lost))} to nodes with the hardware of recipe "
                f"'{one.recipe.name}'.",
                notes=(_pending(lost),),
                hint="Undo it, unless no pod asks for them any more.",
            )


def _is_less(amount: str | None, before: str) -> bool:
    """Return whether an amount is not surely as much: none, another attribute, or a smaller number."""
    if amount is None or not (amount.isdecimal() and before.isdecimal()):
        return amount != before
    return int(amount) < int(before)


def _narrowed(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield where the device plugin of a policy may find, or offers, fewer devices of a resource than before."""
    before, after = divisions(change.before), divisions(change.after)
    for policy, division in after.items():
        had = before[policy].policy.offered if policy in before else None
        has = division.policy.offered
        if had is None or has is None:
            continue
        was = {each.name: each for each in had.resources}
        fewer = [one.name for one in has.resources if one.name in was and not devices.is_as_wide(was[one.name], one)]
        found = [
            effect
            for effect in change.difference.effects
            if fewer and _policy(effect) == policy and _owner(effect) == policy and not effect.standing
        ]
        if found:
            yield change.acceptable(
                cause(found),
                f"Policy '{policy}' may offer fewer {wording.listed(fewer)} on ",
                _nodes(found),
                " of ",
                Place.CLUSTER,
                ".",
                notes=("Pods that ask for one may stay Pending; running containers keep theirs.",),
                hint="Compare what the resource takes now with the devices of these nodes.",
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
                cause(found),
                f"The new match of recipe '{recipe}' {does}",
                _nodes(found),
                f" of policy '{policy}' in ",
                Place.CLUSTER,
                ".",
                notes=(hardware.UNKNOWN,),
                hint="Compare the new match with the hardware of these nodes (`lspci -nn`).",
                policy=policy,
            )


@rule("program-disrupts", "risk")
def program_disrupts(change: RevisionChange) -> Iterator[Acceptable]:
    """A change starts no program anew that takes devices from pods that hold them."""
    known = divisions(change.after)

    def named(effect: Effect) -> tuple[str, str]:
        policy = _policy(effect) or ""
        own = known[policy].policy.programs if policy in known else ()
        # A pool may have other values than the policy: any that disrupts is told.
        restarted = {name for name, fate in effect.program_pods if fate != "deleted" and effect.before}
        made = [each.program for each in known[policy].deployments] if own else []
        return policy, next((one.name for one in made if one.disrupts and one.name in restarted), "")

    for (policy, program), found in _by(
        change.difference.effects, named, lambda effect: bool(named(effect)[1])
    ).items():
        yield change.acceptable(
            cause(found),
            f"Program '{program}' of policy '{policy}' starts anew on ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ", and takes devices from pods that hold them.",
            notes=("Nothing drains these pods: they go on without their devices.",),
            hint="Drain such nodes first, or bring the change to a wave of few nodes.",
            policy=policy,
        )


@rule("driver-downgrade", "risk")
def driver_downgrade(change: RevisionChange) -> Iterator[Acceptable]:
    """A change brings no older driver."""
    older: dict[tuple[str | None, str, str], list[Effect]] = {}
    for effect in change.difference.effects:
        if effect.work in (*DISTURBING, "installs") and (pair := _older(change, effect)):
            older.setdefault((_policy(effect), *pair), []).append(effect)
    for (policy, was, now), found in older.items():
        yield change.acceptable(
            cause(found),
            f"The driver of policy '{policy}' goes back from {was} to {now} on ",
            _nodes(found),
            " of ",
            Place.CLUSTER,
            ".",
            hint=f"Set the version to {was} or a newer one, unless going back is meant.",
            policy=policy,
        )


def _older(change: RevisionChange, effect: Effect) -> tuple[str, str] | None:
    """Return the version of the driver and the older one that nodes get, of it or of an image or package of it."""
    was, now = effect.before, effect.after
    if was is None or now is None or was.state == "Absent":
        return None
    before, after = _versions(change.before, was), _versions(change.after, now)
    for name, later in after.items():
        earlier = before.get(name)
        # Of versions that are no releases, the order is unknown, and of packages named without one that of releases.
        if earlier is not None and any(new < old for new, old in _deciding(later.numbers, earlier.numbers)):
            return earlier.text, later.text
    return None


class _Version(NamedTuple):
    text: str
    numbers: tuple[tuple[object, ...], ...]
    """Of a package its version and its release, of anything else the numbers of its version; none where unknown."""


def _deciding(
    later: tuple[tuple[object, ...], ...], earlier: tuple[tuple[object, ...], ...]
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """Yield the first parts of two versions that differ, if both have such a part."""
    return itertools.islice((pair for pair in zip(later, earlier, strict=False) if pair[0] != pair[1]), 1)


def _release(version: str) -> tuple[tuple[object, ...], ...]:
    numbers = images.release(version)
    return () if numbers is None else (numbers,)


def _versions(side: sides.Planned | None, place: Placement) -> Mapping[tuple[str, str], _Version]:
    """Return what can be compared of a driver, by sort and name: its own version, its images and its packages.

    The version is that of an image, and says nothing of modules that do not come out of it, unless names of packages
    hold it; what such an image holds beside modules is compared by its tag.
    """
    division = divisions(side).get(place.policy or "")
    pool = next((pool for pool in division.pools if pool.name == place.pool), None) if division else None
    if side is None or division is None or pool is None:
        return {}
    config = side.configs[division.policy.name, pool.name]
    found: dict[tuple[str, str], _Version] = {}
    if exchange.is_versioned(config):
        sort = "packages" if config.source.packages else images.unqualified(images.name(pool.image))
        found["version", sort] = _Version(place.version or "", _release(place.version or ""))
    for name, image in exchange.held(pool, config).items():
        text = images.unqualified(image)
        of_image, _, tag = text.partition("@")[0].rpartition(":")
        found[f"image {name}", of_image] = _Version(text, _release(tag))
    return found | dict(_packages(driver_work.packages(config)))


_PACKAGE = re.compile(r"(.+)-([0-9][^-]*)-([^-]+)|(.+)-([0-9][^-]*)")
"""NAME-VERSION-RELEASE, from the right, or NAME-VERSION (rpm(8), dnf(8)): names and releases may have any numbers."""

_ARCHITECTURE = re.compile(r"\.(aarch64|noarch|x86_64)$")


def _packages(packages: Iterable[str]) -> Iterator[tuple[tuple[str, str], _Version]]:
    """Yield the packages with a version; several of one name, such as those of kernels, are told apart by it."""
    found: dict[str, list[tuple[str, str, str | None]]] = {}
    for package in packages:
        match = _PACKAGE.fullmatch(_ARCHITECTURE.sub("", package))
        if match is not None:
            found.setdefault(match[1] or match[4], []).append((package, match[2] or match[5], match[3]))
    for name, own in found.items():
        for package, version, release in own:
            parts = tuple(_order(part) for part in (version, release) if part is not None)
            yield ("package", name if len(own) == 1 else f"{name}-{version}"), _Version(package, parts)


def _order(version: str) -> tuple[object, ...]:
    """Return what rpm compares of a version or a release: rpm-version(7).

    A number is newer than letters, what is longer is newer, and what follows a tilde comes before the end.
    """
    parts = re.findall(r"[0-9]+|[A-Za-z]+|~", version)
    ranked = ((2, int(part)) if part.isdigit() else (-1, 0) if part == "~" else (1, part) for part in parts)
    return *ranked, (0, 0)


@rule("drain-unbounded", "risk")
def drain_unbounded(change: RevisionChange) -> Iterator[Acceptable]:
    """Fewer hosts drain at a time than the policy has."""
    before, after = (side.pace if side else {} for side in (change.before, change.after))
    evicting = {_policy(effect) for effect in change.difference.effects if effect.drain and effect.drain.evicts}
    for policy, leases in after.items():
        nodes = change.driven(policy)
        had = before.get(change.renamed.get(policy, policy), 0)
        if nodes > 1 and leases >= nodes and (policy in evicting or leases > had):
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


def _by(
    effects: Iterable[Effect], key: Callable[[Effect], _Key], is_meant: Callable[[Effect], bool]
) -> dict[_Key, list[Effect]]:
    return repeats.grouped((key(effect), effect) for effect in filter(is_meant, effects))


def _policy(effect: Effect) -> str | None:
    """Return the policy of nodes, or the one that they had."""
    return effect.after.policy if effect.after and effect.after.policy else _owner(effect)


def _first_owner(effect: Effect) -> str | None:
    """Return the policy that nodes had, or the first that they get."""
    return _owner(effect) or _policy(effect)


def _owner(effect: Effect) -> str | None:
    """Return the policy that nodes had."""
    return effect.before.policy if effect.before else None


def _frozen_group(effect: Effect) -> tuple[str | None, str | None]:
    return _owner(effect), effect.before.group if effect.before else None


def _nodes(effects: Iterable[Effect]) -> Nodes:
    return Nodes(tuple(sorted({name for effect in effects for name in effect.nodes})))


def cause(effects: Iterable[Effect]) -> Span:
    """Return the cause for most of the nodes."""
    return max(effects, key=lambda effect: len(effect.nodes)).cause
