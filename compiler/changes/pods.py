"""The pods that a change creates, replaces and deletes, by workload and node, and what a compile changes by object.

The DaemonSet controller replaces a pod only for another template; the other fields of a DaemonSet reach no pod. A
DaemonSet of another name or namespace is another one: the pods of the first are deleted, those of the second created.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Literal, NamedTuple

import msgspec

from compiler import names
from compiler.changes import deletions, objects, sides
from compiler.output import index_file
from compiler.planning import plan
from compiler.rendering import layout, privileges

Fate = Literal["created", "replaced", "deleted"]


class Fates(NamedTuple):
    """The pods of a workload that come, are replaced and go, by the names of their nodes."""

    created: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


class PodChange(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a workload that come, are replaced and go."""

    ref: objects.Ref
    nodes: Fates = msgspec.field(default_factory=Fates)
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
        if pair.before and pair.after
        if privileges.pod_template(pair.before) != privileges.pod_template(pair.after)
    )


def fate(before: objects.Ref | None, after: objects.Ref | None, templates: Set[objects.Ref]) -> Fate | None:
    """Return what happens to the pod of a component on a node, by its DaemonSet before and after.

    `templates` are the workloads with another template.
    """
    if before is None or after is None:
        return "created" if after else "deleted" if before else None
    return "replaced" if before != after or after in templates else None


def scaled(most_unavailable: int | str, number: int) -> int:
    """Return maxUnavailable in pods of so many, at least one.

    A share is rounded up, as by GetScaledValueFromIntOrPercent of k8s.io/apimachinery.
    """
    text = str(most_unavailable)
    share = int(text.removesuffix("%"))
    return max(1, -(-share * number // 100) if text.endswith("%") else share)


def changes(
    was: Mapping[objects.Ref, Set[str]], now: Mapping[objects.Ref, Set[str]], pairs: Sequence[objects.Pair]
) -> tuple[PodChange, ...]:
    """Return the changes of pods, sorted by kind, namespace and name; none for workloads without any.

    `was` and `now` have the nodes of each DaemonSet, `pairs` the objects that differ.
    """
    templates, none = replaced(pairs), frozenset[str]()
    found = [*_deployments(pairs, templates)]
    for ref in {**was, **now}:
        old, new = was.get(ref, none), now.get(ref, none)
        stay = old & new if ref in templates else none
        nodes = Fates(*(tuple(sorted(names)) for names in (new - old, stay, old - new)))
        if any(nodes):
            found.append(PodChange(ref=ref, nodes=nodes))
    return tuple(sorted(found, key=lambda item: item.ref))


def _deployments(pairs: Iterable[objects.Pair], templates: frozenset[objects.Ref]) -> Iterator[PodChange]:
    words: Mapping[str, Fate] = {"added": "created", "pruned": "deleted"}
    for pair in pairs:
        fate = words.get(pair.change, "replaced" if pair.ref in templates else None)
        if pair.ref.kind == "Deployment" and fate:
            data = pair.after or pair.before or {}
            yield PodChange(ref=pair.ref, replicas=data["spec"].get("replicas", 1), fate=fate)


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that a compile changes in a cluster, and the pods on the nodes of the new inventory."""

    cluster: str
    pairs: tuple[objects.Pair, ...]
    """Sorted by path."""
    pods: tuple[PodChange, ...] | None = None
    """Those of drivers and device plugins; None where no inventory lists the nodes."""
    is_new: bool = False
    """True when the cluster had no output."""
    deletion: deletions.Deletion | None = None
    """What becomes of the objects that leave the output; None for a cluster that is no longer declared."""

    @property
    def nodes(self) -> list[str] | None:
        """The nodes on which a pod starts, restarts or stops."""
        if self.pods is None:
            return None
        return sorted({name for change in self.pods for names in change.nodes for name in names})


def compiled(before: sides.Output, after: sides.Output, planned: plan.Plan) -> Compiled:
    """Return what changes between two outputs of a cluster with the planned nodes."""
    earlier, later = _by_ref(before), _by_ref(after)
    # Nothing tells what a damaged file held, so its object counts as another one than the new one.
    damaged = set(before.index.files) - set(before.objects)
    earlier |= {one: msgspec.structs.replace(item, data={}) for one, item in later.items() if item.path in damaged}
    found = objects.pairs(earlier, later)
    own = [pair for pair in found if index_file.is_daemon_set(pair.path)]
    places = own or any(pair.path.startswith("node-feature-rule/") for pair in found)
    was, now = (side.on_nodes(planned) if places else {} for side in (before, after))
    return Compiled(
        cluster=planned.cluster.name,
        pairs=found,
        pods=changes(was, now, own),
        is_new=not before.index.files,
        deletion=deletions.joined(before.deletion, deletions.of(planned.cluster.spec.gitops)),
    )


def removed(cluster: str, before: sides.Output) -> Compiled:
    """Return what goes with the output of a cluster that is no longer declared."""
    return Compiled(cluster=cluster, pairs=objects.pairs(_by_ref(before), {}))


def _by_ref(output: sides.Output) -> dict[objects.Ref, layout.Object]:
    """Return the objects that an engine applies."""
    every = (
        layout.Object(path=path, component=path.partition("/")[0], data=data) for path, data in output.objects.items()
    )
    return {objects.ref(item.data): item for item in every if item.component != names.BOOTSTRAP}
