"""The driver installer's pods on a real node, whose host is a folder."""

import contextlib
import copy
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import stores
from tests.installer import machines, podresources, settings

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
        spec = driver_node.pod_of(changed)["spec"]
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            container["image"] = f"{driver_node.IMAGE}:{version}"
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


@contextlib.contextmanager
def deployed(
    node: nodes.Node, images: image_store.Images, folder: Path, driver: dict[str, Any], **cluster: Any
) -> Iterator[Deployed]:
    """The DaemonSet of a policy with these fields of `driver` in a KAECluster with these, for `apply`; no pod yet."""
    machine = driver_node.machine(node.plane, f"driver-host-{folder.name}")
    machine.add_kernel(settings.OTHER_KERNEL)
    root = machine.root
    # More than a gigabyte, which containerd has too: pytest would keep it until the last test.
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        driver_node.make_images(images, machine, Path(scratch) / "images", OLD, NEW)
        parts, fields = driver_node.layers(stores.built_image("kae-driver-installer"), Path(scratch) / "empty")
        images.build(f"{driver_node.IMAGE}:{EMPTY}", *parts, **fields)
    (folder / "project").mkdir()
    objects = driver_node.compiled(folder / "project", cluster, host={"version": OLD, **driver})
    daemon_set = driver_node.daemon_set(objects, "host")
    folders = driver_node.folders(root)
    for volume in driver_node.pod_of(daemon_set)["spec"]["volumes"]:
        if volume["name"] in folders:
            volume["hostPath"]["path"] = str(folders[volume["name"]])
    labels = (f"{driver_node.POOL}=host", f"{driver_node.HPRE}.present=true")
    node.plane.kubectl("label", "node", node.name, "--overwrite", *labels)
    objects.remove(daemon_set)
    with podresources.serving(root) as kubelet, driver_node.applied(node.plane, objects):
        namespace = pods.Namespace(name=driver_node.NAMESPACE, plane=node.plane)
        yield Deployed(namespace=namespace, daemon_set=daemon_set, machine=machine, kubelet=kubelet)
