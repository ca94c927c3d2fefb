"""The status of a live cluster against the plan and the output, as a value: everything that `kae status` shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from compiler import names
from compiler.fleet import selectors
from compiler.inventory import snapshot
from compiler.kube import lease_objects
from compiler.model import base
from compiler.output import diff
from compiler.planning import plan
from compiler.rendering import manifests
from compiler.status import drift, live_objects, rollout

KINDS: tuple[tuple[str, str], ...] = (
    ("v1", "ConfigMap"),
    ("v1", "Namespace"),
    ("v1", "ServiceAccount"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("monitoring.coreos.com/v1", "PodMonitor"),
    ("monitoring.coreos.com/v1", "PrometheusRule"),
    ("nfd.k8s-sigs.io/v1alpha1", "NodeFeatureRule"),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
)
"""Every kind that output/ can hold, and so every kind of which an object may be left over."""

OURS = "app.kubernetes.io/part-of=kae"
"""The label of every rendered object."""

LEASES = f"{names.DRIVER}-"
"""The prefix of the names of the driver's Leases."""

State = Literal["missing", "changed", "extra", "kept", "ending"]
"""missing: not in the cluster. extra: in the cluster and not in output/. kept: like extra, but kept on
purpose, because objects of others would be removed with it. ending: in the cluster, and being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Ref:
    """An object of the cluster."""

    kind: str
    namespace: str
    name: str
    api_version: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """An object that is not in the cluster as it is in output/."""

    ref: Ref
    state: State
    file: str
    """Below output/<cluster>/; empty for an extra one."""
    changes: tuple[drift.Change, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A Deployment of the output, with its live state; None where the cluster lacks it."""

    ref: Ref
    live: live_objects.Deployment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A Lease that a host holds, with ages in seconds; None where the Lease does not say."""

    lease: lease_objects.Lease
    held_s: int | None
    renewed_s: int | None

    @property
    def expired(self) -> bool:
        """Return whether the Lease was not renewed in time, so that another host may take it."""
        return self.renewed_s is None or self.renewed_s > self.lease.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """The status of a cluster."""

    cluster: str
    server: str
    output: diff.Kind
    """The state of output/<cluster>/ against the documents."""
    nodes: tuple[live_objects.NodeState, ...]
    unknown: tuple[str, ...]
    """Nodes that the inventory does not hold yet."""
    gone: tuple[str, ...]
    """Nodes of the inventory that the cluster does not have any more."""
    rollouts: tuple[rollout.Rollout, ...]
    deployments: tuple[Workload, ...]
    leases: tuple[Held, ...]
    drifts: tuple[Drift, ...]

    @property
    def as_planned(self) -> bool:
        """Return whether the cluster is as documents and output say. The inventory of the plan may be old."""
        settled = all(found.found and found.observed and not found.problems for found in self.rollouts)
        up = all(found.live and found.live.available >= found.live.replicas for found in self.deployments)
        return self.output == "fine" and settled and up and all(found.state == "kept" for found in self.drifts)


def ref_of(data: Mapping[str, Any]) -> Ref:
    """Return the object that data describes."""
    metadata = data["metadata"]
    return Ref(
        api_version=data["apiVersion"],
        kind=data["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )


def wanted_daemon_sets(
    objects: Sequence[Mapping[str, Any]], decisions: Sequence[plan.Decision], nodes: Sequence[snapshot.Node]
) -> tuple[rollout.Wanted, ...]:
    """Return the DaemonSets of the output, with the nodes on which the plan expects a pod of each."""
    planned = _planned(decisions)
    found = []
    for data in objects:
        if data["kind"] != "DaemonSet":
            continue
        template = data["spec"]["template"]
        name, image = data["metadata"]["name"], template["spec"]["containers"][0]["image"]
        app = template["metadata"]["labels"].get(names.APP_LABEL, "")
        is_of_policy = names.POLICY_LABEL in data["spec"]["selector"]["matchLabels"]
        served = planned.get(name, {}) if is_of_policy else dict.fromkeys(_served(template["spec"], nodes), image)
        namespace = data["metadata"].get("namespace", "")
        found.append(rollout.Wanted(namespace=namespace, name=name, app=app, image=image, planned=served))
    return tuple(found)


def _planned(decisions: Sequence[plan.Decision]) -> dict[str, dict[str, str]]:
    """Return the image of each node that gets a pod, by the name of the policy's DaemonSet."""
    found: dict[str, dict[str, str]] = {}
    for decision in decisions:
        if decision.policy is None:
            continue
        for name, landing in (
            (manifests.driver_name(decision.policy.name, decision.pool), decision.driver),
            (manifests.device_plugin_name(decision.policy.name), decision.device_plugin),
        ):
            if landing.image is not None:
                found.setdefault(name, {}).update(dict.fromkeys(decision.names, landing.image))
    return found


