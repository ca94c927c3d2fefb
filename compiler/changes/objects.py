"""The objects that a compile creates, replaces and deletes, and the nodes whose pods it starts, restarts or stops.

Pods are those of drivers and device plugins, on the nodes of the new inventory.
"""

import itertools
import json
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import msgspec

from compiler import names
from compiler.changes import deployed, placement
from compiler.fleet import assignment
from compiler.formats import field_difference
from compiler.output import index_file
from compiler.planning import plan
from compiler.rendering import layout

Key = TypeVar("Key", bound=Hashable)


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


def pairs(before: Mapping[Ref, layout.Object], after: Mapping[Ref, layout.Object]) -> tuple[Pair, ...]:
    """Return the objects that differ between two outputs of a cluster, sorted by path."""
    found = [
        Pair(
            component=(after.get(one) or before[one]).component,
            path=(after.get(one) or before[one]).path,
            before=before[one].data if one in before else None,
            after=after[one].data if one in after else None,
        )
        for one in {**before, **after}
    ]
    return tuple(sorted((pair for pair in found if pair.before != pair.after), key=lambda pair: (pair.path, pair.ref)))


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
    # Nothing tells what a damaged file held, so its object counts as another one than the new one.
    damaged = set(before.index.files) - set(before.objects)
    earlier |= {one: msgspec.structs.replace(item, data={}) for one, item in later.items() if item.path in damaged}
    found = sorted(pairs(earlier, later), key=lambda pair: _order(pair.ref))
    places = any(index_file.is_daemon_set(pair.path) or pair.path.startswith("node-feature-rule/") for pair in found)
    on_nodes = _on_nodes(before, after, planned) if places else {}
    return Objects(
        cluster=cluster,
        created=tuple(pair.ref for pair in found if pair.change == "added"),
        replaced=tuple(pair.ref for pair in found if pair.change == "changed"),
        deleted=tuple(pair.ref for pair in found if pair.change == "pruned"),
        restarts={ref(after.objects[path]): fate.replaced for path, fate in sorted(on_nodes.items()) if fate.replaced},
        nodes=tuple(sorted(set().union(*itertools.chain(*on_nodes.values())))),
        is_new=not before.index.files,
    )


def removed(cluster: str, before: deployed.Deployed) -> Objects:
    """Return what goes with the output of a cluster that is no longer declared."""
    return Objects(cluster=cluster, deleted=tuple(sorted(_by_ref(before), key=_order)), restarts={}, nodes=None)


def _by_ref(output: deployed.Deployed) -> dict[Ref, layout.Object]:
    """Return the objects that an engine applies."""
    every = (
        layout.Object(path=path, component=path.partition("/")[0], data=data) for path, data in output.objects.items()
    )
    return {ref(item.data): item for item in every if item.component != names.BOOTSTRAP}


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


class Fates(NamedTuple):
    """The pods of a workload that come, are replaced and go, by the names of their nodes."""

    created: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()


def fates(was: Mapping[Key, Set[str]], now: Mapping[Key, Set[str]], templates: Set[Key]) -> Mapping[Key, Fates]:
    """Return what happens to pods, by workload; `was` and `now` have the nodes of each, `templates` those that differ.

    The DaemonSet controller replaces a pod only for another template; the other fields of a DaemonSet reach no pod.
    """
    none: Set[str] = frozenset()
    found = {}
    for key in {**was, **now}:
        old, new = was.get(key, none), now.get(key, none)
        stay = old & new if key in templates else none
        found[key] = Fates(*(tuple(sorted(nodes)) for nodes in (new - old, stay, old - new)))
    return {key: fate for key, fate in found.items() if any(fate)}


def _on_nodes(before: deployed.Deployed, after: deployed.Deployed, planned: plan.Plan) -> Mapping[str, Fates]:
    """Return what happens to the pods of drivers and device plugins, by the file of their DaemonSet."""
    groups = placement.alike_in(planned, (*before.daemon_sets, *after.daemon_sets))
    was, now = (_served(output, groups) for output in (before, after))
    old, new = (
        {path: output.objects[path]["spec"]["template"] for path in was.keys() & now.keys()}
        for output in (before, after)
    )
    return fates(was, now, {path for path in old if old[path] != new[path]})


def _served(output: deployed.Deployed, nodes: Sequence[assignment.Alike]) -> dict[str, set[str]]:
    """Return the nodes that each DaemonSet serves, by its file."""
    found: dict[str, set[str]] = {}
    for component in get_args(index_file.Component):
        for owner in output.owners(component, absent=True):
            for name, item in output.serving(component, owner, nodes, absent=True).items():
                found.setdefault(item.workload.file, set()).add(name)
    return found
