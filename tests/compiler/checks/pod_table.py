"""Pods with a mistake that no schema knows, by who refuses them, and pods without any."""

from typing import Any

Pod = dict[str, Any]
Mistake = tuple[Pod, str, str]
"""A pod, the place of its mistake, and words of the message."""

PORTS = [{"name": "metrics", "containerPort": 8080}]


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "plugin", **fields}]}


def volume(**source: Any) -> dict[str, Any]:
    return {**container(), "volumes": [{"name": "v", **source}]}


def mounts(*every: dict[str, Any]) -> dict[str, Any]:
    return container(volumeMounts=[{"name": "v", "mountPath": "/v", **one} for one in every])


def security(**fields: Any) -> dict[str, Any]:
    return container(securityContext=fields)


def of_field(path: str) -> dict[str, Any]:
    return volume(downwardAPI={"items": [{"path": "name", "fieldRef": {"fieldPath": path}}]})


def of_amount(resource: str) -> dict[str, Any]:
    return container(env=[{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": resource}}}])


def two(**fields: Any) -> dict[str, Any]:
    """A pod of two containers with these fields."""
    return {"containers": [{"name": name, **fields} for name in ("plugin", "helper")]}


REFUSED: tuple[Mistake, ...] = (
    (mounts({}, {}), "volumeMounts.1.mountPath", "mounts two volumes at '/v'"),
    (mounts({"subPath": "a/../b"}), "volumeMounts.0.subPath", "has '..'"),
    (mounts({"subPath": "/a"}), "volumeMounts.0.subPath", "is absolute"),
    (volume(hostPath={"path": "/opt/../sys"}), "volumes.0.hostPath.path", "has '..'"),
    (volume(emptyDir={"sizeLimit": "8Mx"}), "volumes.0.emptyDir.sizeLimit", "not a quantity"),
    (of_field("spec.nodeName"), "volumes.0.downwardAPI.items.0.fieldRef.fieldPath", "No file can hold"),
    (
        volume(downwardAPI={"items": [{"path": "../x", "fieldRef": {"fieldPath": "metadata.name"}}]}),
        "volumes.0.downwardAPI.items.0.path",
        "has '..'",
    ),
    (
        container(resources={"requests": {"cpu": 2}, "limits": {"cpu": 1}}),
        "resources.requests.cpu",
        "'2' of 'cpu' is more than its limit of '1'",
    ),
    (container(resources={"limits": {"cpu": "a lot"}}), "resources.limits.cpu", "not a quantity"),
    (
        container(resources={"requests": {"example.com/npu": 1}}),
        "resources.requests.example.com/npu",
        "has no limit",
    ),
    (container(livenessProbe={"successThreshold": 2}), "livenessProbe.successThreshold", "is 1"),
    (container(startupProbe={"successThreshold": 2}), "startupProbe.successThreshold", "is 1"),
    (container(livenessProbe={"tcpSocket": {"port": "8080"}}), "livenessProbe.tcpSocket.port", "no port named"),
    (container(lifecycle={"preStop": {}}), "lifecycle.preStop", "is empty"),
    (container(ports=[*PORTS, {**PORTS[0], "containerPort": 81}]), "ports.1.name", "two ports named 'metrics'"),
    (container(ports=[{"name": "a-name-too-long-by-far", "containerPort": 81}]), "ports.0.name", "not the name"),
    (container(ports=[{"name": "80", "containerPort": 81}]), "ports.0.name", "not the name"),
    (
        {**two(ports=PORTS), "hostNetwork": True},
        "containers.1.ports.0.containerPort",
        "are 8080 of the node",
    ),
    (
        security(privileged=True, allowPrivilegeEscalation=False),
        "securityContext.allowPrivilegeEscalation",
        "is privileged",
    ),
    (of_amount("limits.gpu"), "env.0.valueFrom.resourceFieldRef.resource", "No variable can hold 'limits.gpu'"),
)
"""Those that the API server refuses."""

UNMERGED: tuple[Mistake, ...] = (
    (container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]), "env.1.name", "the variable 'A' twice"),
    (
        container(ports=[*PORTS, {"containerPort": 8080, "protocol": "TCP"}]),
        "ports.1.containerPort",
        "TCP port 8080 twice",
    ),
)
"""Those that server-side apply refuses."""

NOT_RUN: tuple[Mistake, ...] = (
    (container(workingDir="a"), "workingDir", "not an absolute path"),
    (
        container(ports=PORTS, readinessProbe={"httpGet": {"port": "metric"}}),
        "readinessProbe.httpGet.port",
        "no port named 'metric'",
    ),
    (security(runAsNonRoot=True, runAsUser=0), "securityContext.runAsUser", "runs as user 0"),
    (
        {**container(), "securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
        "pod.securityContext.runAsUser",
        "runs as user 0",
    ),
    (security(capabilities={"add": ["SYS_ADMNI"]}), "securityContext.capabilities.add.0", "no capability"),
    (security(capabilities={"drop": ["CAP_SYS_ADMIN"]}), "securityContext.capabilities.drop.0", "no capability"),
)
"""Those that a kubelet does not run, or not as written."""

TAKEN: tuple[Pod, ...] = (
    mounts({}, {"mountPath": "/v/w"}, {"mountPath": "/x", "subPath": "a..b/c"}),
    volume(hostPath={"path": "/opt/a..b"}),
    volume(emptyDir={"sizeLimit": "8Mi"}),
    of_field("metadata.labels['a']"),
    of_amount("requests.ephemeral-storage"),
    container(readinessProbe={"successThreshold": 2, "httpGet": {"port": "metrics"}}, ports=PORTS),
    {**container(ports=[*PORTS, {"containerPort": 8080, "protocol": "UDP"}]), "hostNetwork": True},
    security(privileged=True, allowPrivilegeEscalation=True),
    security(capabilities={"add": ["SYS_ADMIN"], "drop": ["ALL"]}, allowPrivilegeEscalation=False),
    {**security(runAsUser=1), "securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
    container(env=[{"name": "A", "value": "1"}, {"name": "a", "value": "2"}]),
    two(ports=PORTS),
)
