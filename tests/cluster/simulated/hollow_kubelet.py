"""A kubelet of many nodes whose hosts are folders: it runs no containers.

A driver installer's pod is a real process of the program, with the environment of the pod's template. Any other pod
holds a device from the moment it is seen until its deletion.
"""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.control import certificates, manifests
from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import processes
from tests.cluster.nodes import driver_node
from tests.cluster.simulated import hollow_nodes
from tests.installer import machines, podresources

RESOURCE, DEVICE = "openfuyao.com/kae.hpre", "0000:79:00.0"
"""The status of every pod that is not an installer's."""

_PRESENT = {f"openfuyao.com/kae.{kind}.present": "true" for kind in ("hpre", "sec", "zip")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    machine: machines.Machine
    resources: podresources.Kubelet


class Kubelet(hollow_nodes.Nodes):
    """The kubelet of these nodes; the folder <folder>/<tag> is the root of an installer's image of this tag."""

    name = "the hollow kubelet"

    def __init__(self, plane: control_planes.ControlPlane, folder: Path, nodes: Mapping[str, Node]) -> None:
        super().__init__(plane.api, dict.fromkeys(nodes, _PRESENT))
        self._instance = plane.instance
        self._folder = folder
        self._nodes = nodes
        self._works: dict[str, processes.Program] = {}
        self._ending: set[str] = set()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        try:
            with super().working():
                yield
        finally:
            for process in self._works.values():
                process.__exit__(None, None, None)

    def log(self, node: str) -> str:
        path = self._instance.log(f"installer-{node}")
        return path.read_text() if path.exists() else ""

    def _serve(self, pod: Any) -> None:
        is_installer = pod["spec"].get("serviceAccountName", "").startswith("kae-driver-")
        if "deletionTimestamp" not in pod["metadata"]:
            self._tell(pod, self._readiness(pod) if is_installer else self._use(pod))
        elif not is_installer or self._has_ended(pod):
            self._nodes[pod["spec"]["nodeName"]].resources.remove(_key(pod))
            self._remove(pod)

    def _use(self, pod: Any) -> dict[str, str]:
        if pod["metadata"]["namespace"] == manifests.NAMESPACE:
            return hollow_nodes.ready("True", "It is no installer, such as a device plugin that another test has left.")
        resources = self._nodes[pod["spec"]["nodeName"]].resources
        if _key(pod) not in resources.pods:
            resources.give(_key(pod), "main", RESOURCE, DEVICE)
        return hollow_nodes.ready("True", "It has its device.")

    def _readiness(self, pod: Any) -> dict[str, str]:
        """Return what an installer says of itself; it is started when it was not."""
        uid = pod["metadata"]["uid"]
        if uid not in self._works:
            self._works[uid] = self._started(pod)
        process = self._works[uid]
        assert process.ended() is None, f"{process.name} has ended by itself.\n{process.log_tail()}"
        for name, is_ready in (("ready", "True"), ("unready", "False")):
            with contextlib.suppress(FileNotFoundError):
                return hollow_nodes.ready(is_ready, (self._program_dir(pod) / name).read_text().strip())
        return hollow_nodes.ready("False")

    def _has_ended(self, pod: Any) -> bool:
        """Return whether an installer that must end has ended; it gets one signal."""
        uid = pod["metadata"]["uid"]
        process = self._works.get(uid)
        if process is None or process.ended() is not None:
            return True
        if uid not in self._ending:
            self._ending.add(uid)
            os.kill(process.pid, signal.SIGTERM)
        return False

    def _started(self, pod: Any) -> processes.Program:
        (container,) = pod["spec"]["containers"]
        folder = self._program_dir(pod)
        folder.mkdir(parents=True)
        config, kubeconfig = folder.with_name("config.json"), folder.with_name("kubeconfig")
        config.write_text(json.dumps(driver_node.config_of(pod)))
        kubeconfig.write_text(certificates.kubeconfig(self._instance, token=self._token(pod)))
        node = pod["spec"]["nodeName"]
        options = {
            "--config": config,
            "--host-root": self._nodes[node].machine.root,
            "--image-root": self._folder / container["image"].rpartition(":")[2],
            "--program-dir": folder,
            "--kubeconfig": kubeconfig,
            # At the 10 s of a fleet, the hosts would wait longer for their turns than they take.
            "--turn-seconds": 2,
        }
        words = [str(word) for option in options.items() for word in option]
        variables = (f"NODE_NAME={node}", f"PYTHONPATH={manifests.ROOT}")
        command = ["env", *variables, sys.executable, "-m", "installer", *words]
        process = processes.Program(self._instance, f"installer-{node}", command)
        process.start()
        return process

    def _token(self, pod: Any) -> str:
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        account = f"/api/v1/namespaces/{manifests.NAMESPACE}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        return str(self._ask("POST", f"{account}/token", {"spec": {"boundObjectRef": bound}})["status"]["token"])

    def _program_dir(self, pod: Any) -> Path:
        return self._folder / "pods" / str(pod["metadata"]["uid"]) / "program"


def _key(pod: Any) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
