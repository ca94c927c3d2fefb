"""Risks of a change for who writes what runs as root on nodes: registries, repositories, signatures."""

from collections.abc import Iterator, Mapping

import msgspec

from compiler import wording
from compiler.changes import sides, supply
from compiler.changes.acceptance import Acceptable, Place
from compiler.changes.effects import Effect, Placement
from compiler.changes.supply import Supply
from compiler.checks.risks.change import SETTINGS, RevisionChange
from compiler.diagnostics import shared_rule
from compiler.formats import documents
from compiler.planning import images

shared_rule("registry-changed", "risk", "Images come from the registries that they came from.")
shared_rule("repository-changed", "risk", "Images and packages come from the repositories that they came from.")
shared_rule("signatures-off", "risk", "The signatures of a driver's packages are checked.")
shared_rule("network-forced", "risk", "No driver is swapped under an interface that carries the node's own traffic.")

_MOST = 5
"""Repositories that a message names."""

_DRIVER, _PLUGIN = "driver", "device-plugin"
_NAMES: Mapping[str, str] = {_DRIVER: "Driver", _PLUGIN: "Device plugin", "nfd": "NFD", "watcher": "Watcher"}
"""Components in sentences."""
_SOURCE: documents.Path = ("spec", "driver", "source")
_PARTS: tuple[documents.Path, ...] = (("spec", "rollout"), ("spec", "kernelMappings"), ("spec", "driver"))
"""Where a policy may have settings for some of its nodes."""


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What is new in where a component comes from, of a policy if it has one."""

    registries: frozenset[str] = frozenset()
    repositories: frozenset[str] = frozenset()
    """Of images, on registries that are not new."""
    packages: frozenset[str] = frozenset()
    is_unchecked: bool = False
    is_forced: bool = False


_Owner = tuple[str, str | None]
"""A component and its policy."""
_Step = tuple[_Owner, Supply, Supply]
"""What some pods of a component came from, or else those nearest to them, and what they come from."""


def of_change(change: RevisionChange) -> Iterator[Acceptable]:
    """Yield the risks of a change in where bytes come from; what is new in a new cluster is none."""
    if change.before is None or change.after is None:
        return
    for (component, policy), found in _found(change, change.before, change.after).items():
        yield from _images(change, component, policy, found)
        if policy is not None:
            yield from _packages(change, policy, found)
            yield from _forced(change, policy, found)


def _images(change: RevisionChange, component: str, policy: str | None, found: _Found) -> Iterator[Acceptable]:
    """Yield that images come from other registries, or from other repositories of those that are known."""
    part, whose = SETTINGS.get(component, SETTINGS["program"]), f"policy '{policy}' in " if policy else ""
    for code, places in (("registry-changed", found.registries), ("repository-changed", found.repositories)):
        if places:
            yield change.acceptable(
                change.span(policy, (*part, "repository"), (*part, "image"), ("spec", "images"), *_PARTS, part),
                f"{_NAMES.get(component, f'Program {component}')} of {whose}",
                Place.CLUSTER,
                f" comes from {wording.listed(sorted(places), most=_MOST)}, and did not before.",
                hint="Check that the images there are those that you mean, and pin them by their digests.",
                code=code,
                policy=policy,
            )


def _packages(change: RevisionChange, policy: str, found: _Found) -> Iterator[Acceptable]:
    """Yield that packages come from other repositories, or without a signature that is checked."""
    span = change.span(policy, _SOURCE, *_PARTS)
    if found.packages:
        is_plain = any(url.startswith("http://") for url in found.packages)
        yield change.acceptable(
            span,
            f"Packages of the driver of policy '{policy}' in ",
            Place.CLUSTER,
            f" come from {wording.listed(sorted(found.packages), most=_MOST)}, and did not before.",
            notes=("Whoever is on the way to an http:// repository may exchange its packages.",) if is_plain else (),
            hint="Check who writes what is there: packages are installed by root.",
            code="repository-changed",
            policy=policy,
        )
    if found.is_unchecked:
        yield change.acceptable(
            span,
            f"Packages of the driver of policy '{policy}' in ",
            Place.CLUSTER,
            " are installed whoever signed them.",
            hint="Leave source.packages.gpgCheck on, and import the key of the repository on the hosts.",
            code="signatures-off",
            policy=policy,
        )


def _forced(change: RevisionChange, policy: str, found: _Found) -> Iterator[Acceptable]:
    """Yield that modules are swapped although the node's own traffic goes through them."""
    if found.is_forced:
        yield change.acceptable(
            change.span(policy, ("spec", "driver", "network"), *_PARTS),
            f"The driver of policy '{policy}' in ",
            Place.CLUSTER,
            " is swapped also under an interface that carries the node's own traffic.",
            hint="Leave driver.network.force off: a node whose new module fails is out of reach.",
            code="network-forced",
            policy=policy,
        )


