"""The node: containerd and the real kubelet."""

import contextlib
import json
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.control import control_plane
from tests.cluster.control import objects as kinds
from tests.cluster.local import instances, processes, programs, waiting
from tests.cluster.nodes import containers, images

_HEALTH_PORT = 10248


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    plane: control_plane.ControlPlane
    containerd: processes.Program
    kubelet: processes.Program
    name: str = instances.NODE

    def restart_kubelet(self) -> None:
        """End the kubelet politely and start it again with the same flags; pods go on."""
        self.kubelet.stop()
        self.kubelet.start()
        waiting.until("the kubelet's health", self._is_healthy, programs=(self.kubelet,))
        waiting.until("the kubelet's pods", self._knows_its_pods, programs=(self.kubelet,))

    def describe(self) -> Any:
        """Return the node's object, as the API server has it; None before the kubelet has made it."""
        return self.plane.api.get(f"/api/v1/nodes/{self.name}")

    def capacity(self, resource: str) -> int | None:
        return self._count("capacity", resource)

    def allocatable(self, resource: str) -> int | None:
        return self._count("allocatable", resource)

    def wait_for_allocatable(self, resource: str, count: int) -> None:
        waiting.until(
            f"{count} allocatable {resource}",
            lambda: self.allocatable(resource) == count,
            programs=(self.kubelet,),
            explain=lambda: f"It is {self.allocatable(resource)}.",
        )

    def path(self, path: str) -> Path:
        """Return where this machine has what the node has at this absolute path."""
        for folder, name in containers.HOST_FOLDERS.items():
            if Path(path).is_relative_to(folder):
                return self.plane.instance.state / name / Path(path).relative_to(folder)
        return Path(path)

    def run(self, *command: str) -> str:
        """Run a command as root in the node's mount namespace; return its output. Pods see the mounts that it makes."""
        enter = ("nsenter", f"--target={self.containerd.pid}", "--mount")
        done = subprocess.run((*enter, *command), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
        return done.stdout

    def is_ready(self) -> bool:
        node = self.describe()
        return kinds.condition(node) == "True" and not node["spec"].get("taints")

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(
                f"http://{self.plane.instance.address}:{_HEALTH_PORT}/healthz", timeout=5
            ) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _knows_its_pods(self) -> bool:
        bound = self.plane.api.get(f"/api/v1/pods?fieldSelector=spec.nodeName={self.name}")
        told = self.plane.api.request("GET", f"/api/v1/nodes/{self.name}/proxy/pods")
        return told.status == 200 and _uids(bound) <= _uids(told.body)

    def _count(self, field: str, resource: str) -> int | None:
        value = (self.describe() or {"status": {}})["status"].get(field, {}).get(resource)
        return None if value is None else int(value)


def _uids(pods: Any) -> set[str]:
    # A list without entries is null in the kubelet's answer.
    return {str(pod["metadata"]["uid"]) for pod in pods["items"] or ()}


@contextlib.contextmanager
def running(plane: control_plane.ControlPlane) -> Iterator[Node]:
    """The node, from nothing: Ready, and the image of the sandboxes is there."""
    instance = plane.instance
    with containers.containerd(instance) as containerd:
        waiting.until("containerd", lambda: containers.answers(instance), programs=(containerd,))
        with tempfile.TemporaryDirectory() as scratch:
            images.Images(instance).build(
                containers.PAUSE, images.pause_root(Path(scratch) / "root"), command=("/pause",)
            )
        with processes.Program(instance, "kubelet", _kubelet(instance, containerd.pid)) as kubelet:
            node = Node(plane=plane, containerd=containerd, kubelet=kubelet)
            waiting.until("a Ready node", node.is_ready, programs=(kubelet, containerd))
            yield node


def _kubelet(instance: instances.Instance, containerd: int) -> list[str]:
    (instance.state / "resolv.conf").write_text("# No name servers.\n")
    configuration = instance.state / "kubelet.json"
    configuration.write_text(json.dumps(_configuration(instance)))
    return [
        *("nsenter", f"--target={containerd}", "--mount"),
        programs.path("kubelet"),
        "-v=2",
        f"--config={configuration}",
        f"--kubeconfig={instance.state}/kubelet.kubeconfig",
        f"--cert-dir={instance.state}/pki/kubelet",
        f"--hostname-override={instances.NODE}",
        f"--node-ip={instance.address}",
    ]


def _configuration(instance: instances.Instance) -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": instance.address,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{instance.state}/pki/ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{instance.cgroup}",
        "clusterDNS": [instance.address],  # Nobody answers there, and says so at once.
        "containerRuntimeEndpoint": f"unix://{containers.socket(instance)}",
        "eventRecordQPS": 0,  # No limit: tests read events.
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        "healthzBindAddress": instance.address,
        "healthzPort": _HEALTH_PORT,
        "imageGCHighThresholdPercent": 100,  # Never: there is nowhere to fetch an image again.
        "makeIPTablesUtilChains": False,  # They would stay.
        "nodeStatusUpdateFrequency": "1s",
        "oomScoreAdj": -100,  # As low as it may go without CAP_SYS_RESOURCE.
        "resolvConf": f"{instance.state}/resolv.conf",
    }
