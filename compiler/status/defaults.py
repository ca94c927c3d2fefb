"""The fields that the API server fills in by itself, of the kinds that are compared in every field.

That somebody states a default changes nothing, so it is no difference either.

A place is a path without the names of list items, as in spec.containers.*.image. The defaults are those of the API
reference: https://kubernetes.io/docs/reference/kubernetes-api/ (workload-resources, policy-resources).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Fields = Mapping[str, Any]
"""By place, the value that the API server fills in: a value, or what makes it from the fields beside it."""


def of_kind(kind: object) -> Fields | None:
    """Return what the API server fills in; None for a kind that is compared in the rendered fields only."""
    return _KINDS.get(str(kind))


def is_filled_in(fields: Fields, place: str, value: Any, beside: Mapping[str, Any]) -> bool:
    """Return whether the API server has filled in a value, whose fields it has `beside` it; or whether it is empty."""
    if place in fields:
        default = fields[place]
        expected = default(beside) if callable(default) else default
        return value == expected and isinstance(value, bool) is isinstance(expected, bool)
    if isinstance(value, Mapping):
        return all(is_filled_in(fields, f"{place}.{key}", inner, value) for key, inner in value.items())
    return value is None or value == []


def _pull_policy(container: Mapping[str, Any]) -> str:
    name = str(container.get("image", "")).rpartition("/")[2]
    is_latest = "@" not in name and name.partition(":")[2] in ("", "latest")
    return "Always" if is_latest else "IfNotPresent"


def _account(pod: Mapping[str, Any]) -> Any:
    """Return the value of the deprecated field serviceAccount."""
    return pod.get("serviceAccountName")


_RBAC = "rbac.authorization.k8s.io"


def _group(subject: Mapping[str, Any]) -> str:
    """Return the API group of a subject."""
    return "" if subject.get("kind") == "ServiceAccount" else _RBAC


def _below(places: Iterable[str], fields: Fields) -> Fields:
    """Return fields below each of several places."""
    return {f"{place}.{field}": value for place in places for field, value in fields.items()}


def _itself(name: str) -> Callable[[Mapping[str, Any]], Any]:
    """Return what takes a field as it is, whatever its value is."""
    return lambda beside: beside[name]


_PROBE: Fields = {
    "failureThreshold": 3,
    "periodSeconds": 10,
    "successThreshold": 1,
    "timeoutSeconds": 1,
    "grpc.service": "",
    "httpGet.path": "/",
    "httpGet.scheme": "HTTP",
}

_CONTAINER: Fields = {
    "env.*.valueFrom.fieldRef.apiVersion": "v1",
    "env.*.valueFrom.resourceFieldRef.divisor": "0",
    "imagePullPolicy": _pull_policy,
    "ports.*.protocol": "TCP",
    "securityContext.privileged": False,
    "securityContext.procMount": "Default",
    "securityContext.readOnlyRootFilesystem": False,
    "stdin": False,
    "stdinOnce": False,
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "tty": False,
    "volumeMounts.*.readOnly": False,
    **_below(("livenessProbe", "readinessProbe", "startupProbe"), _PROBE),
}

_VOLUME: Fields = {
    **_below(("configMap", "downwardAPI", "projected", "secret"), {"defaultMode": 0o644}),
    "downwardAPI.items.*.fieldRef.apiVersion": "v1",
    "hostPath.type": "",
    "projected.sources.*.downwardAPI.items.*.fieldRef.apiVersion": "v1",
    "projected.sources.*.serviceAccountToken.expirationSeconds": 3600,
}

_POD: Fields = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "hostIPC": False,
    "hostNetwork": False,
    "hostPID": False,
    "hostUsers": True,
    "restartPolicy": "Always",
    "schedulerName": "default-scheduler",
    "serviceAccount": _account,
    "setHostnameAsFQDN": False,
    "shareProcessNamespace": False,
    "terminationGracePeriodSeconds": 30,
    **_below(("containers.*", "initContainers.*"), _CONTAINER),
    **_below(("volumes.*",), _VOLUME),
}

_RESTARTED = "kubectl.kubernetes.io/restartedAt"
"""The annotation of `kubectl rollout restart`, which changes nothing but the time of a pod's start."""

_WORKLOAD: Fields = {
    "spec.minReadySeconds": 0,
    "spec.revisionHistoryLimit": 10,
    f"spec.template.metadata.annotations.{_RESTARTED}": _itself(_RESTARTED),
    **_below(("spec.template.spec",), _POD),
}

_MATCHED: Fields = {"matchPolicy": "Equivalent", "resourceRules.*.scope": "*", "excludeResourceRules.*.scope": "*"}

_BINDING: Fields = {"subjects.*.apiGroup": _group, "roleRef.apiGroup": _RBAC}

_KINDS: Mapping[str, Fields] = {
    "ClusterRole": {},
    "ClusterRoleBinding": _BINDING,
    "CronJob": {
        "spec.concurrencyPolicy": "Allow",
        "spec.failedJobsHistoryLimit": 1,
        "spec.successfulJobsHistoryLimit": 3,
        "spec.suspend": False,
        **_below(("spec.jobTemplate.spec.template.spec",), _POD),
    },
    "DaemonSet": {
        **_WORKLOAD,
        "spec.updateStrategy.rollingUpdate.maxSurge": 0,
        "spec.updateStrategy.rollingUpdate.maxUnavailable": 1,
        "spec.updateStrategy.type": "RollingUpdate",
    },
    "Deployment": {
        **_WORKLOAD,
        "spec.paused": False,
        "spec.progressDeadlineSeconds": 600,
        "spec.replicas": 1,
        "spec.strategy.rollingUpdate.maxSurge": "25%",
        "spec.strategy.rollingUpdate.maxUnavailable": "25%",
        "spec.strategy.type": "RollingUpdate",
    },
    "NetworkPolicy": _below(("spec.ingress", "spec.egress"), {"*.ports.*.protocol": "TCP"}),
    "NodeFeatureRule": {},  # The CRD has no defaults.
    "Role": {},
    "RoleBinding": _BINDING,
    "ValidatingAdmissionPolicy": {"spec.failurePolicy": "Fail", **_below(("spec.matchConstraints",), _MATCHED)},
    "ValidatingAdmissionPolicyBinding": _below(("spec.matchResources",), _MATCHED),
}
