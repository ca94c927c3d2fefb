"""`kae plan` before the real DaemonSet controller: the pods that it makes are those that the plan foretells."""

import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import project
from tests.cluster import control_plane as control_planes
from tests.cluster import controllers, fleets, manifests, nfd, processes, waiting
from tests.cluster import objects as kinds

NODES = 200
SETS = range(20)
NAMESPACE = "kae-operator"
APPLIED = ("Namespace", "ServiceAccount", "DaemonSet")
"""What it takes for the controller to make pods."""

COMPONENTS = {"kae-driver": "driver", "kae-device-plugin": "devicePlugin"}
"""The plan's word for a component, by the label app.kubernetes.io/name of its pods."""

_DAEMON_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
_PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
_UNKNOWN = ("machineID", "systemUUID", "bootID", "containerRuntimeVersion", "kubeProxyVersion", "operatingSystem")
_INFO = {
    **dict.fromkeys(_UNKNOWN, ""),
    "architecture": "arm64",
    "kernelVersion": "5.10.0-216.0.0.115.oe2203sp4.aarch64",
    "kubeletVersion": "v1.36.3",
    "osImage": "openEuler 22.03 (LTS-SP4)",
}
_READY = {"type": "Ready", "status": "True", "reason": "Made", "message": "There is no kubelet."}

Placed = Mapping[str, Mapping[str, Sequence[str]]]
"""The images of each component's pods, by node and component."""


@pytest.fixture(scope="module")
def manager(control_plane: control_planes.ControlPlane) -> Iterator[processes.Program]:
    """The controllers, who take the nodes as they are."""
    with controllers.without_kubelets(control_plane) as running:
        yield running


@pytest.fixture(scope="module")
def nodes(
    control_plane: control_planes.ControlPlane, manager: processes.Program, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The nodes of a seeded fleet, as the API server lists them; the compiler's own rules have labelled them."""
    rule = _compiled_rule(tmp_path_factory.mktemp("rules"))
    api = control_plane.api
    for node, functions in fleets.nodes(random.Random(0), NODES):  # noqa: S311 - It is to be the same each time.
        node["metadata"]["labels"] |= nfd.labels(rule, functions)
        status = {"conditions": [_READY], "nodeInfo": _INFO}
        path = "/api/v1/nodes"
        assert api.request("POST", path, {**node, "status": status}).status == 201
        # The API server taints every new node as not ready, and nobody else is there to take that away.
        answer = api.request("PATCH", f"{path}/{node['metadata']['name']}", {"spec": node["spec"]})
        assert answer.status == 200, answer
    yield api.get(f"/api/v1/nodes?labelSelector={fleets.MARK}")
    assert api.request("DELETE", f"/api/v1/nodes?labelSelector={fleets.MARK}").status == 200


def _compiled_rule(folder: Path) -> Any:
    """What the compiler has NFD do."""
    documents = {"policies/test.yaml": json.dumps(fleets.cluster("test"))}
    assert project.kae(project.write(folder, documents), "compile").code == 0
    return yaml.safe_load((folder / "output/test/node-feature-rule/nodefeaturerule-kae.yaml").read_text())


def compiled(folder: Path, seed: int, nodes: Any) -> Path:
    """The project with the first policies of the seed that compile and reach a node."""
    chance = random.Random(seed)  # noqa: S311 - It is to be the same each time.
    inventory = {"inventory/test.json": json.dumps(nodes), "policies/test.yaml": json.dumps(fleets.cluster("test"))}
    for attempt in range(20):
        root = folder / str(attempt)
        documents = {f"policies/{name}.yaml": json.dumps(data) for name, data in fleets.policies(chance).items()}
        if project.kae(project.write(root, inventory | documents), "compile").code == 0 and foretold(root):
            return root
    raise AssertionError(f"No policies of seed {seed} compile and reach a node.")


def foretold(folder: Path) -> Placed:
    """What `kae plan` says: nodes without any pod are left out."""
    answer = project.kae(folder, "plan", "--format", "json")
    assert answer.code == 0, answer.err
    (cluster,) = json.loads(answer.out)["clusters"]
    planned = {
        node["name"]: {word: [node[word]] for word in COMPONENTS.values() if node[word]} for node in cluster["nodes"]
    }
    assert len(planned) == NODES
    return {name: images for name, images in planned.items() if images}


def made(control_plane: control_planes.ControlPlane) -> Placed:
    """The pods that are to run on the fleet's nodes."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for pod in control_plane.api.get(_PODS)["items"]:
        component = COMPONENTS[pod["metadata"]["labels"]["app.kubernetes.io/name"]]
        (container,) = pod["spec"]["containers"]
        found[_node(pod)][component].append(container["image"])
    return {name: images for name, images in found.items() if name.startswith(fleets.PREFIX)}


def _node(pod: Any) -> str:
    """The only node that the pod may be bound to."""
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (name,) = {
        value
        for term in affinity["nodeSelectorTerms"]
        for field in term["matchFields"]
        for value in field["values"]
        if field["key"] == "metadata.name"
    }
    return str(name)


def settled(control_plane: control_planes.ControlPlane) -> bool:
    """Whether the controller has done all that it wants to do."""
    return all(
        item["status"].get("observedGeneration") == item["metadata"]["generation"]
        and item["status"]["currentNumberScheduled"] == item["status"]["desiredNumberScheduled"]
        for item in control_plane.api.get(_DAEMON_SETS)["items"]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A cluster of nodes, and the controller that is to make pods for them."""

    plane: control_planes.ControlPlane
    objects: kinds.Objects
    nodes: Any
    manager: processes.Program

    def apply(self, tree: Path) -> None:
        """Applies what a cluster is compiled to, and waits until the controller is done.

        Raises:
            TimedOut: It is not.
        """
        for item in manifests.of(tree):
            if item.kind in APPLIED:
                self.objects.apply(item.data, item.text, "kae")
        waiting.until("all pods", lambda: settled(self.plane), timeout_s=30, programs=(self.manager,))


@pytest.fixture
def stage(
    control_plane: control_planes.ControlPlane, objects: kinds.Objects, nodes: Any, manager: processes.Program
) -> Iterator[Stage]:
    """No DaemonSet and no pod is there before, and none is left."""
    yield Stage(plane=control_plane, objects=objects, nodes=nodes, manager=manager)
    api = control_plane.api

    def is_empty() -> bool:
        for path in (f"{_DAEMON_SETS}?propagationPolicy=Background", f"{_PODS}?gracePeriodSeconds=0"):
            assert api.request("DELETE", path).status == 200
        return not api.get(_DAEMON_SETS)["items"] and not api.get(_PODS)["items"]

    waiting.until("the end of the pods", is_empty, timeout_s=30)


@pytest.mark.parametrize("seed", SETS)
def test_the_pods_that_the_controller_makes_are_those_that_the_plan_foretells(
    seed: int, stage: Stage, tmp_path: Path
) -> None:
    root = compiled(tmp_path, seed, stage.nodes)

    stage.apply(root / "output/test")

    assert made(stage.plane) == foretold(root)
