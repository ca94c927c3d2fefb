"""The objects that a compile creates, replaces and deletes, and the nodes whose pods it starts, restarts or stops.

Pods are those of drivers and device plugins, on the nodes of the new inventory.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Literal, get_args

from compiler import names
from compiler.changes.output import deployed, placement
from compiler.fleet import assignment
from compiler.formats import field_difference
from compiler.output import index_file
from compiler.planning import plan


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Ref:
    """The identity of an object."""

    kind: str
    namespace: str
    """Empty for an object of the cluster."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"

    @property
    def path(self) -> str:
        """NAMESPACE/NAME, or NAME for an object of the cluster."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An object that differs between two revisions: before and after, None where it is not there."""

    component: str
    path: str
    """Below the folder of the cluster's output."""
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None

    @property
    def ref(self) -> Ref:
        """The identity of the object."""
        return ref(self.after or self.before or {})

    @property
    def change(self) -> Literal["added", "changed", "pruned"]:
        """What happens to the object in the output."""
        return "added" if self.before is None else "pruned" if self.after is None else "changed"

    @property
    def protector(self) -> str | None:
        """The GitOps engine that leaves the object in the cluster, although the output no longer has it."""
        return deployed.protector(self.before) if self.before is not None and self.after is None else None

    @property
    def is_by_hand(self) -> bool:
        """True for an object that a person applies, not an engine."""
        return self.component == names.BOOTSTRAP

    def fields(self) -> Sequence[field_difference.Field]:
        """Return the fields of a changed object that differ; the order of named items is none."""
        if self.before is None or self.after is None:
            return ()
        found = field_difference.fields(self.before, self.after)
        return [inner for field in found for inner in _inside(field)]


