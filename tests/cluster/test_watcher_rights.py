"""The watcher's token on a real API server may read nodes, and nothing else."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.cluster import watchers
from tests.cluster.control import access

OWN, APPS = "/api/v1/namespaces/kae-operator", "/apis/apps/v1/namespaces/kae-operator"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"


@pytest.mark.usefixtures("four_nodes")
@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", watchers.NODES, {"metadata": {"name": "z"}}),
        ("PATCH", f"{watchers.NODES}/a", {"metadata": {"labels": {"x": "y"}}}),
        ("PATCH", f"{watchers.NODES}/a/status", {"status": {}}),
        ("GET", f"{watchers.NODES}/a", None),
        ("GET", f"{watchers.NODES}/a/proxy/pods", None),
        ("DELETE", watchers.NODES, None),
        ("GET", "/api/v1/pods", None),
        ("POST", f"{OWN}/pods", {"metadata": {"name": "x"}}),
        ("GET", f"{OWN}/secrets/git", None),
        ("POST", f"{OWN}/serviceaccounts/kae-driver/token", {"spec": {}}),
        ("PATCH", f"{APPS}/deployments/kae-watcher", {"spec": {"replicas": 0}}),
        ("GET", f"{LEASES}/kube-node-lease/leases/a", None),
        ("PATCH", f"{RBAC}/clusterroles/kae-watcher", {"rules": []}),
        ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": {"user": "admin"}}),
        ("GET", "/metrics", None),
    ],
)
def test_everything_but_reading_nodes_is_refused(
    method: str, path: str, body: Mapping[str, Any] | None, installed: watchers.Installed
) -> None:
    assert installed.caller.request(method, path, body).status == 403


def test_the_api_server_lists_no_further_right(installed: watchers.Installed) -> None:
    assert access.rules(installed.caller, watchers.OWN) == {(verb, "nodes", "") for verb in ("list", "watch")}
