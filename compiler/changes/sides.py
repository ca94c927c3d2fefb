"""The sides of a change of a cluster: what each has, and the DaemonSets that serve its nodes.

A side of `kae diff` is a plan, which equals the placement by the DaemonSet controller. A side of a compile is an
output, as it stands or as compiled, whose DaemonSets are placed on the nodes of today. It may have been edited by hand,
or hold the marks of a merge conflict: what either side of one has may be what the engine has applied, so both are read
(decision 0018). What cannot be read even so is listed, as nobody can tell what it served.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import structs

from compiler import names, repeats
from compiler.changes import deletions, hardware, placement
from compiler.changes.objects import Ref, protector, ref
from compiler.changes.placement import DaemonSet, Object, PoolRules
from compiler.fleet import taints
from compiler.formats import yaml_text
from compiler.output import diff, index_file, tree
from compiler.output.index_file import Owner
from compiler.planning import plan
from compiler.rendering import ir, node_feature_rules, node_programs, programs
from runtime import driver_config

_DECISIVE = ("crds/", "namespace/", "node-feature-rule/")
"""The beginnings of the paths of objects that, beside DaemonSets, decide over nodes or that no engine may delete."""


class Side(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """A cluster on one side of a change; `of_plan` and `of_output` make one."""

    paths: frozenset[str]
    """The folder and the file of its objects; a plan has the names of their templates, which begin as files do."""

    def has(self, component: str) -> bool:
        """Return whether it has objects of a component."""
        return any(path.startswith(f"{component}/") for path in self.paths)

    @property
    def evicts(self) -> bool:
        """True when its driver installers evict pods."""
        return any("/clusterrole-" in path and path.endswith("-driver.yaml") for path in self.paths)

    @property
    def is_unguarded(self) -> bool:
        """True when nothing confines the evictions of driver installers to their own node."""
        return self.evicts and not self.has("guard")


class Planned(Side, frozen=True, kw_only=True, dict=True):
    """A cluster as the documents of one revision make it."""

    planned: plan.Plan
    manifests: ir.ClusterManifests
    left: frozenset[Ref] = frozenset()
    """The workloads of the earlier side that stay in the cluster, although the output no longer has them."""
    kept_workers: frozenset[str] = frozenset()
    """The nodes that a NoSchedule taint lets no worker of NFD come to, and that have one from before."""

    @functools.cached_property
    def rules(self) -> Mapping[str, Mapping[str, hardware.Rule]]:
        """The rules that label nodes with their devices, by recipe and label."""
        values = (manifest.value for manifest in self.manifests.manifests)
        found = (value for value in values if isinstance(value, node_feature_rules.DeviceRules))
        return {value.name: hardware.of_rules(value.rules) for value in found}

    @functools.cached_property
    def configs(self) -> Mapping[tuple[str, str], driver_config.Config]:
        """The configs of the driver installers, by policy and pool."""
        values = (manifest.value for manifest in self.manifests.manifests)
        return {
            (value.policy, value.pool): msgspec.json.decode(value.config, type=driver_config.Config)
            for value in values
            if isinstance(value, node_programs.DriverPool)
        }

    @property
    def pace(self) -> dict[str, int]:
        """The hosts that may drain at a time, by policy; none for a policy that evicts nobody."""
        evicting = ((policy, config) for (policy, _), config in self.configs.items() if config.drain.enabled)
        return {policy: len(config.leases.names) for policy, config in evicting}

    def serving(self, component: index_file.Component, decision: plan.Decision | None) -> Ref | None:
        """Return the DaemonSet of a component that has a pod on the nodes of a decision."""
        return self._daemon_set(component, decision) if decision is not None and decision.runs(component) else None

    def _daemon_set(self, component: index_file.Component, decision: plan.Decision) -> Ref | None:
        policy, division = decision.policy, decision.division
        namespace = self.planned.cluster.spec.namespace
        made = division.deployment(component, decision.node) if division else None
        if policy is not None and made is not None:
            return Ref(kind="DaemonSet", namespace=namespace, name=programs.name(policy, made))
        if component not in ("driver", "device-plugin"):
            return None
        pool = decision.pool or (division.pool(decision.node) if division else None)
        if policy is None or (component == "driver" and pool is None):
            return None
        is_driver = component == "driver"
        name = node_programs.driver_name(policy, pool) if is_driver else node_programs.device_plugin_name(policy)
        return Ref(kind="DaemonSet", namespace=namespace, name=name)

    def barred(self) -> dict[Ref, set[str]]:
        """Return the nodes to which a NoSchedule taint lets no pod come, by DaemonSet.

        One that was there before the taint stays until its template changes or its DaemonSet goes:
        `nodeShouldRunDaemonPod` and `rollingUpdate` of pkg/controller/daemon.
        """
        found: dict[Ref, set[str]] = {}
        for decision, component in _components(self.planned):
            item = self._daemon_set(component, decision)
            if decision.landing(component).obstacle == "taints" and item and decision.keeping().runs(component):
                found.setdefault(item, set()).update(decision.names)
        return found

    def keeping(self, earlier: Mapping[Ref, set[str]], ending: frozenset[Ref]) -> "Planned":
        """Return the side with the pods that a NoSchedule taint of their node lets stay.

        `earlier` has the nodes of the pods of each DaemonSet before, `ending` those of which no earlier pod stays.
        """
        recipes = []
        for one in self.planned.recipes:
            kept = tuple(part for decision in one.decisions for part in self._kept(decision, earlier, ending))
            recipes.append(one if kept == one.decisions else structs.replace(one, decisions=kept))
        workers = frozenset[str]()
        if self.planned.cluster.spec.nfd.enabled and self._worker not in ending:
            workers = frozenset(_seen(self.planned, staying=True)) & earlier.get(self._worker, set())
        return structs.replace(
            self, planned=structs.replace(self.planned, recipes=tuple(recipes)), kept_workers=workers
        )

    def _kept(
        self, decision: plan.Decision, earlier: Mapping[Ref, set[str]], ending: frozenset[Ref]
    ) -> Iterator[plan.Decision]:
        keeping = decision.keeping()
        if keeping is decision:
            yield decision
            return
        served: dict[str, set[str]] = {}
        for component, _ in decision.landings:
            item = self.serving(component, keeping)
            served[component] = earlier.get(item, set()) if item is not None and item not in ending else set()
        alike = repeats.grouped(
            (frozenset(component for component, names in served.items() if node.name in names), node)
            for node in decision.nodes
        )
        for kept, nodes in alike.items():
            of_driver, of_plugin = (keeping if name in kept else decision for name in ("driver", "device-plugin"))
            yield structs.replace(
                decision,
                nodes=tuple(nodes),
                pool=of_driver.pool,
                driver=of_driver.driver,
                device_plugin=of_plugin.device_plugin,
                resources=of_plugin.resources,
                programs=tuple(
                    (name, keeping.landing(name) if name in kept else landing) for name, landing in decision.programs
                ),
            )

    @property
    def _worker(self) -> Ref:
        return Ref(kind="DaemonSet", namespace=self.planned.cluster.spec.namespace, name="nfd-worker")

    def on_nodes(self) -> dict[Ref, set[str]]:
        """Return the nodes of the pods of each DaemonSet."""
        found: dict[Ref, set[str]] = {}
        for decision, component in _components(self.planned):
            if (item := self.serving(component, decision)) is not None:
                found.setdefault(item, set()).update(decision.names)
        if self.planned.cluster.spec.nfd.enabled:
            found[self._worker] = {*_seen(self.planned), *self.kept_workers}
        return found

    def without_labels(self, lost: frozenset[str]) -> "Planned":
        """Return the side after the rules of some recipes have gone: no node has labels by which DaemonSets select."""
        gone = plan.Landing(image=None, reason="no rule labels its devices any more", obstacle="labels")
        nothing: dict[str, Any] = {"pool": None, "driver": gone, "device_plugin": gone, "resources": ()}
        mended = (
            structs.replace(
                one,
                decisions=tuple(
                    structs.replace(decision, **nothing, programs=tuple((name, gone) for name, _ in decision.programs))
                    for decision in one.decisions
                ),
            )
            if one.recipe.name in lost
            else one
            for one in self.planned.recipes
        )
        return structs.replace(self, planned=structs.replace(self.planned, recipes=tuple(mended)))


class Output(Side, frozen=True, kw_only=True, dict=True):
    """A cluster as its output has it: the index, and the objects."""

    index: index_file.Index
    objects: Mapping[str, Object]
    """Readable objects by path, without those of bootstrap/."""
    deletion: deletions.Deletion | None = None
    """What becomes of the objects that leave it; None where it names no engine."""
    unreadable: tuple[str, ...] = ()
    """Recorded files that decide over nodes, and are missing or no objects, or of which nothing tells the policy."""

    @functools.cached_property
    def daemon_sets(self) -> tuple[DaemonSet, ...]:
        """The readable DaemonSets of drivers and device plugins, also those of drivers that are Absent."""
        readable = (item for item in self.index.workloads if item.file in self.objects)
        return tuple(placement.daemon_set(item, self.objects[item.file]) for item in readable)

    def pool_owner(self, policy: str) -> Owner | None:
        """Return a policy with the recipe of what it has in pools: drivers, or programs; None where it has nothing."""
        pooled = (item for item in self.index.workloads if item.component == "driver" or item.pool is not None)
        return next((item.owner for item in pooled if item.policy == policy), None)

    def of_owner(self, component: str, owner: Owner, *, absent: bool = False) -> tuple[DaemonSet, ...]:
        """Return the readable DaemonSets of a policy's driver or device plugin; one that is Absent if it is wanted."""
        own = (
            item for item in self.daemon_sets if (item.workload.component, item.workload.owner) == (component, owner)
        )
        return tuple(item for item in own if absent or item.workload.state != "Absent")

    def serving(
        self, component: str, owner: Owner, planned: plan.Plan, *, absent: bool = False
    ) -> dict[str, DaemonSet]:
        """Return the DaemonSet of a policy's component that serves each planned node, by its name.

        Where no NodeFeatureRule labels the pools, somebody else does, and every label of a pool counts as present:
        which removals a person is asked about must not shrink. A plan takes the pool that it would give the node.
        """
        own = self.of_owner(component, owner, absent=absent)
        rules = self.pool_rules(owner) if component != "device-plugin" else None
        return placement.served(own, rules, placement.alike(planned, own))

    def on_nodes(self, planned: plan.Plan) -> dict[Ref, set[str]]:
        """Return the planned nodes of the pods of each DaemonSet of a driver or a device plugin."""
        found: dict[str, set[str]] = {}
        for component in self.index.components:
            for owner in self.index.owners(component, absent=True):
                for name, item in self.serving(component, owner, planned, absent=True).items():
                    found.setdefault(item.workload.file, set()).add(name)
        return {ref(self.objects[path]): nodes for path, nodes in found.items()}

    @property
    def cleaning(self) -> frozenset[Owner]:
        """The policies whose installers remove the driver once their DaemonSet is deleted, whatever its state."""
        drivers = (item for item in self.daemon_sets if item.workload.component == "driver")
        return frozenset(item.workload.owner for item in drivers if item.cleans_up)

    @property
    def left(self) -> tuple[str, ...]:
        """The objects that a GitOps engine does not delete when they leave the output."""
        return tuple(str(ref(data)) for data in self.objects.values() if protector(data) is not None)

    def rule(self, name: str) -> Object | None:
        """Return the NodeFeatureRule of this name."""
        return self.objects.get(f"node-feature-rule/nodefeaturerule-{name}.yaml")

    def pool_rules(self, owner: Owner | None) -> PoolRules | None:
        """Return the NodeFeatureRule of the pools of a policy; None where it has none, or somebody else labels them."""
        rule = self.rule(f"{owner.recipe}-pool-{owner.policy}") if owner else None
        return None if rule is None else PoolRules(rule)

    def members(self, policy: str, group: str) -> frozenset[str]:
        """Return the nodes that the NodeFeatureRule of a policy's pools lists for a group."""
        owner = self.pool_owner(policy)
        rules = self.pool_rules(owner)
        return rules.members(owner, group) if owner and rules else frozenset()


