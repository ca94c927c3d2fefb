"""Rules of the API server and of kubelets for pods: a table of mistakes, and what is none."""

from typing import Any

import pytest

from compiler.checks import pods

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


@pytest.mark.parametrize(
    ("pod", "place", "words"),
    [
        (mounts({}, {}), "volumeMounts.1.mountPath", "mounts two volumes at '/v'"),
        (mounts({"subPath": "a/../b"}), "volumeMounts.0.subPath", "has '..'"),
        (mounts({"subPath": "/a"}), "volumeMounts.0.subPath", "is absolute"),
        (container(workingDir="a"), "workingDir", "not an absolute path"),
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
        (
            container(ports=PORTS, readinessProbe={"httpGet": {"port": "metric"}}),
            "readinessProbe.httpGet.port",
            "no port named 'metric'",
        ),
        (container(livenessProbe={"tcpSocket": {"port": "8080"}}), "livenessProbe.tcpSocket.port", "no port named"),
        (container(lifecycle={"preStop": {}}), "lifecycle.preStop", "is empty"),
        (container(ports=[*PORTS, {**PORTS[0], "containerPort": 81}]), "ports.1.name", "two ports named 'metrics'"),
        (container(ports=[{"name": "a-name-too-long-by-far", "containerPort": 81}]), "ports.0.name", "not the name"),
        (container(ports=[{"name": "80", "containerPort": 81}]), "ports.0.name", "not the name"),
        (
            {**container(ports=[*PORTS, {"containerPort": 8080}]), "hostNetwork": True},
            "ports.1.containerPort",
            "are 8080 of the node",
        ),
        (
            security(privileged=True, allowPrivilegeEscalation=False),
            "securityContext.allowPrivilegeEscalation",
            "is privileged",
        ),
        (security(runAsNonRoot=True, runAsUser=0), "securityContext.runAsUser", "runs as user 0"),
        (
            {**container(), "securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
            "pod.securityContext.runAsUser",
            "runs as user 0",
        ),
        (security(capabilities={"add": ["SYS_ADMNI"]}), "securityContext.capabilities.add.0", "no capability"),
        (security(capabilities={"drop": ["CAP_SYS_ADMIN"]}), "securityContext.capabilities.drop.0", "no capability"),
        (of_amount("limits.gpu"), "env.0.valueFrom.resourceFieldRef.resource", "No variable can hold 'limits.gpu'"),
    ],
)
def test_what_no_api_server_takes_or_no_kubelet_runs_is_told(pod: dict[str, Any], place: str, words: str) -> None:
    (found,) = pods.faults(pod)

    path = place if place.startswith(("volumes", "pod.")) else f"containers.0.{place}"
    assert ".".join(map(str, found.path)) == path.removeprefix("pod.")
    assert words in found.message


@pytest.mark.parametrize(
    "pod",
    [
        mounts({}, {"mountPath": "/v/w"}, {"mountPath": "/x", "subPath": "a..b/c"}),
        volume(hostPath={"path": "/opt/a..b"}),
        volume(emptyDir={"sizeLimit": "8Mi"}),
        of_field("metadata.labels['a']"),
        of_amount("requests.ephemeral-storage"),
        container(readinessProbe={"successThreshold": 2, "httpGet": {"port": "metrics"}}, ports=PORTS),
        container(ports=[*PORTS, {"containerPort": 8080}], livenessProbe={"tcpSocket": {"port": 1}}),
        {**container(ports=[*PORTS, {"containerPort": 8080, "protocol": "UDP"}]), "hostNetwork": True},
        security(privileged=True, allowPrivilegeEscalation=True),
        security(capabilities={"add": ["SYS_ADMIN"], "drop": ["ALL"]}, allowPrivilegeEscalation=False),
        {**security(runAsUser=1), "securityContext": {"runAsNonRoot": True, "runAsUser": 0}},
        container(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]),
    ],
)
def test_a_pod_that_the_api_server_takes_has_no_mistake(pod: dict[str, Any]) -> None:
    assert list(pods.faults(pod)) == []


def test_a_misspelt_capability_has_a_way_out() -> None:
    hints = [fault.hint for fault in pods.faults(security(capabilities={"add": ["SYS_ADMNI", "CAP_NET_RAW"]}))]

    assert hints == ["Did you mean 'SYS_ADMIN'? See capabilities(7).", "Did you mean 'NET_RAW'? See capabilities(7)."]