def _found(change: RevisionChange, before: sides.Planned, after: sides.Planned) -> dict[_Owner, _Found]:
    """Return what is new by component and policy."""
    found: dict[_Owner, _Found] = {}
    everywhere = frozenset(images.registry(each) for _, supply in _pods(before) for each in supply.repositories)
    steps = [*_as_declared(change, before, after), *_of_moved(change, before, after)]
    for owner, was, now in steps:
        # Of a recipe that is new in the cluster, a registry is new that nothing there comes from.
        known = frozenset(map(images.registry, was.repositories)) or everywhere
        new = now.new_images(was)
        registries = frozenset(map(images.registry, new)) - known
        seen = found.get(owner, _Found())
        found[owner] = _Found(
            registries=seen.registries | registries,
            repositories=seen.repositories | {each for each in new if images.registry(each) not in registries},
            packages=seen.packages | now.new_packages(was),
            is_unchecked=seen.is_unchecked or (now.is_unchecked and not was.is_unchecked),
            is_forced=seen.is_forced or (now.is_forced and not was.is_forced),
        )
    return found


_Pod = tuple[str, str, str, str]
"""A component, the recipe, the policy and the pool; empty where there is none."""


def _pods(side: sides.Planned) -> Iterator[tuple[_Pod, Supply]]:
    """Yield where the pods of a cluster come from."""
    spec = side.planned.cluster.spec
    for division in side.planned.divisions:
        policy = division.policy
        for pool in division.pools:
            yield (_DRIVER, policy.recipe.name, policy.name, pool.name), supply.of_pool(pool, spec.images.mirrors)
        if policy.offered is not None:
            plugin = (policy.offered.image, images.name(division.device_plugin_image))
            yield (_PLUGIN, policy.recipe.name, policy.name, ""), Supply(images=frozenset([plugin]))
        for made in division.deployments:
            own = frozenset((name, images.name(image)) for name, image in made.images)
            part = made.part.name if made.part else ""
            yield (made.program.name, policy.recipe.name, policy.name, part), Supply(images=own)
    for program, image, is_there in (
        ("nfd", spec.nfd.image.repository, spec.nfd.enabled),
        ("watcher", images.name(spec.watcher.image), spec.watcher.enabled),
    ):
        if is_there:
            repository = images.mirrored(image, spec.images.mirrors)
            yield (program, "", "", ""), Supply(images=frozenset([(program, repository)]))


def _as_declared(change: RevisionChange, before: sides.Planned, after: sides.Planned) -> Iterator[_Step]:
    """Yield what differs for the pods of a pool; of a new pool, from all of its policy, or else of its recipe."""
    earlier = dict(_pods(before))
    for (component, recipe, policy, pool), now in _pods(after):
        was = earlier.get((component, recipe, policy, pool))
        if was is None:
            former = change.renamed.get(policy, policy)
            of_policy = [each for key, each in earlier.items() if (key[0], key[2]) == (component, former)]
            of_recipe = [each for key, each in earlier.items() if key[:2] == (component, recipe)]
            was = supply.joined(of_policy or of_recipe)
            if not of_policy:  # A policy that is new allows it anew, whatever another one does.
                was = msgspec.structs.replace(was, is_unchecked=False, is_forced=False)
        yield (component, policy or None), was, now


def _of_moved(change: RevisionChange, before: sides.Planned, after: sides.Planned) -> Iterator[_Step]:
    """Yield what differs for nodes that a changed document brings to another pool."""
    changed = {item.name for item in change.basis.changed}
    moved = [
        (effect, was, now)
        for effect in change.difference.effects
        if (was := effect.before) and (now := effect.after) and _places(effect, was) != _places(effect, now)
        if changed.intersection((was.policy, now.policy, effect.recipe.name, change.cluster))
    ]
    earlier, later = (dict(_pods(side)) if moved else {} for side in (before, after))
    for effect, left, right in moved:
        for old, new in zip(_places(effect, left), _places(effect, right), strict=True):
            if old in earlier and new in later:
                yield (new[0], right.policy), earlier[old], later[new]


def _places(effect: Effect, placement: Placement) -> tuple[_Pod, ...]:
    """Return the pods that nodes with an effect have, or may have."""
    recipe, policy = effect.recipe.name, placement.policy or ""
    programs = ((name, recipe, policy, pool) for name in effect.recipe.programs for pool in (placement.pool or "", ""))
    return (_DRIVER, recipe, policy, placement.pool or ""), (_PLUGIN, recipe, policy, ""), *programs
