"""The pods that a change creates, replaces and deletes, by workload and node.

The DaemonSet controller replaces a pod only for another template; the other fields of a DaemonSet reach no pod. A
DaemonSet of another name or namespace is another one: the pods of the first are deleted, those of the second created.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Literal, get_args

import msgspec

from compiler.changes import objects
from compiler.fleet import taints
from compiler.inventory import snapshot
from compiler.output import index_file
from compiler.planning import plan
from compiler.rendering import ir, node_feature_rules, node_programs, privileges
from runtime import driver_config

Fate = Literal["created", "replaced", "deleted"]
Served = tuple[str, str, str]
"""Component, policy and pool of a DaemonSet; the pool is empty for the device plugin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSet:
    """A DaemonSet of the driver or the device plugin."""

    ref: objects.Ref
    config: driver_config.Config | None
    """The config of a driver installer; None for a device plugin."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """A cluster as the documents of one revision make it."""

    planned: plan.Plan
    manifests: ir.ClusterManifests

    @functools.cached_property
    def daemon_sets(self) -> Mapping[Served, DaemonSet]:
        """The DaemonSets of drivers and device plugins."""
        found: dict[Served, DaemonSet] = {}
        for manifest in self.manifests.manifests:
            value = manifest.value
            if isinstance(value, node_programs.DriverPool | node_programs.DevicePlugin):
                pool = value.pool if isinstance(value, node_programs.DriverPool) else ""
                ref = objects.Ref(kind="DaemonSet", namespace=value.namespace, name=value.name)
                config = msgspec.json.decode(value.config, type=driver_config.Config) if pool else None
                found["driver" if pool else "device-plugin", value.policy, pool] = DaemonSet(ref=ref, config=config)
        return found

    @property
    def rules(self) -> frozenset[str]:
        """The recipes whose rules, which label nodes with their devices, the output has."""
        values = (manifest.value for manifest in self.manifests.manifests)
        return frozenset(value.name for value in values if isinstance(value, node_feature_rules.DeviceRules))

    def serving(self, component: index_file.Component, decision: plan.Decision | None) -> DaemonSet | None:
        """Return the DaemonSet of a component that has a pod on the nodes of a decision."""
        if decision is None or decision.policy is None or not decision.runs(component):
            return None
        pool = decision.pool.name if component == "driver" and decision.pool is not None else ""
        return self.daemon_sets[component, decision.policy.name, pool]

    def without_labels(self, lost: frozenset[str]) -> "Side":
        """Return the side after the rules of some recipes have gone: no node has labels by which DaemonSets select."""
        mended = (_bare(one) if one.recipe.name in lost else one for one in self.planned.recipes)
        return replace(self, planned=replace(self.planned, recipes=tuple(mended)))


def _bare(planned: plan.RecipePlan) -> plan.RecipePlan:
    gone = plan.Landing(image=None, reason="no rule labels its devices any more")
    bare = (
        replace(decision, pool=None, driver=gone, device_plugin=gone, resources=()) for decision in planned.decisions
    )
    return replace(planned, decisions=tuple(bare))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChange:
    """What happens to the pods of a workload."""

    cluster: str
    component: str
    kind: Literal["DaemonSet", "Deployment"]
    namespace: str
    name: str
    created: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    """The nodes of the pods of a DaemonSet."""
    replicas: int = 0
    """The pods of a Deployment, which all have one fate."""
    fate: Fate | None = None
    """The fate of a Deployment's pods."""


def replaced(pairs: Iterable[objects.Pair]) -> frozenset[objects.Ref]:
    """Return the workloads whose template differs."""
    return frozenset(
        pair.ref
        for pair in pairs
        if pair.before is not None and pair.after is not None
        if privileges.pod_template(pair.before) != privileges.pod_template(pair.after)
    )


def fate(before: DaemonSet | None, after: DaemonSet | None, templates: frozenset[objects.Ref]) -> Fate | None:
    """Return what happens to the pod of a component on a node; `templates` are the workloads with another template."""
    if before is None or after is None:
        return "created" if after else "deleted" if before else None
    return "replaced" if before.ref != after.ref or after.ref in templates else None


def changes(
    cluster: str, before: Side | None, after: Side | None, pairs: Iterable[objects.Pair]
) -> tuple[PodChange, ...]:
    """Return the changes of a cluster's pods, sorted by kind, namespace and name; none for workloads without any."""
    pairs = tuple(pairs)
    templates = replaced(pairs)
    was, now = _on_nodes(before), _on_nodes(after)
    on_nodes = objects.fates(was, now, {(component, ref) for component, ref in now if ref in templates})
    found = [
        PodChange(
            cluster=cluster,
            component=component,
            kind="DaemonSet",
            namespace=ref.namespace,
            name=ref.name,
            created=tuple(sorted(fate.created)),
            replaced=tuple(sorted(fate.replaced)),
            deleted=tuple(sorted(fate.deleted)),
        )
        for (component, ref), fate in on_nodes.items()
    ]
    every = (*_deployments(cluster, pairs, templates), *found)
    return tuple(sorted(every, key=lambda item: (item.kind, item.namespace, item.name)))


def _on_nodes(side: Side | None) -> dict[tuple[str, objects.Ref], set[str]]:
    """Return the nodes of the pods of each DaemonSet, by its component and itself."""
    found: dict[tuple[str, objects.Ref], set[str]] = {}
    if side is None:
        return found
    for decision, component in product(side.planned.decisions, get_args(index_file.Component)):
        if (item := side.serving(component, decision)) is not None:
            found.setdefault((component, item.ref), set()).update(decision.names)
    if side.planned.cluster.spec.nfd.enabled:
        worker = objects.Ref(kind="DaemonSet", namespace=side.planned.cluster.spec.namespace, name="nfd-worker")
        found["nfd", worker] = set(_seen(side.planned))
    return found


def _seen(planned: plan.Plan) -> Iterator[str]:
    """Yield the nodes that have a worker of NFD: it tolerates what any policy of the cluster does."""
    tolerations = [
        *planned.cluster.spec.nfd.tolerations,
        *(given for each in planned.divisions for given in each.policy.pods.tolerations),
    ]
    barred = {
        profile: bool(taints.untolerated(tolerations, profile.taints))
        for profile in {node.profile for node in planned.inventory.nodes}
    }
    return (node.name for node in planned.inventory.nodes if not barred[node.profile] and _is_linux(node))


def _is_linux(node: snapshot.Node) -> bool:
    return node.label("kubernetes.io/os") in (None, "linux")


def _deployments(cluster: str, pairs: Iterable[objects.Pair], templates: frozenset[objects.Ref]) -> Iterator[PodChange]:
    for pair in pairs:
        ref = pair.ref
        if ref.kind != "Deployment":
            continue
        happens: Fate | None = "replaced" if ref in templates else None
        if pair.before is None or pair.after is None:
            happens = "created" if pair.after else "deleted"
        data = pair.after or pair.before or {}
        if happens is not None:
            yield PodChange(
                cluster=cluster,
                component=pair.component,
                kind="Deployment",
                namespace=ref.namespace,
                name=ref.name,
                replicas=data["spec"].get("replicas", 1),
                fate=happens,
            )
