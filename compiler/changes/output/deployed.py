"""The objects of output/<cluster>/, as it stands or as compiled, as far as they decide over nodes.

Output may have been edited by hand, or hold the marks of a merge conflict. What either side of a conflict has may be
what the engine has applied, so both are read (decision 0018). What cannot be read even so is listed, as nobody can tell
what it served.
"""

import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from compiler import names
from compiler.changes.output.pool_rules import PoolRules
from compiler.fleet import pods, selectors
from compiler.formats import yaml_text
from compiler.output import diff, index_file, tree
from compiler.output.index_file import Owner

Object = Mapping[str, Any]

_DECISIVE = ("crds/", "namespace/", "node-feature-rule/")
"""The beginnings of the paths of objects that, beside DaemonSets, decide over nodes or that no engine may delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonSet:
    """A DaemonSet of the driver or of the device plugin, with everything that decides where its pods run."""

    workload: index_file.Workload
    images: frozenset[str]
    """The images of its program, and of the files that this takes."""
    terms: tuple[selectors.Term, ...]
    tolerations: tuple[pods.Toleration, ...]
    cleans_up: bool
    """True when its installers remove the driver once it is deleted (driver.enabledCleanup)."""
    kinds: frozenset[str]
    """For a device plugin, the kinds of devices that it serves, and the resources of a recipe."""

    @property
    def selection(self) -> tuple[object, ...]:
        """Everything that decides over the nodes that it serves."""
        return self.workload.pool, self.workload.state, self.terms, self.tolerations


@dataclass(frozen=True, kw_only=True)
class Deployed:
    """The index and the objects of a cluster."""

    index: index_file.Index
    objects: Mapping[str, Object]
    """Readable objects by path, without those of bootstrap/."""
    unreadable: tuple[str, ...] = ()
    """Recorded files that decide over nodes, and are missing or no objects, or of which nothing tells the policy."""

    def owners(self, component: str, *, absent: bool = False) -> tuple[Owner, ...]:
        """Return the policies with DaemonSets of a component; a driver that is Absent counts only if it is wanted."""
        own = (item for item in self.index.workloads if item.component == component)
        return tuple(sorted({item.owner for item in own if absent or item.state != "Absent"}))

    def daemon_sets(self, component: str, owner: Owner, *, absent: bool = False) -> tuple[DaemonSet, ...]:
        """Return the readable DaemonSets of a policy's driver or device plugin.

        A driver that is Absent has none, unless those that remove it are wanted too.
        """
        every = self._daemon_sets.get((component, owner), ())
        return every if absent else tuple(item for item in every if item.workload.state != "Absent")

    def all_daemon_sets(self) -> tuple[DaemonSet, ...]:
        """Return all readable DaemonSets, also those of drivers that are Absent."""
        return tuple(item for own in self._daemon_sets.values() for item in own)

    @functools.cached_property
    def cleaning(self) -> frozenset[Owner]:
        """The policies whose installers remove the driver once their DaemonSet is deleted, whatever its state."""
        drivers = (item for item in self.index.workloads if item.component == "driver" and item.file in self.objects)
        return frozenset(item.owner for item in drivers if _daemon_set(item, self.objects[item.file]).cleans_up)

    @functools.cached_property
    def _daemon_sets(self) -> dict[tuple[str, Owner], tuple[DaemonSet, ...]]:
        found: dict[tuple[str, Owner], tuple[DaemonSet, ...]] = {}
        for item in self.index.workloads:
            if item.file in self.objects:
                key = item.component, item.owner
                found[key] = (*found.get(key, ()), _daemon_set(item, self.objects[item.file]))
        return found

    def rule(self, name: str) -> Object | None:
        """Return the NodeFeatureRule of this name."""
        return self.objects.get(f"node-feature-rule/nodefeaturerule-{name}.yaml")

    def pool_rules(self, owner: Owner) -> PoolRules | None:
        """Return the NodeFeatureRule of the pools of a policy; None where it has none, or somebody else labels them."""
        rule = self.rule(f"{owner.recipe}-pool-{owner.policy}")
        return None if rule is None else PoolRules(rule)

    def namespaces(self) -> frozenset[str]:
        """Return the namespaces of the objects."""
        found = (data["metadata"].get("namespace") for data in self.objects.values())
        return frozenset(name for name in found if isinstance(name, str))


def earlier(seen: diff.Observed, compiled: tree.Tree, objects: Mapping[str, Object]) -> tuple[Deployed, ...]:
    """Return the output as it stands, or both sides of a merge conflict; nothing if nothing is recorded.

    A file that is equal in the `compiled` tree is not parsed: `objects` has its object by path.
    """
    if not seen.sides:
        return ()
    # What one side alone records, the other has removed by a compile that was accepted, and git has deleted the file.
    removed = frozenset(seen.sides[0].files) ^ frozenset(seen.sides[-1].files)
    is_one = len(seen.sides) == 1 and not any(map(index_file.is_marked, seen.files.values()))
    return tuple(_side(seen, number, removed, compiled.contents(), objects) for number in ((0,) if is_one else (0, -1)))


def _side(
    seen: diff.Observed,
    number: int,
    removed: frozenset[str],
    texts: Mapping[str, bytes],
    objects: Mapping[str, Object],
) -> Deployed:
    """Return the output as our side (0) or their side (-1) of a conflict has it."""
    index = seen.sides[number]
    # The compile that was interrupted was accepted: what it has deleted by then is no removal of this one.
    gone = removed if index.complete else frozenset(index.files)
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
        if not is_known and index.complete and _is_decisive(path) and (content is not None or path not in gone):
            unreadable.append(path)
    return Deployed(index=replace(index, workloads=workloads), objects=found, unreadable=tuple(unreadable))


def unrecorded(seen: diff.Observed, compiled: tree.Tree, objects: Mapping[str, Object]) -> Deployed:
    """Return the output as it stands without an index: of the files, those that are equal in the `compiled` tree."""
    texts, index = compiled.contents(), compiled.index()
    kept = {path: data for path, data in objects.items() if seen.files.get(path) == texts[path]}
    workloads = tuple(item for item in index.workloads if item.file in kept)
    return Deployed(index=replace(index, files=tuple(sorted(seen.files)), workloads=workloads), objects=kept)


def protector(data: Object) -> str | None:
    """Return the GitOps engine that leaves an object in the cluster when the output no longer has it."""
    annotations = data["metadata"].get("annotations") or {}
    if "Prune=false" in str(annotations.get(names.SYNC_OPTIONS, "")).split(","):
        return "argocd"
    return "flux" if annotations.get(names.FLUX_PRUNE) == "disabled" else None


def _is_decisive(path: str) -> bool:
    return path.startswith(_DECISIVE) or index_file.is_daemon_set(path)


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
            _daemon_set(index_file.Workload(file=path, component="driver", policy=""), data)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    return data if isinstance(data, Mapping) else None


def _daemon_set(workload: index_file.Workload, data: Object) -> DaemonSet:
    pod = data["spec"]["template"]["spec"]
    config = json.loads(data["spec"]["template"]["metadata"]["annotations"][names.CONFIG])
    affinity = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return DaemonSet(
        workload=workload,
        images=frozenset(one["image"] for one in (pod["containers"][0], *pod.get("initContainers", ()))),
        terms=tuple(_term(term["matchExpressions"]) for term in affinity["nodeSelectorTerms"]),
        tolerations=msgspec.convert(pod.get("tolerations", ()), tuple[pods.Toleration, ...]),
        cleans_up=config.get("enabledCleanup") is True,
        kinds=frozenset(_kinds(config)),
    )


def _kinds(config: Mapping[str, Any]) -> Iterator[str]:
    # The name of a socket is the short one that people gave a resource, if they did.
    yield from (item.get("socket", item["name"]) for item in config.get("resources", ()) if isinstance(item, Mapping))


def _term(expressions: Iterable[Mapping[str, Any]]) -> selectors.Term:
    return tuple(
        selectors.Requirement(item["key"], item["operator"], tuple(item.get("values", ()))) for item in expressions
    )
