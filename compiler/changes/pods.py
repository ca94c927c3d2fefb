"""The pods that a change creates, replaces and deletes, by workload and node.

The DaemonSet controller replaces a pod only for another template; the other fields of a DaemonSet reach no pod. A
DaemonSet of another name or namespace is another one: the pods of the first are deleted, those of the second created.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal, get_args

import msgspec

from compiler.changes import objects
from compiler.fleet import taints
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

    @property
    def pace(self) -> dict[str, int]:
        """The hosts that may drain at a time, by policy; none for a policy that evicts nobody."""
        return {
            policy: len(item.config.leases.names)
            for (_, policy, _), item in self.daemon_sets.items()
            if item.config is not None and item.config.drain.enabled
        }

    def serving(self, component: index_file.Component, decision: plan.Decision | None) -> DaemonSet | None:
        """Return the DaemonSet of a component that has a pod on the nodes of a decision."""
        if decision is None or decision.policy is None or not decision.runs(component):
            return None
        pool = decision.pool.name if component == "driver" and decision.pool is not None else ""
        return self.daemon_sets[component, decision.policy.name, pool]

    def without_labels(self, lost: frozenset[str]) -> "Side":
        """Return the side after the rules of some recipes have gone: no node has labels by which DaemonSets select."""
        gone = plan.Landing(image=None, reason="no rule labels its devices any more")
        nothing: dict[str, Any] = {"pool": None, "driver": gone, "device_plugin": gone, "resources": ()}
        mended = (
            replace(one, decisions=tuple(replace(decision, **nothing) for decision in one.decisions))
            if one.recipe.name in lost
            else one
            for one in self.planned.recipes
        )
        return replace(self, planned=replace(self.planned, recipes=tuple(mended)))


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChange:
    """The pods of a workload that come, are replaced and go."""

    ref: objects.Ref
    nodes: objects.Fates = field(default_factory=objects.Fates)
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


def changes(before: Side | None, after: Side | None, pairs: Sequence[objects.Pair]) -> tuple[PodChange, ...]:
    """Return the changes of a cluster's pods, sorted by kind, namespace and name; none for workloads without any."""
    templates = replaced(pairs)
    on_nodes = objects.fates(_on_nodes(before), _on_nodes(after), templates)
    found = (
        *_deployments(pairs, templates),
        *(PodChange(ref=ref, nodes=nodes) for ref, nodes in on_nodes.items()),
    )
    return tuple(sorted(found, key=lambda item: item.ref))


def _on_nodes(side: Side | None) -> dict[objects.Ref, set[str]]:
    """Return the nodes of the pods of each DaemonSet."""
    found: dict[objects.Ref, set[str]] = {}
    if side is None:
        return found
    for decision, component in product(side.planned.decisions, get_args(index_file.Component)):
        if (item := side.serving(component, decision)) is not None:
            found.setdefault(item.ref, set()).update(decision.names)
    if side.planned.cluster.spec.nfd.enabled:
        worker = objects.Ref(kind="DaemonSet", namespace=side.planned.cluster.spec.namespace, name="nfd-worker")
        found[worker] = set(_seen(side.planned))
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
    for node in planned.inventory.nodes:
        if not barred[node.profile] and node.label("kubernetes.io/os") in (None, "linux"):
            yield node.name


def _deployments(pairs: Iterable[objects.Pair], templates: frozenset[objects.Ref]) -> Iterator[PodChange]:
    fates: Mapping[str, Fate] = {"added": "created", "pruned": "deleted"}
    for pair in pairs:
        fate = fates.get(pair.change, "replaced" if pair.ref in templates else None)
        if pair.ref.kind == "Deployment" and fate:
            data = pair.after or pair.before or {}
            yield PodChange(ref=pair.ref, replicas=data["spec"].get("replicas", 1), fate=fate)
