"""The watcher's token on a real API server may read nodes, and nothing else."""

import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.cluster import watchers


@pytest.fixture
def nodes(installed: watchers.Installed) -> Iterator[watchers.Nodes]:
    """The nodes a, b, c and d, and no others."""
    with watchers.four(installed.plane) as made:
        yield made


@pytest.fixture
def caller(installed: watchers.Installed) -> Iterator[watchers.Caller]:
    with contextlib.closing(watchers.Caller(installed)) as made:
        yield made


@pytest.mark.usefixtures("nodes")
def test_everything_but_reading_nodes_is_refused(caller: watchers.Caller) -> None:
    own, rbac = f"/api/v1/namespaces/{watchers.OWN}", "/apis/rbac.authorization.k8s.io/v1"
    node = {"metadata": {"name": "z"}}
    patch: Mapping[str, Any] = {"metadata": {"labels": {"x": "y"}}}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    lease = {"metadata": {"name": "kae-watcher"}}
    requests: list[tuple[str, str, Mapping[str, Any] | None]] = [
        ("POST", watchers.NODES, node),
        ("PUT", f"{watchers.NODES}/a", {"metadata": {"name": "a"}}),
        ("PATCH", f"{watchers.NODES}/a", patch),
        ("PATCH", f"{watchers.NODES}/a", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}}),
        ("PATCH", f"{watchers.NODES}/a/status", {"status": {}}),
        ("GET", f"{watchers.NODES}/a/status", None),
        ("GET", f"{watchers.NODES}/a/proxy/pods", None),
        ("DELETE", f"{watchers.NODES}/a", None),
        ("DELETE", watchers.NODES, None),
        ("GET", "/api/v1/pods", None),
        ("GET", f"{own}/pods", None),
        ("POST", f"{own}/pods", {"metadata": {"name": "x"}}),
        ("GET", "/api/v1/secrets", None),
        ("GET", f"{own}/secrets", None),
        ("GET", f"{own}/secrets/git", None),
        ("GET", f"{watchers.NODES}/a", None),
        ("GET", f"{own}/configmaps", None),
        ("POST", f"{own}/configmaps", {"metadata": {"name": "x"}}),
        ("POST", f"{own}/events", {"metadata": {"name": "x"}}),
        ("GET", f"{own}/serviceaccounts", None),
        ("POST", f"{own}/serviceaccounts/kae-watcher/token", {"spec": {}}),
        ("POST", f"{own}/serviceaccounts/kae-driver/token", {"spec": {}}),
        ("GET", "/api/v1/namespaces", None),
        ("GET", "/apis/apps/v1/daemonsets", None),
        ("GET", f"/apis/apps/v1/namespaces/{watchers.OWN}/deployments/kae-watcher", None),
        ("PATCH", f"/apis/apps/v1/namespaces/{watchers.OWN}/deployments/kae-watcher", {"spec": {"replicas": 0}}),
        ("POST", f"/apis/coordination.k8s.io/v1/namespaces/{watchers.OWN}/leases", lease),
        ("GET", f"/apis/coordination.k8s.io/v1/namespaces/{watchers.OWN}/leases", None),
        ("GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a", None),
        ("GET", f"{rbac}/clusterroles", None),
        ("PATCH", f"{rbac}/clusterroles/kae-watcher", {"rules": []}),
        ("POST", f"{rbac}/clusterrolebindings", {"metadata": {"name": "x"}, "roleRef": role}),
        ("GET", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", None),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "admin"}}),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
        ("GET", "/metrics", None),
        ("GET", "/logs/", None),
    ]

    answers = {
        f"{method} {path} {json.dumps(body)}": caller.asks(method, path, body) for method, path, body in requests
    }

    assert {request: status for request, status in answers.items() if status != 403} == {}
    assert len(answers) == len(requests)
    reads = (watchers.NODES, f"{watchers.NODES}?watch=true&timeoutSeconds=1")
    assert {path: caller.asks("GET", path) for path in reads} == dict.fromkeys(reads, 200)


def test_no_other_verb_and_no_other_resource_is_allowed(caller: watchers.Caller) -> None:
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "impersonate", "*")
    things = (
        *(("", name) for name in ("nodes", "nodes/status", "nodes/proxy", "nodes/metrics", "nodes/log", "nodes/stats")),
        *(("", name) for name in ("pods", "pods/log", "pods/exec", "pods/eviction", "pods/binding")),
        *(("", name) for name in ("secrets", "configmaps", "events", "services", "namespaces", "endpoints")),
        *(("", name) for name in ("serviceaccounts", "serviceaccounts/token", "persistentvolumes", "users", "*")),
        *(("apps", name) for name in ("daemonsets", "deployments", "deployments/scale", "statefulsets")),
        *(("batch", name) for name in ("jobs", "cronjobs")),
        *(("rbac.authorization.k8s.io", name) for name in ("clusterroles", "clusterrolebindings", "roles")),
        ("coordination.k8s.io", "leases"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("apiextensions.k8s.io", "customresourcedefinitions"),
        ("certificates.k8s.io", "certificatesigningrequests"),
        ("device.openfuyao.com", "kaepolicies"),
        ("nfd.k8s-sigs.io", "nodefeatures"),
        ("nfd.k8s-sigs.io", "nodefeaturerules"),
        ("*", "*"),
    )

    allowed = {
        (verb, group, thing)
        for verb, (group, thing) in itertools.product(verbs, things)
        if caller.may(
            verb=verb,
            group=group,
            resource=thing.partition("/")[0],
            subresource=thing.partition("/")[2],
            namespace="" if thing.startswith(("nodes", "namespaces")) else watchers.OWN,
        )
    }

    assert allowed == {(verb, "", "nodes") for verb in ("list", "watch")}


def test_the_api_server_lists_no_further_right(caller: watchers.Caller) -> None:
    rules = caller.reviews("selfsubjectrulesreviews", {"namespace": watchers.OWN})

    resources = {
        (verb, group, resource)
        for rule in rules["resourceRules"]
        for verb, group, resource in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"])
    }
    # Every authenticated user may ask for its own name and rights (system:basic-user).
    everybody = {entry for entry in resources if entry[1] in ("authorization.k8s.io", "authentication.k8s.io")}
    assert resources - everybody == {(verb, "", "nodes") for verb in ("list", "watch")}
    assert {(verb, resource.startswith("selfsubject")) for verb, _, resource in everybody} == {("create", True)}
    assert {verb for rule in rules["nonResourceRules"] for verb in rule["verbs"]} == {"get"}
