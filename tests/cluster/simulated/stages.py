"""A stage: nodes whose machines are made up, the real DaemonSet controller, and what a compile and NFD's rules do.

The scheduler binds the pods, and hollow kubelets tell of them: when a node's labels change, the controller removes only
pods that are bound to the node (syncNodeUpdate in pkg/controller/daemon).
"""

import contextlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.local import waiting
from tests.cluster.simulated import hollow_nodes, placements
from tests.property import nfd_rules
from tests.property.fleets import machines

CLUSTER = "test"
NAMESPACE = manifests.NAMESPACE
RULE = "NodeFeatureRule"
APPLIED = ("Namespace", "ServiceAccount", RULE, "DaemonSet")
"""The kinds of objects that NFD needs to label nodes, and the controller to make pods."""

_MANAGER = "kae"
_MARK = "example.com/stage"
"""The label of every node of a stage; no policy asks for it."""

_NODES = "/api/v1/nodes"
_MARKED = f"{_NODES}?labelSelector={_MARK}"
_RULES = "/apis/nfd.k8s-sigs.io/v1alpha1/nodefeaturerules"
_DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    applied: tuple[str, ...]
    """Objects that are new, or are not what they were, as in `DaemonSet kae-driver-tls`."""
    removed: tuple[str, ...]
    labelled: frozenset[str]
    """Nodes to which the rules now give other labels."""


