"""What the installer asks of the API server: evictions, Leases, and whether its own DaemonSet is still wanted."""

import enum
import http
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from installer.drain import connection

Unreachable = connection.Unreachable
"""Nobody answered; whether a change was carried out is not known."""

Refused = connection.Refused
"""The API server answered, and did not do what was asked."""

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
_LEASE = f"{_LEASES}/{{name}}"
_DAEMON_SET = "/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}"
_EVICTION = "/api/v1/namespaces/{namespace}/pods/{name}/eviction"


class Conflict(Refused):
    """Another one was quicker: what was read has changed or gone, or what was to be made is there."""


class Outcome(enum.Enum):
    """How the API server answers when it is asked for an eviction."""

    ACCEPTED = "accepted"
    """The pod ends, within its grace period."""
    GONE = "gone"
    """There is no such pod any more."""
    NOT_NOW = "not now"
    """A disruption budget, or the API server's own load, forbids it at this moment."""
    FORBIDDEN = "forbidden"
    """The installer may not, and to ask again is no use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The API server's answer to the wish for an eviction."""

    outcome: Outcome
    reason: str = ""
    """A sentence in its own words, which names the budget; empty for a pod that goes or is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease of coordination.k8s.io/v1; its times are RFC 3339 texts for people, with which nobody computes."""

    name: str
    holder: str = ""
    """Empty where nobody holds it."""
    acquired: str = ""
    renewed: str = ""
    duration_s: int = 0
    transitions: int = 0
    version: str = ""
    """The resourceVersion: an update is taken only while the object still has it. Empty before it is made."""
    rest: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The whole object as it was read; what others wrote into it is written back."""


class Cluster:
    """The cluster, by way of the given kubeconfig, else of KUBECONFIG, else of a pod's service account.

    Threads may share it. Where a method does not say otherwise, it raises `Unreachable` when nobody answers within
    ten seconds, and `Refused` when the answer is no; nothing is asked twice.
    """

    def __init__(
        self,
        kubeconfig: Path | None = None,
        *,
        service_account: Path = connection.SERVICE_ACCOUNT,
        timeout_s: float = connection.TIMEOUT_S,
    ) -> None:
        self._connection = connection.Connection(kubeconfig, service_account, timeout_s)

    def close(self) -> None:
        """Drops the connections; the next question opens new ones."""
        self._connection.close()

    def evict(self, namespace: str, pod: str) -> Answer:
        """Asks for a pod's eviction, which respects disruption budgets (Kubernetes, "API-initiated Eviction")."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": namespace}}
        reply = self._connection.ask("POST", _EVICTION, {"namespace": namespace, "name": pod}, body)
        if reply.done:
            return Answer(outcome=Outcome.ACCEPTED)
        if reply.missing:
            return Answer(outcome=Outcome.GONE)
        if reply.status == http.HTTPStatus.TOO_MANY_REQUESTS:
            return Answer(outcome=Outcome.NOT_NOW, reason=_budget(reply.body) or reply.message)
        if reply.status == http.HTTPStatus.FORBIDDEN:
            return Answer(outcome=Outcome.FORBIDDEN, reason=reply.message)
        raise reply.refusal(f"evict the pod {namespace}/{pod}")

    def lease(self, namespace: str, name: str) -> Lease | None:
        """A Lease; None where there is none."""
        reply = self._connection.ask("GET", _LEASE, {"namespace": namespace, "name": name})
        if reply.missing:
            return None
        if not reply.done:
            raise reply.refusal(f"show the Lease {namespace}/{name}")
        return _lease(reply.body)

    def create_lease(self, namespace: str, lease: Lease) -> Lease:
        """Makes a Lease, and shows it as it is now; raises `Conflict` where there is one of that name."""
        return self._written("POST", _LEASES, namespace, lease)

    def update_lease(self, namespace: str, lease: Lease) -> Lease:
        """Changes a Lease, and shows it as it is now; raises `Conflict` where it is not the one that was read."""
        return self._written("PUT", _LEASE, namespace, lease)

    def daemon_set_is_going(self, namespace: str, name: str) -> bool | None:
        """Whether a DaemonSet is gone or being deleted; None where nobody says so or the installer may not ask.

        Never raises. Who removes things for a True leaves them for a None.
        """
        try:
            reply = self._connection.ask("GET", _DAEMON_SET, {"namespace": namespace, "name": name})
        except Unreachable:
            return None
        if reply.missing:
            return True
        if not reply.done or reply.body.get("kind") != "DaemonSet":
            return None
        return "deletionTimestamp" in reply.body.get("metadata", {})

    def _written(self, method: str, path: str, namespace: str, lease: Lease) -> Lease:
        reply = self._connection.ask(method, path, {"namespace": namespace, "name": lease.name}, _object(lease))
        wish = f"write the Lease {namespace}/{lease.name}"
        # Gone since it was read; where nothing was read, it is the namespace that is missing.
        if reply.status == http.HTTPStatus.CONFLICT or (lease.version and reply.missing):
            raise Conflict(str(reply.refusal(wish)), reply.status)
        if not reply.done:
            raise reply.refusal(wish)
        return _lease(reply.body)


def _budget(body: Mapping[str, Any]) -> str | None:
    """What the budget says; the message above it does not name it."""
    causes = (body.get("details") or {}).get("causes") or ()
    said = [str(cause.get("message", "")) for cause in causes if cause.get("reason") == "DisruptionBudget"]
    return f"{said[0].rstrip('.')}." if said else None


def _lease(body: Mapping[str, Any]) -> Lease:
    spec = body.get("spec") or {}
    return Lease(
        name=body["metadata"]["name"],
        holder=spec.get("holderIdentity") or "",
        acquired=spec.get("acquireTime") or "",
        renewed=spec.get("renewTime") or "",
        duration_s=spec.get("leaseDurationSeconds") or 0,
        transitions=spec.get("leaseTransitions") or 0,
        version=body["metadata"].get("resourceVersion", ""),
        rest=body,
    )


def _object(lease: Lease) -> dict[str, Any]:
    ours = {
        "holderIdentity": lease.holder,
        "acquireTime": lease.acquired,
        "renewTime": lease.renewed,
        "leaseDurationSeconds": lease.duration_s,
        "leaseTransitions": lease.transitions,
    }
    # No empty texts: what has no value is left out, as the API server would do.
    others = {key: value for key, value in (lease.rest.get("spec") or {}).items() if key not in ours}
    spec = others | {key: value for key, value in ours.items() if value}
    metadata = {**lease.rest.get("metadata", {}), "name": lease.name}
    if lease.version:
        metadata["resourceVersion"] = lease.version
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
