"""Nodes without a host: what is bound to them is Ready at once, but for pods of images that are said to be broken."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent import futures
from datetime import UTC, datetime
from typing import Any

from tests.cluster.control import api

_PAUSE_S = 0.2
_BEAT_S = 10
"""Between two signs of life of a node; without any for 40 s, its pods would be marked as not ready."""

_SIZE = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_LONG_AGO = "2020-01-01T00:00:00Z"
"""The time since which pods are Ready: long ago, so that minReadySeconds have passed."""


class Nodes:
    """Nodes with these labels, by name."""

    name = "the hollow nodes"

    def __init__(self, client: api.Api, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Does nothing before `working`."""
        self.broken = ""
        """A part of the image's reference that keeps a pod from ever being Ready; none, where it is empty."""
        self._api = client
        self._labels = labels
        self._stop = threading.Event()
        self._work: futures.Future[None] = futures.Future()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Register the nodes, and answer for their pods; at the end the nodes are gone, and so are the pods.

        Raises:
            AssertionError: The API server has refused something.
        """
        for name, labels in self._labels.items():
            self._ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        with futures.ThreadPoolExecutor(1) as pool:
            self._work = pool.submit(self._serve)
            try:
                yield
            finally:
                self._stop.set()
        self._work.result()
        for name in self._labels:
            self._ask("DELETE", f"/api/v1/nodes/{name}", {})
            for pod in self._pods():
                self._ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    def ended(self) -> int | None:
        """Return 1 once the thread that answers for the pods has failed, None before."""
        return 1 if self._work.done() else None

    def log_tail(self) -> str:
        """Return why the thread has failed."""
        return str(self._work.exception()) if self._work.done() else ""

    def _serve(self) -> None:
        beat_s = 0.0
        while not self._stop.wait(_PAUSE_S):
            if time.monotonic() - beat_s > _BEAT_S:
                beat_s = time.monotonic()
                for name in self._labels:
                    ready = {"type": "Ready", "status": "True", "reason": "Hollow", "lastHeartbeatTime": _now()}
                    status = {"conditions": [ready], "capacity": _SIZE, "allocatable": _SIZE}
                    self._ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
            for pod in self._pods():
                self._tell(pod)

    def _pods(self) -> list[Any]:
        found = self._api.get("/api/v1/pods")["items"]
        return [pod for pod in found if pod["spec"].get("nodeName") in self._labels]

    def _tell(self, pod: Any) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            final = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
            self._ask("DELETE", _path(pod), final)
            return
        images = [container["image"] for container in pod["spec"]["containers"]]
        is_broken = bool(self.broken) and any(self.broken in image for image in images)
        status = "False" if is_broken else "True"
        told = [entry["status"] for entry in pod["status"].get("conditions", ()) if entry["type"] == "Ready"]
        if told != [status]:
            ready = {"type": "Ready", "status": status, "lastTransitionTime": _LONG_AGO}
            self._ask("PATCH", f"{_path(pod)}/status", {"status": {"phase": "Running", "conditions": [ready]}})

    def _ask(self, method: str, path: str, body: Mapping[str, Any]) -> None:
        answer = self._api.request(method, path, body)
        # What was seen may have gone since, or another one may have its name.
        assert answer.status in (200, 201, 404, 409), f"{method} {path}: {answer}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _path(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
