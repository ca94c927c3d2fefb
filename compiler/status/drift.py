"""The differences between a rendered and a live object.

The objects that grant, confine, label or run something are compared in every field, apart from what the API server
fills in by itself; the others, and all metadata, in the rendered fields only, as others may add theirs. That somebody
states a default changes nothing, so it is no difference either.

A place is a path without the names of list items, as in spec.containers.*.image. The defaults are those of the API
reference: https://kubernetes.io/docs/reference/kubernetes-api/ (workload-resources, policy-resources).
"""

import functools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from compiler.fleet import pods
from compiler.formats import documents, field_difference

_AMOUNTS = (("limits",), ("requests",))
"""Fields of quantities, which the API server writes in a form of its own."""

_RBAC = "rbac.authorization.k8s.io"

_AGGREGATION = f"{_RBAC}/aggregate-to-"
"""The beginning of a label by which a ClusterRole gives its rules to another one."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """A field that is not as rendered."""

    path: str
    """From the top, as in spec.containers[worker].image."""
    wanted: Any
    """None for a field, or an item of a list, that is not rendered."""
    live: Any
    """None where the live object lacks the field."""


Fields = Mapping[str, Any]
"""By place, the value that the API server fills in: a value, or what makes it from the fields beside it."""


def _pull_policy(container: Mapping[str, Any]) -> str:
    name = str(container.get("image", "")).rpartition("/")[2]
    is_latest = "@" not in name and name.partition(":")[2] in ("", "latest")
    return "Always" if is_latest else "IfNotPresent"


def _below(places: Iterable[str], fields: Fields) -> Fields:
    """Return fields below each of several places."""
    return {f"{place}.{field}": value for place in places for field, value in fields.items()}


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
    "serviceAccount": lambda pod: pod.get("serviceAccountName"),
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
    f"spec.template.metadata.annotations.{_RESTARTED}": lambda annotations: annotations[_RESTARTED],
    **_below(("spec.template.spec",), _POD),
}

_MATCHED: Fields = {"matchPolicy": "Equivalent", "resourceRules.*.scope": "*", "excludeResourceRules.*.scope": "*"}

_BINDING: Fields = {
    "subjects.*.apiGroup": lambda subject: "" if subject.get("kind") == "ServiceAccount" else _RBAC,
    "roleRef.apiGroup": _RBAC,
}

DEFAULTS: Mapping[str, Fields] = {
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
"""What the API server fills in, by kind; the other kinds are compared in the rendered fields only."""


def is_filled_in(fields: Fields, place: str, value: Any, beside: Mapping[str, Any]) -> bool:
    """Return whether the API server has filled in a value, whose fields it has `beside` it; or whether it is empty."""
    if place in fields:
        default = fields[place]
        expected = default(beside) if callable(default) else default
        return value == expected and isinstance(value, bool) is isinstance(expected, bool)
    if isinstance(value, Mapping):
        return all(is_filled_in(fields, f"{place}.{key}", inner, value) for key, inner in value.items())
    return value is None or value == []


def changes(wanted: Mapping[str, Any], live: Mapping[str, Any]) -> tuple[Change, ...]:
    """Return every field of `wanted` that `live` lacks or has otherwise, and what others added to it.

    That is every extra item in a rendered list, and of the kinds that have defaults here every extra field.
    """
    filled_in = DEFAULTS.get(wanted.get("kind", ""))
    return tuple(
        Change(path=field.text, wanted=field.new, live=field.old)
        for field in field_difference.fields(live, wanted, by_place=True)
        if not _is_same_amount(field)
        and (field.new is not None or field.old is not None)
        and (field.was is None or field.now is not None or _is_added(field.was, live, filled_in))
    )


def _is_added(path: documents.Path, live: Any, filled_in: Fields | None) -> bool:
    """Return whether somebody has added what is not rendered, and has to be as rendered."""
    *above, key = path
    place = ".".join("*" if isinstance(step, int) else step for step in path)
    if isinstance(key, int):
        return True
    # Metadata is everybody's: labels and annotations of others, and what the API server records.
    if filled_in is None or path[0] == "metadata":
        return place == f"metadata.labels.{key}" and key.startswith(_AGGREGATION)
    beside = functools.reduce(operator.getitem, above, live)
    return place != "status" and not is_filled_in(filled_in, place, beside[key], beside)


def _is_same_amount(field: field_difference.Field) -> bool:
    ours, theirs = pods.amount_of(field.new), pods.amount_of(field.old)
    path = field.now or ()
    return path[-2:-1] in _AMOUNTS and ours is not None and ours == theirs
