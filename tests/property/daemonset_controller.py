"""A second implementation of Kubernetes' DaemonSet controller, for a manifest and a node.

It reads the objects as an API server would store them, and shares no code with the compiler. The rules are those of
`nodeShouldRunDaemonPod` and `AddOrUpdateDaemonPodTolerations` in pkg/controller/daemon, of `nodeaffinity` in
component-helpers, and of `Toleration.ToleratesTaint` in k8s.io/api/core/v1.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tests.property import selection

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
    """Return whether the controller brings a pod of the DaemonSet to the node, its `shouldRun`."""
    return _fits(daemonset, node, ("NoSchedule", "NoExecute"))


def keeps_on(daemonset: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """Return whether the controller lets a pod that runs on the node be, its `shouldContinueRunning`."""
    return _fits(daemonset, node, ("NoExecute",))


def _fits(daemonset: Mapping[str, Any], node: Mapping[str, Any], effects: Collection[str]) -> bool:
    """Return whether selectors take the node, and the pod tolerates its taints with one of these effects."""
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
        taint["effect"] not in effects or any(selection.tolerates(item, taint) for item in tolerations)
        for taint in node["spec"].get("taints", [])
    )


def _term(term: Mapping[str, Any], node: Mapping[str, Any]) -> bool:
    """A term without any requirement matches no node."""
    fields = term.get("matchFields", [])
    requirements = term.get("matchExpressions", [])
    assert not fields, "no manifest of ours names a node"
    labels = node["metadata"].get("labels", {})
    return bool(requirements) and all(selection.holds(one, labels.get(one["key"])) for one in requirements)
