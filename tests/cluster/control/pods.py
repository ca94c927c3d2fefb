"""Pods of tests: the smallest that works, and a namespace in which they are made, watched and asked."""

import contextlib
import json
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.cluster.control import control_plane
from tests.cluster.control import objects as kinds
from tests.cluster.local import waiting


def pod(name: str, image: str, command: Sequence[str], **spec: object) -> dict[str, Any]:
    """Return a pod whose container `main` runs a command once; further fields are its spec's, or in `container`."""
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


def budget(name: str, app: str, **spec: int) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {**spec, "selector": selector},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Namespace:
    name: str
    plane: control_plane.ControlPlane

    def kubectl(self, *arguments: str, text: str | None = None) -> str:
        return self.plane.kubectl("--namespace", self.name, *arguments, text=text)

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Apply objects; those without a namespace get this one."""
        self.kubectl("apply", "-f", "-", text=control_plane.listed(objects))

    def pod(self, name: str) -> Any:
        return self.plane.api.get(f"{self._pods}/{name}")

    def pods(self, selector: str = "") -> Sequence[Any]:
        items: list[Any] = json.loads(self.kubectl("get", "pods", f"--selector={selector}", "-o", "json"))["items"]
        return sorted(items, key=lambda pod: str(pod["metadata"]["name"]))

    def staying(self, selector: str = "") -> Sequence[Any]:
        """Return those of the pods that are not to go."""
        return [pod for pod in self.pods(selector) if "deletionTimestamp" not in pod["metadata"]]

    def wait_for_phase(self, name: str, phase: str) -> Any:
        return self._wait_for_pod(name, phase, lambda pod: pod["status"].get("phase") == phase)

    def wait_for_ready(self, name: str) -> Any:
        return self._wait_for_pod(name, "Ready", lambda pod: kinds.condition(pod) == "True")

    def wait_for_same(self, before: Any) -> None:
        """Wait until a pod says what it said before: it is the same one, and no container of it was started again."""

        def is_same(pod: Any) -> bool:
            same_uid = pod["metadata"]["uid"] == before["metadata"]["uid"]
            return bool(same_uid and pod["status"]["containerStatuses"] == before["status"]["containerStatuses"])

        self._wait_for_pod(before["metadata"]["name"], "as before", is_same)

    def wait_for_end(self, name: str) -> None:
        waiting.until(f"the end of pod {name}", lambda: self.pod(name) is None)

    def spare(self, app: str, name: str) -> None:
        """Make a disruption budget of this name forbid that the pod with this label `app` is evicted."""
        self.apply(budget(name, app, minAvailable=1))
        path = f"/apis/policy/v1/namespaces/{self.name}/poddisruptionbudgets/{name}"
        waiting.until(
            f"the budget {name}", lambda: self.plane.api.get(path).get("status", {}).get("currentHealthy") == 1
        )

    def logs(self, name: str) -> str:
        return self.kubectl("logs", name)

    def wait_for_log(self, name: str, words: str) -> None:
        waiting.until(f"'{words}' in the log of {name}", lambda: words in self.logs(name))

    def run(self, name: str, *command: str) -> str:
        return self.kubectl("exec", name, "--", *command)

    def events(self, name: str = "") -> Sequence[str]:
        """Return the events of one object, or of all: reason and message, oldest first."""
        events = self.plane.api.get(f"/api/v1/namespaces/{self.name}/events")["items"]
        events.sort(key=lambda event: str(event["metadata"]["creationTimestamp"]))
        told = [event for event in events if name in ("", event["involvedObject"]["name"])]
        return [f"{event['reason']}: {event['message']}" for event in told]

    def wait_for_event(self, name: str, words: str) -> None:
        waiting.until(f"the event '{words}'", lambda: any(words in event for event in self.events(name)))

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/{self.name}/pods"

    def _wait_for_pod(self, name: str, state: str, holds: Callable[[Any], bool]) -> Any:
        def in_state() -> Any:
            pod = self.pod(name)
            return pod if pod is not None and holds(pod) else None

        def explain() -> str:
            status = (self.pod(name) or {}).get("status", "There is no such pod.")
            return "\n".join((json.dumps(status, indent=1), *self.events(name)))

        return waiting.until(f"pod {name} {state}", in_state, explain=explain)


@contextlib.contextmanager
def namespace(plane: control_plane.ControlPlane) -> Iterator[Namespace]:
    """A new namespace in which pods can be made. At the end its pods are gone, and it is being deleted."""
    made = Namespace(name=f"test-{secrets.token_hex(4)}", plane=plane)
    path = f"/api/v1/namespaces/{made.name}"
    answer = plane.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": made.name}})
    assert answer.status == 201, answer
    # Without it the API server refuses pods.
    waiting.until("service account", lambda: plane.api.get(f"{path}/serviceaccounts/default"))
    try:
        yield made
    finally:
        # First the namespace, so that no controller replaces the pods.
        plane.api.request("DELETE", path)
        plane.api.request("DELETE", f"{path}/pods?gracePeriodSeconds=1")
        # A pod that is still there holds its devices.
        waiting.until("the end of the pods", lambda: not plane.api.get(f"{path}/pods")["items"])
