"""A kubelet of many nodes whose hosts are folders: it runs no containers.

A driver installer's pod is a real process of the program, with the environment of the pod's template. Any other pod
holds a device from the moment it is seen until its deletion.
"""

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent import futures
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import processes
from tests.cluster.nodes import driver_node
from tests.installer import machines, podresources

RESOURCE, DEVICE = "openfuyao.com/kae.hpre", "0000:79:00.0"
"""The status of every pod that is not an installer's."""

_SOURCES = Path(__file__).resolve().parents[3]
_PAUSE_S = 0.25
"""Between two looks at the pods."""

_BEAT_S = 10
"""Between two signs of life of a node; without any for 40 s, its pods would be marked as not ready."""

_PRESENT = {f"openfuyao.com/kae.{kind}.present": "true" for kind in ("hpre", "sec", "zip")}
_SIZE = {"cpu": "4", "memory": "8Gi", "pods": "110"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node's host, and the server of its pod-resources socket."""

    machine: machines.Machine
    resources: podresources.Kubelet


class Kubelet:
    """The kubelet of these nodes; the folder <folder>/<tag> is the root of an installer's image of this tag."""

    name = "the hollow kubelet"

    def __init__(self, plane: control_planes.ControlPlane, folder: Path, nodes: Mapping[str, Node]) -> None:
        """Does nothing before `working`."""
        self._plane = plane
        self._folder = folder
        self._nodes = nodes
        self._works: dict[str, processes.Program] = {}
        self._ending: set[str] = set()
        self._stop = threading.Event()
        self._work: futures.Future[None] = futures.Future()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Register the nodes, and serve their pods; at the end the nodes are gone, and so are all processes.

        Raises:
            AssertionError: An installer has ended by itself, or the API server has refused something.
        """
        try:
            for name in self._nodes:
                self._ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": _PRESENT}})
            with futures.ThreadPoolExecutor(1) as pool:
                self._work = pool.submit(self._serve_all)
                try:
                    yield
                finally:
                    self._stop.set()
            self._work.result()
        finally:
            for process in self._works.values():
                process.__exit__(None, None, None)
            self._plane.kubectl("delete", "node", *self._nodes, "--ignore-not-found", "--wait=true")

    def ended(self) -> int | None:
        """Return 1 once the hollow kubelet has failed, None before: no test then waits for it."""
        return 1 if self._work.done() else None

    def log_tail(self) -> str:
        """Return why the hollow kubelet has failed."""
        return str(self._work.exception()) if self._work.done() else ""

    def log(self, node: str) -> str:
        """Return what the installers of a node have written, one after the other."""
        path = self._plane.instance.log(f"installer-{node}")
        return path.read_text() if path.exists() else ""

    def _serve_all(self) -> None:
        beat_s = 0.0
        while not self._stop.wait(_PAUSE_S):
            if time.monotonic() - beat_s > _BEAT_S:
                beat_s = time.monotonic()
                for name in self._nodes:
                    ready = {**_ready("True", "It is hollow."), "lastHeartbeatTime": _now()}
                    status = {"conditions": [ready], "capacity": _SIZE, "allocatable": _SIZE}
                    self._ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
            for pod in self._plane.api.get("/api/v1/pods")["items"]:
                if pod["spec"].get("nodeName") in self._nodes:
                    self._serve(pod)

    def _serve(self, pod: Any) -> None:
        is_installer = pod["spec"].get("serviceAccountName") == "kae-driver"
        if "deletionTimestamp" not in pod["metadata"]:
            self._tell(pod, self._readiness(pod) if is_installer else self._use(pod))
        elif not is_installer or self._has_ended(pod):
            self._nodes[pod["spec"]["nodeName"]].resources.remove(_key(pod))
            final = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            self._ask("DELETE", _path(pod), final)

    def _use(self, pod: Any) -> dict[str, str]:
        if pod["metadata"]["namespace"] == driver_node.NAMESPACE:
            return _ready("True", "It is no installer, such as a device plugin that another test has left.")
        resources = self._nodes[pod["spec"]["nodeName"]].resources
        if _key(pod) not in resources.pods:
            resources.give(_key(pod), "main", RESOURCE, DEVICE)
        return _ready("True", "It has its device.")

    def _readiness(self, pod: Any) -> dict[str, str]:
        """Return what an installer says of itself; it is started when it was not."""
        uid = pod["metadata"]["uid"]
        if uid not in self._works:
            self._works[uid] = self._started(pod)
        process = self._works[uid]
        assert process.ended() is None, f"{process.name} has ended by itself.\n{process.log_tail()}"
        for name, is_ready in (("ready", "True"), ("unready", "False")):
            with contextlib.suppress(FileNotFoundError):
                return _ready(is_ready, (self._program_dir(pod) / name).read_text().strip())
        return _ready("False", "")

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
        kubeconfig.write_text(json.dumps(self._kubeconfig(pod)))
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
        command = ["env", f"NODE_NAME={node}", f"PYTHONPATH={_SOURCES}", sys.executable, "-m", "installer", *words]
        process = processes.Program(self._plane.instance, f"installer-{node}", command)
        process.start()
        return process

    def _kubeconfig(self, pod: Any) -> dict[str, Any]:
        """Return a kubeconfig with a token that is bound to the pod, as the kubelet projects it."""
        bound = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        account = f"/api/v1/namespaces/{driver_node.NAMESPACE}/serviceaccounts/{pod['spec']['serviceAccountName']}"
        token = self._ask("POST", f"{account}/token", {"spec": {"boundObjectRef": bound}})["status"]["token"]
        instance = self._plane.instance
        server = {"server": f"https://{instance.address}", "certificate-authority": str(instance.state / "pki/ca.crt")}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": server}],
            "users": [{"name": "pod", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "pod"}}],
            "current-context": "test",
        }

    def _program_dir(self, pod: Any) -> Path:
        return self._folder / "pods" / str(pod["metadata"]["uid"]) / "program"

    def _tell(self, pod: Any, ready: Mapping[str, str]) -> None:
        told = [(entry["status"], entry.get("message")) for entry in pod["status"].get("conditions", ())]
        if (ready["status"], ready["message"]) not in told:
            status = {"phase": "Running", "conditions": [ready]}
            self._ask("PATCH", f"{_path(pod)}/status", {"status": status})

    def _ask(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        answer = self._plane.api.request(method, path, body)
        # What was seen may have gone since, or another one may have its name.
        assert answer.status in (200, 201, 404, 409), f"{method} {path}: {answer}"
        return answer.body


def _ready(status: str, message: str) -> dict[str, str]:
    return {"type": "Ready", "status": status, "message": message, "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _key(pod: Any) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _path(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
