"""A real node that goes from device plugins to DRA and back while pods hold devices; only the hardware is fake.

It needs KAE_CLUSTER_RUNTIME=containerd-2, as tests/cluster/test_dra.py does.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.cluster.nodes import plugin_node
from tests.cluster.nodes.plugin_node import LOOK, Deployed

STAYS = "while [ ! -e /end ]; do sleep 0.1; done"


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("plugin")
    with plugin_node.with_cdi(node, images, folder, interface="DevicePlugin") as made:
        made.wait_for(hpre=2, zip=2)
        yield made


def user(name: str, image: str, deployed: Deployed, kind: str = "hpre") -> dict[str, Any]:
    volume = {"name": "sysfs", "hostPath": {"path": str(deployed.devices.host.sysfs)}}
    container = {
        "resources": {"limits": {f"openfuyao.com/kae.{kind}": 1}},
        "volumeMounts": [{"name": "sysfs", "mountPath": "/sys", "readOnly": True}],
    }
    return pods.pod(name, image, ["sh", "-c", STAYS], container=container, volumes=[volume], restartPolicy="Always")


def replicated(name: str, pod: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": pod["metadata"], "spec": pod["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": pod["metadata"]["labels"]}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def held(namespace: pods.Namespace, name: str) -> str:
    """Return the one device that a pod can open."""
    (device,) = json.loads(namespace.run(name, "python3", "-c", LOOK))["shown"]
    return str(device)


def phase(namespace: pods.Namespace, name: str) -> str:
    return str(namespace.pod(name)["status"]["phase"])


def wait_for_replica(namespace: pods.Namespace, app: str) -> None:
    def ready() -> bool:
        return any(pod["status"].get("phase") == "Running" for pod in namespace.staying(f"app={app}"))

    waiting.until(f"a running pod of {app}", ready)


def test_a_node_changes_its_interface_and_back_while_pods_hold_devices(
    deployed: Deployed, debian: str, namespace: pods.Namespace, tmp_path: Path
) -> None:
    namespace.apply(user("first", debian, deployed))
    before = namespace.wait_for_ready("first")
    device = held(namespace, "first")

    # There, with a pod in the middle.
    namespace.apply(replicated("middle", user("middle", debian, deployed, "zip")))
    added = plugin_node.change(deployed, tmp_path / "dra", interface="DRA")
    namespace.apply(user("second", debian, deployed))
    second = namespace.wait_for_ready("second")
    namespace.apply(user("third", debian, deployed))
    waiting.until("that it is looked at", lambda: namespace.events("third"))
    wait_for_replica(namespace, "middle")

    namespace.wait_for_same(before)
    assert held(namespace, "first") == device
    other = held(namespace, "second")
    assert other != device
    assert phase(namespace, "third") == "Pending"
    namespace.kubectl("delete", "pod", "first", "--wait=true")
    third = namespace.wait_for_ready("third")
    assert held(namespace, "third") == device

    # And back, as after `git revert`; once the node has had its turn, a person deletes what came with DRA.
    objects = plugin_node.change(deployed, tmp_path / "back", interface="DevicePlugin")
    stay = {(item["kind"], item["metadata"]["name"]) for item in objects}
    gone = [item for item in added if (item["kind"], item["metadata"]["name"]) not in stay]
    assert {item["kind"] for item in gone} >= {"DeviceClass", "ClusterRole", "ValidatingAdmissionPolicy"}
    deployed.node.plane.delete(*gone)
    namespace.apply(user("fourth", debian, deployed))
    waiting.until("that it is looked at", lambda: namespace.events("fourth"))

    assert deployed.node.allocatable("openfuyao.com/kae.hpre") == 0
    namespace.wait_for_same(second)
    namespace.wait_for_same(third)
    assert (held(namespace, "second"), held(namespace, "third")) == (other, device)
    assert phase(namespace, "fourth") == "Pending"
    for name in ("second", "third"):
        namespace.kubectl("delete", "pod", name, "--wait=true", "--timeout=90s")
    namespace.wait_for_ready("fourth")
    assert held(namespace, "fourth") in (device, other)
    deployed.wait_for(hpre=2)


def test_a_pod_that_hangs_as_the_plugin_was_removed_ends_once_a_plugin_of_any_interface_is_back(
    deployed: Deployed, debian: str, namespace: pods.Namespace, tmp_path: Path
) -> None:
    objects = plugin_node.change(deployed, tmp_path / "dra", interface="DRA")
    namespace.apply(user("held", debian, deployed))
    namespace.wait_for_ready("held")
    removed = [item for item in objects if item["kind"] != "Namespace"]

    # Without a way back first, of which `kae diff` warns (claims-unended).
    deployed.node.plane.delete(*removed)
    waiting.until("no plugin", lambda: deployed.plugin() is None)
    slices = "/apis/resource.k8s.io/v1/resourceslices"
    waiting.until("no slices", lambda: not deployed.node.plane.api.get(slices)["items"])
    namespace.kubectl("delete", "pod", "held", "--wait=false")
    said = "unprepare dynamic resources: DRA driver kae.openfuyao.com is not registered"
    waiting.until("that the kubelet asks", lambda: said in deployed.node.kubelet.log_tail(lines=200))
    assert namespace.pod("held")["metadata"]["deletionTimestamp"]

    deployed.node.plane.apply(*plugin_node.compiled(tmp_path / "back", deployed.devices.host, interface="DevicePlugin"))
    namespace.wait_for_end("held")
    deployed.wait_for(hpre=2)