def of_plan(planned: plan.Plan, manifests: ir.ClusterManifests) -> Planned:
    """Return the side of a plan, with the objects that it makes."""
    paths = frozenset(f"{item.component}/{item.template}" for item in manifests.manifests)
    return Planned(paths=paths, planned=planned, manifests=manifests)


def of_output(index: index_file.Index, objects: Mapping[str, Object], unreadable: Iterable[str] = ()) -> Output:
    """Return the side of an output; after an interrupted compile, it has the files that are there."""
    paths = frozenset(index.files if index.complete else objects)
    return Output(paths=paths, index=index, objects=objects, unreadable=tuple(unreadable))


def _components(planned: plan.Plan) -> Iterator[tuple[plan.Decision, index_file.Component]]:
    return ((decision, component) for decision in planned.decisions for component, _ in decision.landings)


def _seen(planned: plan.Plan, *, staying: bool = False) -> Iterator[str]:
    """Yield the nodes to which a worker of NFD comes, or on which one that is `staying` is left.

    It tolerates what any policy of the cluster does.
    """
    tolerations = [
        *planned.cluster.spec.nfd.tolerations,
        *(given for each in planned.divisions for given in each.policy.pods.tolerations),
    ]
    barred = {
        profile: any(
            taint.effect == "NoExecute" or not staying for taint in taints.untolerated(tolerations, profile.taints)
        )
        for profile in {node.profile for node in planned.inventory.nodes}
    }
    for node in planned.inventory.nodes:
        if not barred[node.profile] and node.label("kubernetes.io/os") in (None, "linux"):
            yield node.name


