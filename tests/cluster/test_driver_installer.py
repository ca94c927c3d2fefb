"""The driver installer on a real node: its image, its compiled DaemonSet, the real kubelet; the host is a folder."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from installer.host import record
from tests.cluster.control import objects as kinds
from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import stores
from tests.installer import homes, machines, podresources, settings

OLD, NEW, EMPTY = "2.0.1", "2.0.2", "2.0.3"
"""Versions of images; the last one holds no modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    namespace: pods.Namespace
    daemon_set: dict[str, Any]
    machine: machines.Machine
    kubelet: podresources.Kubelet

    def apply(self, version: str, **config: Any) -> str:
        changed = copy.deepcopy(self.daemon_set)
        driver_node.set_config(changed, **{"driverVersion": version, "enabledCleanup": False} | config)
        driver_node.pod_of(changed)["spec"]["containers"][0]["image"] = f"{driver_node.IMAGE}:{version}"
        self.namespace.plane.apply(changed)
        told = driver_node.config_of(driver_node.pod_of(changed))

        def pods_of_it() -> list[str]:
            staying = self.namespace.staying()
            return [pod["metadata"]["name"] for pod in staying if driver_node.config_of(pod) == told]

        return waiting.until(f"the pod of {version}", pods_of_it)[0]

    def install(self, version: str, **config: Any) -> str:
        name = self.apply(version, **config)
        self.namespace.wait_for_ready(name)
        return name

    def run(self, name: str, command: str) -> str:
        return self.namespace.run(name, "python", "-m", "installer", command)

    def delete(self) -> None:
        self.namespace.kubectl("delete", "daemonset", "--all", "--wait=true")
        waiting.until("the end of the pods", lambda: not self.namespace.pods(), explain=self._logs)

    def _logs(self) -> str:
        return "\n".join(self.namespace.logs(pod["metadata"]["name"]) for pod in self.namespace.pods())


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    machine = driver_node.machine(node.plane, "driver-host")
    root, folder = machine.root, tmp_path_factory.mktemp("images")
    driver_node.make_images(images, machine, folder, OLD, NEW)
    parts, fields = driver_node.layers(stores.built_image("kae-driver-installer"), folder / "empty")
    images.build(f"{driver_node.IMAGE}:{EMPTY}", *parts, **fields)
    # With the right to ask for its DaemonSet, which only a policy that cleans up has; `apply` turns the clean-up off.
    driver = {"version": OLD, "enabledCleanup": True, "drain": {"timeoutSeconds": 60}}
    objects = driver_node.compiled(tmp_path_factory.mktemp("project"), host=driver)
    daemon_set = driver_node.daemon_set(objects, "host")
    for volume in driver_node.pod_of(daemon_set)["spec"]["volumes"]:
        if volume["name"] == "host":
            volume["hostPath"]["path"] = str(root)
    labels = (f"{driver_node.POOL}=host", f"{driver_node.HPRE}.present=true")
    node.plane.kubectl("label", "node", node.name, "--overwrite", *labels)
    objects.remove(daemon_set)
    with podresources.serving(root) as kubelet, driver_node.applied(node.plane, objects):
        namespace = pods.Namespace(name=driver_node.NAMESPACE, plane=node.plane)
        yield Deployed(namespace=namespace, daemon_set=daemon_set, machine=machine, kubelet=kubelet)


def test_the_pod_is_ready_when_its_host_has_the_driver(deployed: Deployed) -> None:
    name = deployed.install(OLD)

    status, plan = (deployed.run(name, command) for command in ("status", "plan"))

    assert settings.versions(deployed.machine) == {OLD}
    assert set(deployed.machine.nodes().values()) == {0o666}
    assert f"Driver    {OLD} from prebuilt" in status
    assert plan.endswith("is loaded and verified.\n")


def test_a_new_version_is_rolled_out_and_the_users_are_evicted(
    deployed: Deployed, node: nodes.Node, namespace: pods.Namespace
) -> None:
    old = deployed.install(OLD)

    with driver_node.holding(deployed.kubelet, namespace, node) as holder:
        new = deployed.apply(NEW)
        namespace.wait_for_end(holder)
        before = settings.versions(deployed.machine)
    deployed.namespace.wait_for_ready(new)

    assert before == {OLD}
    assert settings.versions(deployed.machine) == {NEW}
    deployed.namespace.wait_for_end(old)


def test_a_pod_that_cannot_bring_its_driver_says_why_and_leaves_the_one_before(deployed: Deployed) -> None:
    deployed.install(OLD)

    name = deployed.apply(EMPTY)
    reason = f"The image holds no modules for the running kernel {deployed.machine.kernel}; it has: none."
    deployed.namespace.wait_for_event(name, reason)

    assert kinds.condition(deployed.namespace.pod(name)) == "False"
    assert settings.versions(deployed.machine) == {OLD}
    assert f"The installed driver is prebuilt {OLD}" in deployed.run(name, "plan")


def test_the_driver_stays_when_the_daemon_set_is_deleted(deployed: Deployed) -> None:
    deployed.install(OLD)

    deployed.delete()

    assert settings.versions(deployed.machine) == {OLD}
    assert record.read(deployed.machine.host).installed is not None


def test_the_driver_goes_with_the_daemon_set_where_that_was_asked_for(deployed: Deployed) -> None:
    deployed.install(OLD, enabledCleanup=True)

    deployed.delete()

    assert deployed.machine.loaded() == {}
    assert record.read(deployed.machine.host).installed is None
    assert not deployed.machine.host.path(homes.KAE.changing).exists()