def _served(spec: Mapping[str, Any], nodes: Sequence[snapshot.Node]) -> tuple[str, ...]:
    """Return the nodes of a DaemonSet without a policy: those that its nodeSelector and tolerations allow."""
    tolerations = [base.Toleration.model_validate(found) for found in spec.get("tolerations", ())]
    term = tuple(selectors.Requirement(key, "In", (value,)) for key, value in spec.get("nodeSelector", {}).items())
    return tuple(
        node.name
        for node in nodes
        if selectors.term_matches(term, node.label) and not plan.untolerated(tolerations, node.profile.taints)
    )


def data(found: ClusterStatus) -> dict[str, Any]:
    """Return the status of a cluster for programs."""
    return {
        "name": found.cluster,
        "server": found.server,
        "asPlanned": found.as_planned,
        "output": found.output,
        "nodes": {
            "count": len(found.nodes),
            "notReady": [
                {"name": node.name, "reason": node.reason, "since": node.since}
                for node in found.nodes
                if not node.ready
            ],
            "notInInventory": list(found.unknown),
            "onlyInInventory": list(found.gone),
        },
        "daemonSets": [_rollout(item) for item in found.rollouts],
        "deployments": [_workload(item) for item in found.deployments],
        "leases": [_lease(item) for item in found.leases],
        "objects": [_drift(item) for item in found.drifts],
    }


def _rollout(found: rollout.Rollout) -> dict[str, Any]:
    return {
        "namespace": found.wanted.namespace,
        "name": found.wanted.name,
        "found": found.found,
        "observed": found.observed,
        "planned": len(found.wanted.planned),
        "pods": found.pods,
        "ready": found.ready,
        "current": found.current,
        "heldUpBy": list(found.held_up_by),
        "problems": [
            {
                "kind": item.kind,
                "node": item.node,
                "pod": item.pod or None,
                "reason": item.reason,
                "since": item.since or None,
                "image": item.image or None,
                "plannedImage": found.wanted.planned.get(item.node),
            }
            for item in found.problems
        ],
    }


def _workload(found: Workload) -> dict[str, Any]:
    live = found.live
    return {
        "namespace": found.ref.namespace,
        "name": found.ref.name,
        "found": live is not None,
        "replicas": live.replicas if live else 0,
        "available": live.available if live else 0,
        "reason": live.reason if live else "",
    }


def _lease(found: Held) -> dict[str, Any]:
    return {
        "name": found.lease.name,
        "holder": found.lease.holder,
        "heldSeconds": found.held_s,
        "renewedSecondsAgo": found.renewed_s,
        "expired": found.expired,
    }


def _drift(found: Drift) -> dict[str, Any]:
    return {
        "state": found.state,
        "apiVersion": found.ref.api_version,
        "kind": found.ref.kind,
        "namespace": found.ref.namespace or None,
        "name": found.ref.name,
        "file": found.file or None,
        "changes": [{"path": item.path, "wanted": item.wanted, "live": item.live} for item in found.changes],
    }
