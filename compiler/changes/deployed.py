"""The objects of output/<cluster>/, as it stands or as compiled, as far as they decide over nodes.

Output may have been edited by hand, or hold the marks of a merge conflict. What either side of a conflict has may be
what the engine has applied, so both are read (decision 0018). What cannot be read even so is listed, as nobody can tell
what it served.
"""

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from compiler import names
from compiler.changes import placement
from compiler.changes.placement import DaemonSet, Object, PoolRules
from compiler.fleet import assignment
from compiler.formats import yaml_text
from compiler.output import diff, index_file, tree
from compiler.output.index_file import Owner

_DECISIVE = ("crds/", "namespace/", "node-feature-rule/")
"""The beginnings of the paths of objects that, beside DaemonSets, decide over nodes or that no engine may delete."""


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """The index and the objects of a cluster."""

    index: index_file.Index
    objects: Mapping[str, Object]
    """Readable objects by path, without those of bootstrap/."""
    unreadable: tuple[str, ...] = ()
    """Recorded files that decide over nodes, and are missing or no objects, or of which nothing tells the policy."""

    @functools.cached_property
    def daemon_sets(self) -> tuple[DaemonSet, ...]:
        """The readable DaemonSets of drivers and device plugins, also those of drivers that are Absent."""
        readable = (item for item in self.index.workloads if item.file in self.objects)
        return tuple(placement.daemon_set(item, self.objects[item.file]) for item in readable)

    def owners(self, component: str, *, absent: bool = False) -> tuple[Owner, ...]:
        """Return the policies with DaemonSets of a component; a driver that is Absent counts only if it is wanted."""
        own = (item for item in self.index.workloads if item.component == component)
        return tuple(sorted({item.owner for item in own if absent or item.state != "Absent"}))

    def driver_owner(self, policy: str) -> Owner | None:
        """Return a policy with the recipe of its drivers; None where it has none."""
        return next((owner for owner in self.owners("driver", absent=True) if owner.policy == policy), None)

    def of_owner(self, component: str, owner: Owner, *, absent: bool = False) -> tuple[DaemonSet, ...]:
        """Return the readable DaemonSets of a policy's driver or device plugin; one that is Absent if it is wanted."""
        own = (
            item for item in self.daemon_sets if (item.workload.component, item.workload.owner) == (component, owner)
        )
        return tuple(item for item in own if absent or item.workload.state != "Absent")

    def serving(
        self, component: str, owner: Owner, nodes: Iterable[assignment.Alike], *, absent: bool = False
    ) -> dict[str, DaemonSet]:
        """Return the DaemonSet of a policy's component that serves each node, by its name; the nodes are grouped."""
        rules = self.pool_rules(owner) if component == "driver" else None
        return placement.served(self.of_owner(component, owner, absent=absent), rules, nodes)

    @property
    def cleaning(self) -> frozenset[Owner]:
        """The policies whose installers remove the driver once their DaemonSet is deleted, whatever its state."""
        drivers = (item for item in self.daemon_sets if item.workload.component == "driver")
        return frozenset(item.workload.owner for item in drivers if item.cleans_up)

    def rule(self, name: str) -> Object | None:
        """Return the NodeFeatureRule of this name."""
        return self.objects.get(f"node-feature-rule/nodefeaturerule-{name}.yaml")

    def pool_rules(self, owner: Owner | None) -> PoolRules | None:
        """Return the NodeFeatureRule of the pools of a policy; None where it has none, or somebody else labels them."""
        rule = self.rule(f"{owner.recipe}-pool-{owner.policy}") if owner else None
        return None if rule is None else PoolRules(rule)

    def members(self, policy: str, group: str) -> frozenset[str]:
        """Return the nodes that the NodeFeatureRule of a policy's pools lists for a group."""
        owner = self.driver_owner(policy)
        rules = self.pool_rules(owner)
        return rules.members(owner, group) if owner and rules else frozenset()


def earlier(seen: diff.Observed, compiled: tree.Tree, objects: Mapping[str, Object]) -> tuple[Deployed, ...]:
    """Return the output as it stands, or both sides of a merge conflict; nothing if nothing is recorded.

    A file that is equal in the `compiled` tree is not parsed: `objects` has its object by path.
    """
    if not seen.sides:
        return ()
    is_one = len(seen.sides) == 1 and not any(map(index_file.is_marked, seen.files.values()))
    return tuple(_side(seen, number, compiled, objects) for number in ((0,) if is_one else (0, -1)))


def _side(seen: diff.Observed, number: int, compiled: tree.Tree, objects: Mapping[str, Object]) -> Deployed:
    """Return the output as our side (0) or their side (-1) of a conflict has it."""
    index, texts = seen.sides[number], compiled.contents()
    # What one side alone records, the other has removed by a compile that was accepted, and git has deleted the file.
    gone = frozenset(seen.sides[0].files) ^ frozenset(seen.sides[-1].files)
    if not index.complete:  # The compile was accepted: what it has deleted by then is no removal of this one.
        gone = frozenset(index.files)
    workloads = tuple(item for item in index.workloads if item.file in seen.files or item.file not in gone)
    untold = frozenset(index.untold())
    found: dict[str, Object] = {}
    unreadable = []
    for path in filter(_is_object_file, index.files):
        content = seen.files.get(path)
        if content is not None and texts.get(path) == content:
            found[path] = objects[path]
            continue
        data = None if content is None else _object(index_file.sides(content)[number], path)
        if data is not None:
            found[path] = data
        is_known = data is not None and path not in untold
        is_decisive = path.startswith(_DECISIVE) or index_file.is_daemon_set(path)
        if not is_known and index.complete and is_decisive and (content is not None or path not in gone):
            unreadable.append(path)
    return Deployed(index=replace(index, workloads=workloads), objects=found, unreadable=tuple(unreadable))


def unrecorded(seen: diff.Observed, compiled: tree.Tree, objects: Mapping[str, Object]) -> Deployed:
    """Return the output as it stands without an index: of the files, those that are equal in the `compiled` tree."""
    texts, index = compiled.contents(), compiled.index
    kept = {path: data for path, data in objects.items() if seen.files.get(path) == texts[path]}
    workloads = tuple(item for item in index.workloads if item.file in kept)
    return Deployed(index=replace(index, files=tuple(sorted(seen.files)), workloads=workloads), objects=kept)


def protector(data: Object) -> str | None:
    """Return the GitOps engine that leaves an object in the cluster when the output no longer has it."""
    annotations = data["metadata"].get("annotations") or {}
    if "Prune=false" in str(annotations.get(names.SYNC_OPTIONS, "")).split(","):
        return "argocd"
    return "flux" if annotations.get(names.FLUX_PRUNE) == "disabled" else None


def _is_object_file(path: str) -> bool:
    return path.endswith(".yaml") and path != "kustomization.yaml" and not path.startswith(f"{names.BOOTSTRAP}/")


def _object(content: bytes, path: str) -> Object | None:
    """Return the object of a file, with the shape that the compiler writes; None if it has another."""
    try:
        data = yaml_text.single(content.decode(), path)
        if not isinstance(data["metadata"].get("annotations", {}), Mapping):
            return None
        if data["kind"] == "NodeFeatureRule":
            PoolRules(data)
        elif index_file.is_daemon_set(path):
            placement.daemon_set(index_file.Workload(file=path, component="driver", policy=""), data)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    return data if isinstance(data, Mapping) else None
