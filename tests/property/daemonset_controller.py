"""A second implementation of Kubernetes' DaemonSet controller, for a manifest and a node.

It reads the objects as an API server would store them, and shares no code with the compiler. The rules are those of
`nodeShouldRunDaemonPod` and `AddOrUpdateDaemonPodTolerations` in pkg/controller/daemon, of `nodeaffinity` in
component-helpers, and of `Toleration.ToleratesTaint` in k8s.io/api/core/v1.
"""

from collections.abc import Mapping
from typing import Any

ADDED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Taints, by key and effect, that every DaemonSet's pod tolerates without saying so."""


def runs_on(daemonset: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Return whether the controller keeps a pod of the DaemonSet on the node."""
    pod = daemonset["spec"]["template"]["spec"]
    labels = node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in pod.get("nodeSelector", {}).items()):
        return False
    affinity = pod.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    if affinity and not any(_term(term, node) for term in affinity["nodeSelectorTerms"]):
        return False
    tolerations = [
        *pod.get("tolerations", []),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in ADDED),
    ]
    return all(
        taint["effect"] == "PreferNoSchedule" or any(_tolerates(item, taint) for item in tolerations)
        for taint in node["spec"].get("taints", [])
    )


def _term(term: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """A term without any requirement matches no node."""
    fields = term.get("matchFields", [])
    requirements = term.get("matchExpressions", [])
    assert not fields, "no manifest of ours names a node"
    return bool(requirements) and all(_requirement(one, node["metadata"].get("labels", {})) for one in requirements)


def _requirement(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, operator, values = requirement["key"], requirement["operator"], requirement.get("values", [])
    if operator == "In":
        return key in labels and labels[key] in values
    if operator == "NotIn":
        return key not in labels or labels[key] not in values
    if operator == "Exists":
        return key in labels
    if operator == "DoesNotExist":
        return key not in labels
    number = _parse_int(labels[key]) if key in labels else None
    limit = _parse_int(values[0])
    if number is None or limit is None:
        return False
    return number > limit if operator == "Gt" else number < limit


def _parse_int(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or any(digit not in "0123456789" for digit in digits):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return True
    return bool(toleration.get("value", "") == taint.get("value", ""))
