"""Nodes without a host: what is bound to them is Ready at once, but for pods of images that are said to be broken."""

import contextlib
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tests.cluster.control import api
from tests.cluster.local import waiting

_BEAT_S = 10
"""Between two signs of life of a node."""

_SIZE = {"cpu": "64", "memory": "256Gi", "pods": "110"}
_LONG_AGO = "2020-01-01T00:00:00Z"
"""The time since which pods are Ready: long ago, so that minReadySeconds have passed."""


class Nodes:
    name = "the hollow nodes"

    def __init__(self, client: api.Api, labels: Mapping[str, Mapping[str, str]]) -> None:
        self.broken = ""
        """A part of the image's reference that keeps a pod from ever being Ready; none, where it is empty."""
        self._api = client
        self._labels = labels
        self._beat_s = 0.0
        self._work = waiting.Repeated(self.name, self._look)
        self.ended, self.log_tail = self._work.ended, self._work.log_tail

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        try:
            for name, labels in self._labels.items():
                self._ask("POST", "/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
            with self._work.working():
                yield
        finally:
            for name in self._labels:
                self._ask("DELETE", f"/api/v1/nodes/{name}", {})
            for pod in self._pods():
                self._ask("DELETE", _path(pod), {"gracePeriodSeconds": 0})

    def _look(self) -> None:
        if time.monotonic() - self._beat_s > _BEAT_S:
            self._beat_s = time.monotonic()
            for name in self._labels:
                alive = {**ready("True", "It is hollow."), "lastHeartbeatTime": _now()}
                status = {"conditions": [alive], "capacity": _SIZE, "allocatable": _SIZE}
                self._ask("PATCH", f"/api/v1/nodes/{name}/status", {"status": status})
        for pod in self._pods():
            self._serve(pod)

    def _pods(self) -> list[Any]:
        return [pod for pod in self._api.get("/api/v1/pods")["items"] if pod["spec"].get("nodeName") in self._labels]

    def _serve(self, pod: Any) -> None:
        if "deletionTimestamp" in pod["metadata"]:
            self._remove(pod)
            return
        images = [container["image"] for container in pod["spec"]["containers"]]
        is_broken = bool(self.broken) and any(self.broken in image for image in images)
        self._tell(pod, {**ready(str(not is_broken)), "lastTransitionTime": _LONG_AGO})

    def _remove(self, pod: Any) -> None:
        final = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._ask("DELETE", _path(pod), final)

    def _tell(self, pod: Any, condition: Mapping[str, str]) -> None:
        keys = ("type", "status", "message")
        told = [[entry.get(key, "") for key in keys] for entry in pod["status"].get("conditions", ())]
        if [condition[key] for key in keys] not in told:
            status = {"phase": "Running", "conditions": [condition]}
            self._ask("PATCH", f"{_path(pod)}/status", {"status": status})

    def _ask(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        answer = self._api.request(method, path, body)
        # What was seen may have gone since, or another one may have its name.
        assert answer.status in (200, 201, 404, 409), f"{method} {path}: {answer}"
        return answer.body


def ready(status: str, message: str = "") -> dict[str, str]:
    return {"type": "Ready", "status": status, "message": message, "lastTransitionTime": _now()}


def _path(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
