"""What others add to an object that grants, confines or runs something is seen, and what the API server adds is not."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from compiler.status import drift
from tests.golden import trees

DRIVER = "driver/daemonset-kae-driver-tls.yaml"
WATCHER = "watcher/deployment-kae-watcher.yaml"
POLICY = "guard/validatingadmissionpolicy-kae-driver.yaml"
BINDING = "guard/validatingadmissionpolicybinding-kae-driver.yaml"
RULE = "node-feature-rule/nodefeaturerule-kae-pool-storage.yaml"
ROLE, ROLE_BINDING = "driver/role-kae-driver.yaml", "driver/rolebinding-kae-driver.yaml"
CLUSTER_ROLE, CLUSTER_ROLE_BINDING = "driver/clusterrole-kae-driver.yaml", "driver/clusterrolebinding-kae-driver.yaml"
SHELL = {"name": "shell", "image": "busybox", "command": ["sh"]}
EXCLUDED = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["*"], "scope": "*"}

Path = tuple[str | int, ...]
SPEC: Path = ("spec", "template", "spec")
CONTAINER: Path = (*SPEC, "containers", 0)


def rendered(path: str) -> Any:
    return yaml.load(trees.files("output/east")[path], yaml.CSafeLoader)


def at(data: Any, path: Path) -> Any:
    for key in path:
        data = data[key]
    return data


def added(path: str, where: Path, value: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return an object, and the same with one thing more: an item of a list, or a field."""
    wanted = rendered(path)
    live = copy.deepcopy(wanted)
    place = at(live, where[:-1])
    if isinstance(place, list):
        place.append(value)
    else:
        assert where[-1] not in place
        place[where[-1]] = value
    return wanted, live


