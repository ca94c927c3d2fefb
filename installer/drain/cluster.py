"""The installer's requests to the API server: evictions, pods of programs, Leases, and its own DaemonSet's state."""

import enum
import http
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from compiler import errors as compiler_errors
from compiler.kube import client, credentials, lease_objects
from runtime import errors

TIMEOUT_S = 10
"""To connect, between two parts of an answer, and for the whole answer."""

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
_LEASE = f"{_LEASES}/{{name}}"
_DAEMON_SET = "/apis/apps/v1/namespaces/{namespace}/daemonsets/{name}"
_PODS = "/api/v1/namespaces/{namespace}/pods"
_POD = f"{_PODS}/{{name}}"
_EVICTION = f"{_POD}/eviction"


class Unreachable(errors.Failure):
    """There is no answer; whether a write was carried out is unknown."""


class Refused(errors.Failure):
    """The API server answered, and did not do what was requested."""


class Forbidden(Refused):
    """The credentials do not allow it."""


class Conflict(Refused):
    """Another writer was quicker: the object changed or went since it was read, or exists already."""


class Outcome(enum.Enum):
    """The API server's answer to an eviction, as far as callers tell answers apart."""

    ACCEPTED = "accepted"
    """The pod ends, within its grace period."""
    GONE = "gone"
    """The pod does not exist any more."""
    NOT_NOW = "not now"
    """A disruption budget or the API server's load forbids it for now."""
    FORBIDDEN = "forbidden"
    """The installer has no right to; a retry is useless."""


class EvictionAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The API server's answer to an eviction."""

    outcome: Outcome
    reason: str = ""
    """A sentence in its own words, which names the budget; empty for ACCEPTED and GONE."""