class Stage:
    """A cluster of machines that are made up, and the controller that is to make pods for them."""

    def __init__(
        self, plane: control_planes.ControlPlane, objects: kinds.Objects, hosts: Sequence[machines.Machine]
    ) -> None:
        self._api = plane.api
        self._objects = objects
        self._hollow = hollow_nodes.Nodes(plane.api, {host.name: {} for host in hosts})
        self._hosts = tuple(hosts)
        self._there: dict[str, manifests.Manifest] = {}
        self._given: dict[str, dict[str, str]] = {host.name: {} for host in hosts}

    @contextlib.contextmanager
    def opened(self, folder: Path) -> Iterator[None]:
        """Make the nodes, labelled by NFD as before any policy was there; at the end they are gone."""
        for host in self._hosts:
            self._register(host)
        with self._hollow.working():
            self._objects.define((item.data, item.text) for item in manifests.definitions_of_nfd())
            self.apply(manifests.compiled(folder, self.documents()))
            self.clear()
            yield

    def documents(self, *policies: Mapping[str, Any], recipes: Iterable[Mapping[str, Any]] = ()) -> dict[str, str]:
        """Return the files of a project with these policies, and the inventory as the API server gives it now."""
        spec = {"nfd": {"enabled": False, "nodefeaturerules": True}}
        files = {f"policies/{policy['metadata']['name']}.yaml": policy for policy in policies}
        files |= {f"recipes/{recipe['metadata']['name']}/recipe.yaml": recipe for recipe in recipes}
        files["policies/cluster.yaml"] = manifests.document("KAECluster", CLUSTER, spec)
        files[f"inventory/{CLUSTER}.json"] = self._api.get(_MARKED)
        return {name: json.dumps(data) for name, data in files.items()}

    def apply(self, root: Path) -> Change:
        """Apply what the cluster lacks, rules and so labels first; what is compiled no more goes last."""
        wanted = {str(item): item for item in manifests.of(root / "output" / CLUSTER) if item.kind in APPLIED}
        changed = {title: item for title, item in wanted.items() if self._there.get(title) != item}
        gone = {title: item for title, item in self._there.items() if title not in wanted}
        self._bring(*_rules(changed.values()), removed=_rules(gone.values()))
        labelled = self._label()
        self._bring(*_others(changed.values()), removed=_others(gone.values()))
        self._there = wanted
        return Change(applied=tuple(sorted(changed)), removed=tuple(sorted(gone)), labelled=labelled)

    def follow(
        self, root: Path, *policies: Mapping[str, Any], recipes: Iterable[Mapping[str, Any]] = ()
    ) -> tuple[Change, list[placements.Placement]]:
        """Compile policies in a folder and apply them; return the change, and the pods of the plan, once there."""
        change = self.apply(manifests.compiled(root, self.documents(*policies, recipes=recipes)))
        planned = placements.foretold(root)
        self.wait_for(planned)
        return change, planned

    def wait_for(self, placed: Sequence[placements.Placement]) -> None:
        """Wait until the controller has these pods, no others, and no more to do."""

        def explain() -> str:
            there, wanted = Counter(self.placed()), Counter(placed)
            lacking, beside = sorted((wanted - there).elements()), sorted((there - wanted).elements())
            return f"Lacking: {lacking}\nBeside: {beside}"

        waiting.until(
            "the pods that the plan foretells",
            lambda: self.placed() == sorted(placed) and self._is_settled(placed),
            programs=(self._hollow,),
            explain=explain,
        )

    def placed(self) -> list[placements.Placement]:
        return sorted(pod.placement for pod in self.pods())

    def pods(self) -> list[placements.Pod]:
        staying = (item for item in self._api.get(_PODS)["items"] if "deletionTimestamp" not in item["metadata"])
        return [pod for pod in map(placements.pod_of, staying) if pod.node in self._given]

    @contextlib.contextmanager
    def joined(self, host: machines.Machine) -> Iterator[None]:
        """Make one more node with a hollow kubelet, labelled by the rules in the cluster; at the end it is gone."""
        before = self._hosts
        self._hosts = (*before, host)
        self._given[host.name] = {}
        self._register(host)
        self._label()
        try:
            with hollow_nodes.Nodes(self._api, {host.name: {}}).working():
                yield
        finally:
            self._hosts = before
            del self._given[host.name]

    def generations(self) -> dict[str, int]:
        items = self._api.get(_DAEMON_SETS)["items"]
        return {item["metadata"]["name"]: item["metadata"]["generation"] for item in items}

    def clear(self) -> None:
        """Remove everything that was applied, and all pods; the nodes stay, as they are labelled."""
        for item in self._there.values():
            if item.kind in (RULE, "DaemonSet"):
                self._objects.delete(item.data)
        self._there = {}

        def is_empty() -> bool:
            assert self._api.request("DELETE", f"{_PODS}?gracePeriodSeconds=0").status == 200
            return not self._api.get(_DAEMON_SETS)["items"] and not self._api.get(_PODS)["items"]

        waiting.until("the end of the pods", is_empty)

    def _bring(self, *changed: manifests.Manifest, removed: Iterable[manifests.Manifest]) -> None:
        for item in changed:
            self._objects.apply(item.data, item.text, _MANAGER)
        for item in removed:
            self._objects.delete(item.data)

    def _register(self, host: machines.Machine) -> None:
        node = host.node({_MARK: CLUSTER})
        node["status"]["conditions"] = []
        assert self._api.request("POST", _NODES, node).status == 201

    def _label(self) -> frozenset[str]:
        """Give the nodes the labels that the rules in the cluster say, as NFD's master would; which have changed."""
        rules = self._api.get(_RULES)["items"]
        changed = []
        for host in self._hosts:
            had, given = self._given[host.name], nfd_rules.labels(rules, host.features)
            if given != had:
                labels = {**dict.fromkeys(had), **given}
                self._api.ask("PATCH", f"{_NODES}/{host.name}", {"metadata": {"labels": labels}})
                self._given[host.name] = given
                changed.append(host.name)
        return frozenset(changed)

    def _is_settled(self, placed: Sequence[placements.Placement]) -> bool:
        """Return whether the controller knows the DaemonSets of these pods, and has finished each."""
        live = {item["metadata"]["name"]: item for item in self._api.get(_DAEMON_SETS)["items"]}
        return {daemon_set for _, daemon_set, _ in placed} <= live.keys() and all(map(_is_done, live.values()))


@contextlib.contextmanager
def opened(
    plane: control_planes.ControlPlane, objects: kinds.Objects, hosts: Sequence[machines.Machine], folder: Path
) -> Iterator[Stage]:
    stage = Stage(plane, objects, hosts)
    with stage.opened(folder):
        yield stage


def _is_done(daemon_set: Any) -> bool:
    """Return whether the controller has looked at the DaemonSet as it is now, and has all pods that it wants."""
    # Some may be on nodes that are not of the stage.
    status = daemon_set["status"]
    numbers = {status[f"{which}NumberScheduled"] for which in ("desired", "current")}
    return (
        status.get("observedGeneration") == daemon_set["metadata"]["generation"]
        and status["numberMisscheduled"] == 0
        and len({*numbers, status.get("updatedNumberScheduled", 0)}) == 1
    )


def _rules(items: Iterable[manifests.Manifest]) -> list[manifests.Manifest]:
    return [item for item in items if item.kind == RULE]


def _others(items: Iterable[manifests.Manifest]) -> list[manifests.Manifest]:
    return [item for item in items if item.kind != RULE]