def _inside(field: field_difference.Field) -> Sequence[field_difference.Field]:
    """Return the fields inside of a text in JSON, such as the config of a program, and any other field as it is."""
    texts = (field.old, field.new)
    if not all(isinstance(text, str) and text.startswith("{") for text in texts):
        return (field,)
    try:
        old, new = map(json.loads, texts)
    except ValueError:
        return (field,)
    inner = field_difference.fields(old, new)
    return [replace(item, text=field_difference.below(field.text, item.text)) for item in inner] or (field,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objects:
    """What a compile changes in a cluster, by object."""

    cluster: str
    created: tuple[Ref, ...] = ()
    replaced: tuple[Ref, ...] = ()
    deleted: tuple[Ref, ...] = ()
    restarts: Mapping[Ref, tuple[str, ...]]
    """The nodes on which pods restart with another template, by DaemonSet."""
    nodes: tuple[str, ...] | None
    """The nodes on which a pod starts, restarts or stops; None where no inventory lists the cluster's nodes."""
    is_new: bool = False
    """True when the cluster had no output."""

    def __bool__(self) -> bool:
        return bool(self.created or self.replaced or self.deleted)


def changed(cluster: str, before: deployed.Deployed, after: deployed.Deployed, planned: plan.Plan) -> Objects:
    """Return what changes between two outputs of a cluster with the planned nodes."""
    earlier, later = _by_ref(before), _by_ref(after)
    damaged = set(before.index.files) - set(before.objects)
    # No name of a function: where it names an item of one comprehension, Python 3.12.1 does not find it in another.
    replaced = {one for one, path in later.items() if path in damaged}
    replaced |= {one for one, path in later.items() if one in earlier and not _same(before, earlier[one], after, path)}
    created = later.keys() - earlier.keys() - replaced
    deleted = earlier.keys() - later.keys()
    paths = [*(later[one] for one in created | replaced), *(earlier[one] for one in deleted)]
    places = any(index_file.is_daemon_set(path) or path.startswith("node-feature-rule/") for path in paths)
    touched, restarts = _touched(before, after, planned) if places else (set(), {})
    return Objects(
        cluster=cluster,
        created=tuple(sorted(created, key=_order)),
        replaced=tuple(sorted(replaced, key=_order)),
        deleted=tuple(sorted(deleted, key=_order)),
        restarts={ref(after.objects[path]): tuple(sorted(names)) for path, names in sorted(restarts.items())},
        nodes=tuple(sorted(touched)),
        is_new=not before.index.files,
    )


def removed(cluster: str, before: deployed.Deployed) -> Objects:
    """Return what goes with the output of a cluster that is no longer declared."""
    return Objects(cluster=cluster, deleted=tuple(sorted(_by_ref(before), key=_order)), restarts={}, nodes=None)


def _by_ref(output: deployed.Deployed) -> dict[Ref, str]:
    """Return the path of each object that an engine applies."""
    return {ref(data): path for path, data in output.objects.items() if not path.startswith(f"{names.BOOTSTRAP}/")}


def pod_template(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the pod template of a workload; None for another object."""
    spec: Mapping[str, Any] = data.get("spec") or {}
    if data["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec.get("template") if data["kind"] in ("CronJob", "DaemonSet", "Deployment") else None


def containers(spec: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
    """Return the containers of a pod's spec, in the order in which they start."""
    return (*spec.get("initContainers", ()), *spec["containers"])


def is_written(spec: Mapping[str, Any], volume: Mapping[str, Any]) -> bool:
    """Return whether a container of a pod's spec may write to a volume."""
    mounts = (mount for container in containers(spec) for mount in container.get("volumeMounts", ()))
    return any(mount["name"] == volume["name"] and not mount.get("readOnly") for mount in mounts)


def ref(data: Mapping[str, Any]) -> Ref:
    """Return the identity of an object."""
    # Output that was edited by hand may hold anything there.
    metadata = data["metadata"]
    namespace = metadata.get("namespace")
    return Ref(
        kind=str(data["kind"]), namespace=str(namespace) if namespace else "", name=str(metadata.get("name", ""))
    )


def _order(ref: Ref) -> tuple[str, str, str]:
    return ref.kind, ref.name, ref.namespace


def _same(old: deployed.Deployed, path: str, new: deployed.Deployed, now: str) -> bool:
    return old.objects[path] is new.objects[now] or old.objects[path] == new.objects[now]


def _touched(
    before: deployed.Deployed, after: deployed.Deployed, planned: plan.Plan
) -> tuple[set[str], dict[str, list[str]]]:
    """Return the nodes on which a pod starts, restarts or stops, and those on which it restarts, by DaemonSet."""
    groups = placement.alike_in(planned, (*before.all_daemon_sets(), *after.all_daemon_sets()))
    touched: set[str] = set()
    restarts: dict[str, list[str]] = {}
    recipes = sorted({item.recipe for output in (before, after) for item in output.index.workloads})
    for component, recipe in product(get_args(index_file.Component), recipes):
        then, now = (_serving(output, component, recipe, groups) for output in (before, after))
        touched |= then.keys() ^ now.keys()
        moves: dict[tuple[str, str], list[str]] = {}
        for name in then.keys() & now.keys():
            moves.setdefault((then[name], now[name]), []).append(name)
        for (old, new), moved in moves.items():
            if old != new:
                touched.update(moved)
            elif before.objects[old]["spec"]["template"] != after.objects[new]["spec"]["template"]:
                touched.update(moved)
                restarts[new] = moved
    return touched, restarts


def _serving(
    output: deployed.Deployed, component: index_file.Component, recipe: str, nodes: Sequence[assignment.Alike]
) -> dict[str, str]:
    """Return the path of the DaemonSet of a recipe's component that serves each node, by the node's name."""
    found: dict[str, str] = {}
    for owner in (owner for owner in output.owners(component, absent=True) if owner.recipe == recipe):
        rules = output.pool_rules(owner) if component == "driver" else None
        served = placement.served(output.daemon_sets(component, owner, absent=True), rules, nodes)
        found.update((name, item.workload.file) for name, item in served.items())
    return found