class Cluster:
    """The cluster of a kubeconfig: the given one, else that of KUBECONFIG, else the pod's own cluster.

    Threads may share it. Unless a method says otherwise, it raises `Unreachable` without an answer within ten
    seconds, and `Refused` where the API server refuses; it never repeats a request.
    """

    def __init__(
        self,
        kubeconfig: Path | None = None,
        *,
        service_account: Path = credentials.SERVICE_ACCOUNT,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        load = credentials.of_files([kubeconfig]) if kubeconfig else credentials.of_environment(service_account)
        timeouts = client.Timeouts(connect_s=timeout_s, read_s=timeout_s, answer_s=timeout_s)
        self._connection = client.Connection(load, "kae-driver-installer", timeouts)

    def close(self) -> None:
        """Drop the connections; the next request opens new ones."""
        self._connection.close()

    def evict(self, namespace: str, pod: str, uid: str = "") -> EvictionAnswer:
        """Request a pod's eviction, which respects disruption budgets (Kubernetes, "API-initiated Eviction")."""
        # With a uid, another pod that has the name by now, as of a StatefulSet, stays.
        body: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction"}
        if uid:
            body["deleteOptions"] = {"preconditions": {"uid": uid}}
        request = client.Request(
            method="POST",
            action=f"evict the pod {namespace}/{pod}",
            path=_EVICTION,
            names={"namespace": namespace, "name": pod},
            body=body | {"metadata": {"name": pod, "namespace": namespace}},
        )
        answer = self._ask(request)
        if answer.ok:
            return EvictionAnswer(outcome=Outcome.ACCEPTED)
        # The words of addConditionAndDeletePod (pkg/registry/core/pod/storage/eviction.go) and of the storage.
        other = uid and answer.status == http.HTTPStatus.CONFLICT and re.search("UID in (the )?precond", answer.message)
        if answer.missing or other:
            return EvictionAnswer(outcome=Outcome.GONE)
        if answer.status == http.HTTPStatus.TOO_MANY_REQUESTS:
            return EvictionAnswer(outcome=Outcome.NOT_NOW, reason=_budget(answer.body) or answer.message)
        if answer.status == http.HTTPStatus.FORBIDDEN:
            return EvictionAnswer(outcome=Outcome.FORBIDDEN, reason=answer.message)
        raise self._refusal(request, answer)

    def pods(self, namespace: str, selector: str, node: str) -> dict[str, str]:
        """Return the uids of the pods of a node that have these labels, by name."""
        query = {"labelSelector": selector, "fieldSelector": f"spec.nodeName={node}"}
        action = f"list the pods of {namespace} with {selector}"
        request = client.Request(action=action, path=_PODS, names={"namespace": namespace}, query=query)
        answer = self._ask(request)
        items = answer.body.get("items")
        if not answer.ok or not isinstance(items, list):
            raise self._refusal(request, answer)
        return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}

    def delete(self, namespace: str, pod: str, uid: str) -> None:
        """Delete a pod, which ends within its grace period; do nothing if it is gone, or another one has its name."""
        request = client.Request(
            method="DELETE",
            action=f"delete the pod {namespace}/{pod}",
            path=_POD,
            names={"namespace": namespace, "name": pod},
            body={"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid}},
        )
        answer = self._ask(request)
        if not (answer.ok or answer.missing or answer.status == http.HTTPStatus.CONFLICT):
            raise self._refusal(request, answer)

    def lease(self, namespace: str, name: str) -> lease_objects.Lease | None:
        """Return a Lease; None where it does not exist."""
        names = {"namespace": namespace, "name": name}
        request = client.Request(action=f"show the Lease {namespace}/{name}", path=_LEASE, names=names)
        answer = self._ask(request)
        return None if answer.missing else self._lease(request, answer)

    def write_lease(self, namespace: str, lease: lease_objects.Lease) -> lease_objects.Lease:
        """Update a Lease that was read, else create it, and return it; raise `Conflict` if another was quicker."""
        request = client.Request(
            method="PUT" if lease.version else "POST",
            action=f"write the Lease {namespace}/{lease.name}",
            path=_LEASE if lease.version else _LEASES,
            names={"namespace": namespace, "name": lease.name},
            body=lease_objects.body(lease),
        )
        answer = self._ask(request)
        # Without a version that was read, a 404 means that the namespace does not exist.
        if lease.version and answer.missing:
            raise Conflict(str(self._refusal(request, answer)))
        return self._lease(request, answer)

    def daemon_set_is_going(self, namespace: str, name: str) -> bool | None:
        """Return whether a DaemonSet is gone or being deleted; None without a certain answer. It never raises."""
        names = {"namespace": namespace, "name": name}
        try:
            answer = self._ask(client.Request(action=f"show the DaemonSet {name}", path=_DAEMON_SET, names=names))
        except Unreachable:
            return None
        if answer.missing:
            return True
        if not answer.ok or answer.body.get("kind") != "DaemonSet":
            return None
        return "deletionTimestamp" in answer.body.get("metadata", {})

    def _lease(self, request: client.Request, answer: client.Answer) -> lease_objects.Lease:
        if not answer.ok:
            raise self._refusal(request, answer)
        return lease_objects.parse(answer.body)

    def _ask(self, request: client.Request) -> client.Answer:
        try:
            return self._connection.ask(request)
        except compiler_errors.WorldError as error:
            raise Unreachable(_sentence(error)) from error

    def _refusal(self, request: client.Request, answer: client.Answer) -> Refused:
        kind = {403: Forbidden, 409: Conflict}.get(answer.status, Refused)
        return kind(_sentence(self._connection.refusal(request.action, answer)))


def _sentence(error: compiler_errors.WorldError) -> str:
    return f"{error.message[:1].upper()}{error.message[1:]}"


def _budget(body: Mapping[str, Any]) -> str | None:
    """Return the budget's own sentence, as the message above it does not name the budget."""
    causes = (body.get("details") or {}).get("causes") or ()
    messages = [str(cause.get("message", "")) for cause in causes if cause.get("reason") == "DisruptionBudget"]
    return f"{messages[0].rstrip('.')}." if messages else None