@pytest.mark.parametrize(
    ("path", "where", "value"),
    [
        (POLICY, ("spec", "matchConstraints", "excludeResourceRules"), [EXCLUDED]),
        (POLICY, ("spec", "matchConstraints", "namespaceSelector"), {"matchLabels": {"a": "b"}}),
        (POLICY, ("spec", "matchConditions", 1), {"name": "never", "expression": "false"}),
        (POLICY, ("spec", "variables"), [{"name": "a", "expression": "true"}]),
        (BINDING, ("spec", "matchResources", "objectSelector"), {"matchLabels": {"a": "b"}}),
        (BINDING, ("spec", "matchResources", "excludeResourceRules"), [EXCLUDED]),
        (BINDING, ("spec", "paramRef", "selector", "matchLabels"), {"a": "b"}),
        (BINDING, ("spec", "paramRef", "name"), "one"),
        (BINDING, ("spec", "validationActions", 1), "Audit"),
        (ROLE, ("rules", 3), {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}),
        (ROLE, ("rules", 0, "verbs", 2), "delete"),
        (CLUSTER_ROLE, ("rules", 1), {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}),
        (CLUSTER_ROLE, ("rules", 0, "nonResourceURLs"), ["/metrics"]),
        (CLUSTER_ROLE, ("aggregationRule",), {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}),
        (CLUSTER_ROLE, ("metadata", "labels", "rbac.authorization.k8s.io/aggregate-to-view"), "true"),
        (ROLE_BINDING, ("subjects", 1), {"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}),
        (CLUSTER_ROLE_BINDING, ("subjects", 1), {"kind": "Group", "name": "system:authenticated"}),
        (WATCHER, (*SPEC, "hostPID"), True),
        (WATCHER, (*SPEC, "hostNetwork"), True),
        (WATCHER, (*SPEC, "initContainers"), [SHELL]),
        (WATCHER, (*SPEC, "nodeSelector"), {"kubernetes.io/hostname": "mine"}),
        (WATCHER, (*SPEC, "tolerations"), [{"operator": "Exists"}]),
        (WATCHER, (*SPEC, "priorityClassName"), "system-node-critical"),
        (WATCHER, (*SPEC, "imagePullSecrets"), [{"name": "mine"}]),
        (WATCHER, (*SPEC, "hostAliases"), [{"ip": "192.0.2.1", "hostnames": ["git.example.com"]}]),
        (WATCHER, (*SPEC, "dnsConfig"), {"nameservers": ["192.0.2.1"]}),
        (WATCHER, (*SPEC, "containers", 1), SHELL),
        (WATCHER, (*SPEC, "volumes", 9), {"name": "root", "hostPath": {"path": "/", "type": ""}}),
        (WATCHER, (*SPEC, "serviceAccount"), "kae-driver"),
        (WATCHER, (*SPEC, "securityContext", "supplementalGroups"), [0]),
        (WATCHER, (*CONTAINER, "securityContext", "privileged"), True),
        (WATCHER, (*CONTAINER, "securityContext", "capabilities", "add"), ["SYS_ADMIN"]),
        (WATCHER, (*CONTAINER, "volumeMounts", 9), {"name": "root", "mountPath": "/host"}),
        (WATCHER, (*CONTAINER, "env", 9), {"name": "GIT_SSL_NO_VERIFY", "value": "1"}),
        (WATCHER, (*CONTAINER, "envFrom"), [{"secretRef": {"name": "a"}}]),
        (WATCHER, (*CONTAINER, "args"), ["--once"]),
        (WATCHER, (*CONTAINER, "lifecycle"), {"postStart": {"exec": {"command": ["sh"]}}}),
        (WATCHER, ("spec", "paused"), True),
        (WATCHER, ("spec", "template", "metadata", "labels", "app"), "web"),
        (WATCHER, ("spec", "template", "metadata", "annotations", "sidecar.istio.io/inject"), "true"),
        (DRIVER, (*SPEC, "nodeSelector"), {"kubernetes.io/hostname": "mine"}),
        (DRIVER, (*SPEC, "schedulerName"), "mine"),
        (DRIVER, (*SPEC, "hostIPC"), True),
        (RULE, ("spec", "rules", 0, "labelsTemplate"), "a=b"),
        (RULE, ("spec", "rules", 0, "taints"), [{"key": "a", "effect": "NoExecute"}]),
        (RULE, ("spec", "rules", 0, "matchAny"), [{"matchFeatures": []}]),
        (RULE, ("spec", "rules", 0, "extendedResources"), {"a.example.com/b": "1"}),
        (RULE, ("spec", "rules", 0, "labels"), {"a": "b"}),
    ],
)  # fmt: skip
def test_an_addition_is_seen_with_its_value(path: str, where: Path, value: Any) -> None:
    (change,) = drift.changes(*added(path, where, value))

    assert (change.wanted, change.live) == (None, value)


@pytest.mark.parametrize(
    ("path", "where", "value"),
    [
        (POLICY, ("spec", "matchConstraints", "namespaceSelector"), {}),
        (POLICY, ("spec", "matchConstraints", "objectSelector"), {}),
        (POLICY, ("status",), {"observedGeneration": 1, "typeChecking": {}}),
        (BINDING, ("spec", "matchResources", "namespaceSelector"), {}),
        (BINDING, ("spec", "matchResources", "objectSelector"), {}),
        (ROLE_BINDING, ("subjects", 0, "apiGroup"), ""),
        (CLUSTER_ROLE, ("aggregationRule",), None),
        (CLUSTER_ROLE, ("metadata", "uid"), "1"),
        (CLUSTER_ROLE, ("metadata", "labels", "argocd.argoproj.io/instance"), "kae"),
        (WATCHER, ("metadata", "annotations"), {"deployment.kubernetes.io/revision": "1"}),
        (WATCHER, ("spec", "progressDeadlineSeconds"), 600),
        (WATCHER, ("spec", "revisionHistoryLimit"), 10),
        (WATCHER, ("spec", "template", "metadata", "creationTimestamp"), None),
        (WATCHER, ("spec", "template", "metadata", "annotations", "kubectl.kubernetes.io/restartedAt"), "2026-01-01"),
        (WATCHER, (*SPEC, "dnsPolicy"), "ClusterFirst"),
        (WATCHER, (*SPEC, "restartPolicy"), "Always"),
        (WATCHER, (*SPEC, "schedulerName"), "default-scheduler"),
        (WATCHER, (*SPEC, "serviceAccount"), "kae-watcher"),
        (WATCHER, (*SPEC, "terminationGracePeriodSeconds"), 30),
        (WATCHER, (*CONTAINER, "resources"), {}),
        (WATCHER, (*CONTAINER, "terminationMessagePath"), "/dev/termination-log"),
        (WATCHER, (*CONTAINER, "ports", 0, "protocol"), "TCP"),
        (WATCHER, (*CONTAINER, "livenessProbe", "failureThreshold"), 3),
        (WATCHER, (*CONTAINER, "livenessProbe", "successThreshold"), 1),
        (WATCHER, (*SPEC, "volumes", 0, "downwardAPI", "defaultMode"), 420),
        (DRIVER, ("spec", "revisionHistoryLimit"), 10),
        (DRIVER, (*SPEC, "securityContext"), {}),
        (DRIVER, (*CONTAINER, "readinessProbe", "failureThreshold"), 3),
        (WATCHER, ("spec", "paused"), False),
        (DRIVER, ("spec", "minReadySeconds"), 0),
        (DRIVER, (*SPEC, "hostNetwork"), False),
        (DRIVER, (*SPEC, "setHostnameAsFQDN"), False),
        (DRIVER, (*CONTAINER, "tty"), False),
        (RULE, ("metadata", "generation"), 2),
        (DRIVER, ("status",), {"desiredNumberScheduled": 3}),
    ],
)  # fmt: skip
def test_what_the_api_server_fills_in_is_no_difference(path: str, where: Path, value: Any) -> None:
    wanted = rendered(path)
    live = copy.deepcopy(wanted)
    at(live, where[:-1])[where[-1]] = value
    at(wanted, where[:-1]).pop(where[-1], None)

    assert drift.changes(wanted, live) == ()


@pytest.mark.parametrize(
    ("place", "beside", "value"),
    [
        ("imagePullPolicy", {"image": "r.example.com:5000/a"}, "Always"),
        ("imagePullPolicy", {"image": "a:latest"}, "Always"),
        ("imagePullPolicy", {"image": "a:1"}, "IfNotPresent"),
        ("imagePullPolicy", {"image": "a@sha256:0"}, "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(place: str, beside: Mapping[str, Any], value: str) -> None:
    fields = drift.DEFAULTS["DaemonSet"]
    where = f"spec.template.spec.containers.*.{place}"

    filled = {policy: drift.is_filled_in(fields, where, policy, beside) for policy in ("Always", "IfNotPresent")}

    assert filled == {policy: policy == value for policy in filled}


def strict() -> Sequence[str]:
    """Return the paths of all objects of the example that are compared in every field."""
    files = trees.files("output/east")
    kinds = {path: yaml.load(files[path], yaml.CSafeLoader)["kind"] for path in files if path.count("/") == 1}
    return [path for path, kind in kinds.items() if path.endswith(".yaml") and kind in drift.DEFAULTS]


def test_guard_rights_rules_and_workloads_alone_are_compared_in_every_field() -> None:
    kinds = {rendered(path)["kind"] for path in strict()}

    assert kinds == {
        *("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "DaemonSet", "Deployment"),
        *("NodeFeatureRule", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    }
    assert drift.changes({"kind": "ConfigMap", "data": {}}, {"kind": "ConfigMap", "data": {"a": "b"}}) == ()