def earlier(seen: diff.Observed, compiled: tree.Tree, objects: Mapping[str, Object]) -> tuple[Output, ...]:
    """Return the output as it stands, or both sides of a merge conflict; nothing if nothing is recorded.

    A file that is equal in the `compiled` tree is not parsed: `objects` has its object by path.
    """
    if not seen.sides:
        return ()
    is_one = len(seen.sides) == 1 and not any(map(index_file.is_marked, seen.files.values()))
    return tuple(_side(seen, number, compiled, objects) for number in ((0,) if is_one else (0, -1)))


def _side(seen: diff.Observed, number: int, compiled: tree.Tree, objects: Mapping[str, Object]) -> Output:
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
    bootstrap = (content for path, content in seen.files.items() if path.startswith(f"{names.BOOTSTRAP}/"))
    output = of_output(index._replace(workloads=workloads), found, unreadable)
    return structs.replace(output, deletion=deletions.of_output(found.values(), bootstrap))


def unrecorded(seen: diff.Observed, compiled: tree.Tree, objects: Mapping[str, Object]) -> Output:
    """Return the output as it stands without an index: of the files, those that are equal in the `compiled` tree."""
    texts, index = compiled.contents(), compiled.index
    kept = {path: data for path, data in objects.items() if seen.files.get(path) == texts[path]}
    workloads = tuple(item for item in index.workloads if item.file in kept)
    return of_output(index._replace(files=tuple(sorted(seen.files)), workloads=workloads), kept)


def _is_object_file(path: str) -> bool:
    return path.endswith(".yaml") and path != "kustomization.yaml" and not path.startswith(f"{names.BOOTSTRAP}/")


def _object(content: bytes, path: str) -> Object | None:
    """Return the object of a file, with the shape that the compiler writes; None if it has another."""
    try:
        data = yaml_text.single(content.decode(), path)
        if not isinstance(data["metadata"].get("annotations", {}), Mapping):
            return None
        if data["kind"] == "NodeFeatureRule":
            PoolRules(data), hardware.of_object(data)
        elif index_file.is_daemon_set(path):
            component = (index_file.program(path) or ("", "driver"))[1]
            placement.daemon_set(index_file.Workload(file=path, component=component, policy=""), data)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    return data if isinstance(data, Mapping) else None
