"""The pods that a change creates, replaces and deletes, by workload and node.

The DaemonSet controller replaces a pod only for another template; the other fields of a DaemonSet reach no pod. A
DaemonSet of another name or namespace is another one: the pods of the first are deleted, those of the second created.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from compiler.changes import objects
from compiler.fleet import taints
from compiler.inventory import snapshot
from compiler.planning import plan
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A cluster as the documents of one revision make it."""

    planned: plan.Plan
    daemon_sets: Mapping[Served, DaemonSet]
    rules: frozenset[str]
    """The recipes whose rules, which label nodes with their devices, the output has."""

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


def serving(decision: plan.Decision) -> tuple[Served | None, Served | None]:
    """Return the DaemonSets of the driver and of the device plugin that have a pod on the nodes of a decision."""
    policy = decision.policy.name if decision.policy else ""
    driver = ("driver", policy, decision.pool.name) if decision.pool is not None else None
    return driver, ("device-plugin", policy, "") if decision.device_plugin.image is not None else None


def replaced(pairs: Iterable[objects.Pair]) -> frozenset[objects.Ref]:
    """Return the workloads whose template differs."""
    return frozenset(
        pair.ref
        for pair in pairs
        if pair.before is not None and pair.after is not None
        if objects.pod_template(pair.before) != objects.pod_template(pair.after)
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
    found = [*_deployments(cluster, pairs, templates)]
    for key in {**was, **now}:
        component, ref = key
        old, new = was.get(key, frozenset()), now.get(key, frozenset())
        stays = old & new if ref in templates else frozenset()
        if old != new or stays:
            found.append(
                PodChange(
                    cluster=cluster,
                    component=component,
                    kind="DaemonSet",
                    namespace=ref.namespace,
                    name=ref.name,
                    created=tuple(sorted(new - old)),
                    replaced=tuple(sorted(stays)),
                    deleted=tuple(sorted(old - new)),
                )
            )
    return tuple(sorted(found, key=lambda item: (item.kind, item.namespace, item.name)))


def _on_nodes(side: Side | None) -> dict[tuple[str, objects.Ref], frozenset[str]]:
    """Return the nodes of the pods of each DaemonSet, by its component and itself."""
    found: dict[tuple[str, objects.Ref], set[str]] = {}
    for decision in side.planned.decisions if side else ():
        for key in serving(decision):
            if side is not None and key is not None:
                item = side.daemon_sets[key]
                found.setdefault((key[0], item.ref), set()).update(decision.names)
    if side is not None and side.planned.cluster.spec.nfd.enabled:
        namespace = side.planned.cluster.spec.namespace
        worker = objects.Ref(kind="DaemonSet", namespace=namespace, name="nfd-worker")
        found["nfd", worker] = set(_seen(side.planned))
    return {key: frozenset(names) for key, names in found.items()}


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
