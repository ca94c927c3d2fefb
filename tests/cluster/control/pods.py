"""Pods of tests: the smallest that works, and a namespace in which they are made, watched and asked."""

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.control import control_plane
from tests.cluster.local import waiting


def pod(name: str, image: str, command: Sequence[str], **spec: object) -> dict[str, Any]:
    """Return a pod of one container, `main`, that runs a command once; `spec` holds further fields of the pod's spec.

    A field `container` holds further fields of the container instead.
    """
    extra = spec.pop("container", {})
    assert isinstance(extra, Mapping)
    container = {"name": "main", "image": image, "imagePullPolicy": "Never", "command": list(command)}
    defaults = {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {**defaults, **spec, "containers": [{**container, **extra}]},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    """A namespace of one test."""

    name: str
    plane: control_plane.ControlPlane

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        """Return what kubectl prints in this namespace.

        Raises:
            KubectlFailed: With what it printed to standard error.
        """
        return self.plane.kubectl("--namespace", self.name, *arguments, text=text)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects; those without a namespace get this one.

        Raises:
            KubectlFailed: An object was refused.
        """
        self.kubectl("apply", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))

    def pod(self, name: str) -> Any:
        """Return the pod as the API server has it, or None."""
        return self.plane.api.get(f"{self._pods}/{name}")

    def pods(self, selector: str = "") -> Sequence[Any]:
        """Return the pods that a label selector matches, by name."""
        found: list[Any] = json.loads(self.kubectl("get", "pods", f"--selector={selector}", "-o", "json"))["items"]
        return sorted(found, key=lambda item: str(item["metadata"]["name"]))

    def wait_for_phase(self, name: str, phase: str, timeout_s: float = 30) -> Any:
        """Wait until the pod is in this phase; return the pod.

        Raises:
            TimedOut: With the pod's status and events.
        """
        return self._wait_for_pod(name, phase, lambda status: status.get("phase") == phase, timeout_s)

    def wait_for_ready(self, name: str, timeout_s: float = 30) -> Any:
        """Wait until the pod is Ready; return the pod.

        Raises:
            TimedOut: With the pod's status and events.
        """
        return self._wait_for_pod(name, "Ready", _is_ready, timeout_s)

    def logs(self, name: str) -> str:
        """Return what the pod's container has written."""
        return self.kubectl("logs", name)

    def run(self, name: str, *command: str) -> str:
        """Return what a command prints that runs in the pod's container.

        Raises:
            KubectlFailed: It ended with an error.
        """
        return self.kubectl("exec", name, "--", *command)

    def events(self, name: str = "") -> Sequence[str]:
        """Return the events of one object, or of all: reason and message, oldest first."""
        found = self.plane.api.get(f"/api/v1/namespaces/{self.name}/events")["items"]
        found = [event for event in found if name in ("", event["involvedObject"]["name"])]
        found.sort(key=lambda event: str(event["metadata"]["creationTimestamp"]))
        return [f"{event['reason']}: {event['message']}" for event in found]

    def evict(self, name: str) -> int:
        """Request the pod's eviction; return the status, which is 429 where a disruption budget forbids it."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.name}}
        return self.plane.api.request("POST", f"{self._pods}/{name}/eviction", body).status

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def _wait_for_pod(self, name: str, state: str, holds: Callable[[Mapping[str, Any]], bool], timeout_s: float) -> Any:
        def in_state() -> Any:
            found = self.pod(name)
            return found if found is not None and holds(found["status"]) else None

        def explain() -> str:
            status = (self.pod(name) or {}).get("status", "There is no such pod.")
            return "\n".join((json.dumps(status, indent=1), *self.events(name)))

        return waiting.until(f"pod {name} {state}", in_state, timeout_s=timeout_s, explain=explain)


@contextlib.contextmanager
def namespace(plane: control_plane.ControlPlane) -> Iterator[Namespace]:
    """A new namespace in which pods can be made. At the end its pods are gone, and it is being deleted.

    Raises:
        TimedOut: A pod does not end.
    """
    made = Namespace(name=f"test-{secrets.token_hex(4)}", plane=plane)
    path = f"/api/v1/namespaces/{made.name}"
    answer = plane.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": made.name}})
    assert answer.status == 201, answer
    # Without it the API server refuses pods.
    waiting.until("service account", lambda: plane.api.get(f"{path}/serviceaccounts/default"), timeout_s=20)
    try:
        yield made
    finally:
        # First the namespace, so that no controller replaces the pods.
        plane.api.request("DELETE", path)
        plane.api.request("DELETE", f"{path}/pods?gracePeriodSeconds=1")
        # A pod that is still there holds its devices.
        waiting.until("the end of the pods", lambda: not plane.api.get(f"{path}/pods")["items"], timeout_s=60)


def _is_ready(status: Mapping[str, Any]) -> bool:
    conditions = {entry["type"]: entry["status"] for entry in status.get("conditions", ())}
    return conditions.get("Ready") == "True"
