"""Hollow nodes: the nodes of an inventory without machines, and what their kubelets would do, without containers."""

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from compiler import errors
from compiler.inventory import snapshot
from compiler.rehearsal import api as apis

_NODES = "/api/v1/nodes"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
PODS = "/api/v1/pods"
_BEAT_S, _PAUSE_S, _TAINTS_S = 10, 0.05, 120
_LONG_AGO = "2020-01-01T00:00:00Z"
"""Since when pods are Ready, so that minReadySeconds have passed."""

_SIZE = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "250"}
_NETWORK = "node.kubernetes.io/network-unavailable"
"""A taint that a condition of the node makes, and the only one of those that keeps pods of DaemonSets away."""


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What a hollow node says of itself."""

    labels: Mapping[str, str]
    taints: tuple[snapshot.Taint, ...]
    resources: Mapping[str, int]
    facts: Mapping[str, str]

    @property
    def written_taints(self) -> list[dict[str, str]]:
        """The taints as the API has them."""
        return [taint._asdict() for taint in self.taints if taint.key != _NETWORK]

    @property
    def status(self) -> dict[str, Any]:
        """The node's status."""
        size = {**_SIZE, **{name: str(amount) for name, amount in self.resources.items()}}
        is_cut_off = any(taint.key == _NETWORK for taint in self.taints)
        conditions = [_condition("Ready", "True"), _condition("NetworkUnavailable", str(is_cut_off))]
        return {"capacity": size, "allocatable": size, "conditions": conditions, "nodeInfo": dict(self.facts)}


class Nodes:
    """The hollow nodes of a rehearsal, and their kubelets, which are one thread."""

    def __init__(self, api: apis.Api) -> None:
        """Take the API server; `working` starts the kubelets."""
        self._api = api
        self._machines: dict[str, Machine] = {}
        self._failure: errors.WorldError | None = None
        self._stop = threading.Event()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        """Have the kubelets work."""
        thread = threading.Thread(target=self._work, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def require(self) -> None:
        """Raise what ended the kubelets."""
        if self._failure is not None:
            raise self._failure

    def bring(self, wanted: Mapping[str, Machine]) -> None:
        """Make these the nodes: others go with their pods, as where a machine is taken away. Raises WorldError."""
        gone = self._machines.keys() - wanted.keys()
        for name in gone:
            self._api.do("DELETE", f"{_NODES}/{name}")
            self._api.do("DELETE", f"{_LEASES}/{name}")
        kept = {name: machine for name, machine in self._machines.items() if name not in gone}
        # The kubelets read it meanwhile; each is known before it is made, so that it goes whatever happens next.
        self._machines = {**kept, **{name: machine for name, machine in wanted.items() if name not in kept}}
        for name, machine in wanted.items():
            if name not in kept:
                self._make(name, machine)
            elif kept[name] != machine:
                self._change(name, kept[name], machine)
        self._machines = dict(wanted)
        for pod in self._api.items(PODS) if gone else ():
            if pod["spec"].get("nodeName") in gone:
                self._end(pod)
        self._wait_for_taints()

    def _make(self, name: str, machine: Machine) -> None:
        labels = {"kubernetes.io/os": "linux", **machine.labels}
        spec = {"taints": machine.written_taints}
        node = {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": machine.status}
        self._api.do("POST", _NODES, {"apiVersion": "v1", "kind": "Node", **node})
        lease = {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": _now()}
        self._api.do("POST", _LEASES, {"metadata": {"name": name}, "spec": lease})

    def _change(self, name: str, known: Machine, machine: Machine) -> None:
        labels = {**dict.fromkeys(known.labels), **machine.labels}
        change = {"metadata": {"labels": labels}, "spec": {"taints": machine.written_taints}}
        self._api.do("PATCH", f"{_NODES}/{name}", change, apis.MERGE)
        self._api.do("PATCH", f"{_NODES}/{name}/status", {"status": machine.status}, apis.MERGE)

    def _wait_for_taints(self) -> None:
        """Wait until the controllers have taken the taint from new nodes that these are not ready."""
        deadline = time.monotonic() + _TAINTS_S
        wanted = {name: {(one.key, one.effect) for one in each.taints} for name, each in self._machines.items()}
        while True:
            items = {node["metadata"]["name"]: node["spec"].get("taints") or () for node in self._api.items(_NODES)}
            there = {name: {(taint["key"], taint["effect"]) for taint in taints} for name, taints in items.items()}
            if there == wanted:
                return
            if time.monotonic() > deadline:
                name = next(name for name in {**wanted, **there} if there.get(name) != wanted.get(name))
                raise errors.WorldError(
                    f"node '{name}' has other taints than its inventory says: the controllers do not answer, or others"
                    " taint it."
                )
            time.sleep(_PAUSE_S)

    def _work(self) -> None:
        beat = 0.0
        try:
            while not self._stop.wait(_PAUSE_S):
                if time.monotonic() - beat > _BEAT_S:
                    beat = time.monotonic()
                    for name in [*self._machines]:
                        self._api.do("PATCH", f"{_LEASES}/{name}", {"spec": {"renewTime": _now()}}, apis.MERGE)
                for pod in self._api.items(PODS):
                    if pod["spec"].get("nodeName") in self._machines:
                        self._serve(pod)
        except errors.WorldError as failure:
            self._failure = failure

    def _serve(self, pod: apis.Object) -> None:
        """Do what the kubelet of its node does for a pod: it is Ready at once, and ends at once."""
        if "deletionTimestamp" in pod["metadata"]:
            self._end(pod)
        elif not is_ready(pod):
            status = {"phase": "Running", "conditions": [_condition("Ready", "True")]}
            self._api.do("PATCH", f"{path(pod)}/status", {"status": status}, apis.MERGE)

    def _end(self, pod: apis.Object) -> None:
        final = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        self._api.do("DELETE", path(pod), final)


def path(pod: apis.Object) -> str:
    """Return the path of a pod."""
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


def is_ready(pod: apis.Object) -> bool:
    """Return whether a pod says that it is Ready."""
    told = pod["status"].get("conditions") or ()
    return any((one["type"], one["status"]) == ("Ready", "True") for one in told)


def _condition(kind: str, status: str) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": _LONG_AGO}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
