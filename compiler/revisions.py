"""The comparison of a cluster in two revisions of the documents, each planned by the pipeline, and the risks of it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from compiler import names, pipeline
from compiler.changes import objects
from compiler.changes.revisions import difference, intent, pods, privileges
from compiler.checks import risks
from compiler.checks.risks.change import RevisionChange
from compiler.fleet import examples
from compiler.planning import plan
from compiler.rendering import ir, layout, node_feature_rules, node_programs
from compiler.settings import Settings
from runtime import driver_config

_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class Made:
    """A cluster as one side of a comparison, and what its output is made from."""

    side: pods.Side
    manifests: ir.ClusterManifests


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a comparison of a cluster needs beside its two sides."""

    changed: Sequence[intent.DocumentChange]
    """The documents that differ."""
    render: layout.Render
    step_percent: int = _DEFAULTS.limits.step_percent
    """The share of a policy's nodes that one step may disturb."""
    known: examples.Examples | None = None
    """The nodes that those of both sides stand for, if they are examples."""


def made(planned: plan.Plan, output: str = names.OUTPUT) -> Made:
    """Return a planned cluster as one side of a comparison."""
    manifests_made = pipeline.manifests_of(planned, output)
    daemon_sets: dict[pods.Served, pods.DaemonSet] = {}
    for manifest in manifests_made.manifests:
        value = manifest.value
        if isinstance(value, node_programs.DriverPool | node_programs.DevicePlugin):
            pool = value.pool if isinstance(value, node_programs.DriverPool) else ""
            key = ("driver" if pool else "device-plugin", value.policy, pool)
            config = msgspec.json.decode(value.config, type=driver_config.Config) if pool else None
            ref = objects.Ref(kind="DaemonSet", namespace=value.namespace, name=value.name)
            daemon_sets[key] = pods.DaemonSet(ref=ref, config=config)
    values = (manifest.value for manifest in manifests_made.manifests)
    rules = frozenset(value.name for value in values if isinstance(value, node_feature_rules.DeviceRules))
    side = pods.Side(planned=planned, daemon_sets=daemon_sets, rules=rules)
    return Made(side, manifests_made)


def _rendered(
    side: ir.ClusterManifests | None, other: ir.ClusterManifests | None, render: layout.Render
) -> dict[objects.Ref, objects.Item]:
    """Return the objects of one side that may differ from those of the other; equal values are not rendered."""
    if side is None:
        return {}
    # The engine's annotations are no part of a manifest.
    known = {*other.manifests, *other.bootstrap} if other is not None and other.engine == side.engine else set()
    own = msgspec.structs.replace(
        side,
        manifests=tuple(item for item in side.manifests if item not in known),
        bootstrap=tuple(item for item in side.bootstrap if item not in known),
    )
    found = layout.objects(own, lambda manifest: _rendered_once(manifest, render))
    return {objects.ref(item.data): objects.Item(item.component, item.path, item.data) for item in found}


def _rendered_once(manifest: ir.Manifest, render: layout.Render) -> Mapping[str, Any]:
    """Return an object; pods that differ in their config alone, as those of several clusters do, are rendered once."""
    value = manifest.value
    if not isinstance(value, node_programs.Pod):
        return render(manifest)
    data = render(msgspec.structs.replace(manifest, value=msgspec.structs.replace(value, config="")))
    spec, template = data["spec"], data["spec"]["template"]
    metadata = template["metadata"]
    annotations = {**metadata["annotations"], names.CONFIG: value.config}
    pods_of = {**template, "metadata": {**metadata, "annotations": annotations}}
    return {**data, "spec": {**spec, "template": pods_of}}


def compared(before: Made | None, after: Made | None, basis: Basis) -> difference.ClusterDifference | None:
    """Return what becomes of a cluster and the risks of it; None where nothing differs."""
    was, now = (made.side if made else None for made in (before, after))
    manifests = (before.manifests if before else None, after.manifests if after else None)
    pairs = objects.pairs(*(_rendered(*each, basis.render) for each in (manifests, manifests[::-1])))
    found = difference.of_cluster(was, now, pairs, basis.changed)
    if found is None:
        return None
    if basis.known is not None:
        found = found.expanded(basis.known)
    # Only a new object may have a privilege that an unchanged one of its component has too.
    new = {item.component for item in found.privileges if item.is_new and item.gained}
    change = RevisionChange(
        before=was,
        after=now,
        difference=found,
        written=basis.changed,
        held=_held(before.manifests, new, basis.render) if before and new else {},
        step_percent=basis.step_percent,
        known=basis.known,
    )
    return replace(found, risks=tuple(risks.risks(change)))


def _held(
    made: ir.ClusterManifests, components: Collection[str], render: layout.Render
) -> Mapping[str, frozenset[privileges.Privilege]]:
    """Return the privileges of all objects of some components."""
    own = [item for item in made.manifests if item.component in components]
    bootstrap = made.bootstrap if names.BOOTSTRAP in components else ()
    found = layout.objects(msgspec.structs.replace(made, manifests=tuple(own), bootstrap=bootstrap), render)
    return {
        component: frozenset().union(
            *(privileges.of_object(item.data) for item in found if item.component == component)
        )
        for component in components
    }
