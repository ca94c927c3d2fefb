"""Objects of any kind, as the API server's own discovery names them."""

import functools
from collections.abc import Iterable, Mapping
from typing import Any

from tests.cluster.control import api
from tests.cluster.local import waiting


class Objects:
    """Applies, reads and removes objects; the resources of a kind are asked for once."""

    def __init__(self, client: api.Api) -> None:
        self._client = client
        self._resource = functools.cache(self._discovered)

    def path(self, item: Mapping[str, Any]) -> str:
        version, meta = item["apiVersion"], item["metadata"]
        resource, namespaced = self._resource(version, item["kind"])
        scope = f"namespaces/{meta['namespace']}/" if namespaced else ""
        return f"{_root(version)}/{scope}{resource}/{meta['name']}"

    def get(self, item: Mapping[str, Any]) -> Any:
        return self._client.get(self.path(item))

    def apply(self, item: Mapping[str, Any], text: str, manager: str) -> Any:
        answer = self._client.apply(self.path(item), text, manager)
        assert answer.status in (200, 201), answer.body
        assert answer.warnings == (), answer.warnings
        return answer.body

    def merge(self, item: Mapping[str, Any], change: Mapping[str, Any], part: str = "") -> None:
        answer = self._client.request("PATCH", f"{self.path(item)}{part}", change)
        assert answer.status == 200, answer

    def delete(self, item: Mapping[str, Any]) -> None:
        """Delete an object; the garbage collector deletes its dependents later."""
        answer = self._client.request("DELETE", f"{self.path(item)}?propagationPolicy=Background")
        assert answer.status in (200, 202, 404), answer

    def wait_until_established(self, definition: Mapping[str, Any]) -> None:
        name = definition["metadata"]["name"]
        waiting.until(f"definition {name}", lambda: condition(self.get(definition), "Established") == "True")

    def define(self, definitions: Iterable[tuple[Mapping[str, Any], str]]) -> None:
        for made in [self.apply(item, text, "definitions") for item, text in definitions]:
            self.wait_until_established(made)

    def _discovered(self, version: str, kind: str) -> tuple[str, bool]:
        def discovered() -> tuple[str, bool] | None:
            for entry in (self._client.get(_root(version)) or {}).get("resources", ()):
                if entry["kind"] == kind and "/" not in entry["name"]:
                    return entry["name"], entry["namespaced"]
            return None

        return waiting.until(f"{kind} of {version}", discovered)


def condition(item: Any, kind: str = "Ready") -> str:
    """Return the status of a condition of an object, or nothing where it is not told."""
    # A young definition has a status whose conditions are null.
    told = (item or {}).get("status", {}).get("conditions") or ()
    return next((str(entry["status"]) for entry in told if entry["type"] == kind), "")


def is_available(workload: Any) -> bool:
    status = workload["status"]
    if status.get("observedGeneration") != workload["metadata"]["generation"]:
        return False
    if workload["kind"] == "Deployment":
        replicas = workload["spec"]["replicas"]
        return bool(status.get("updatedReplicas") == status.get("availableReplicas") == replicas)
    wanted = status["desiredNumberScheduled"]
    return bool(status.get("updatedNumberScheduled", 0) == status.get("numberAvailable", 0) == wanted)


def _root(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"
