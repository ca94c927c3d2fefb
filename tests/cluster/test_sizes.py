"""The largest DaemonSets that compile, before the real API server: they are taken, and their controller makes pods."""

import copy
import json
import time
from typing import Any

import pytest

from compiler.fleet import definitions
from tests import builders
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import pods
from tests.cluster.local import waiting

ROOM = 34 << 10
"""What is left of a limit for the rest of a DaemonSet, and for a few bytes more."""


def largest(engine: str, limit: int, namespace: str) -> Any:
    where = builders.cluster(gitops={"engine": engine}, kubernetesVersion="1.31")
    policies: list[definitions.Policy] = builders.excluding(limit - ROOM)
    item = builders.objects(policies, (), where)["device-plugin/daemonset-kae-device-plugin-rest.yaml"]
    item["metadata"]["namespace"] = namespace
    return item


def larger(item: Any, by: float) -> Any:
    changed = copy.deepcopy(item)
    terms = changed["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    for term in terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]:
        values = term["matchExpressions"][-1]["values"]
        values.extend(value.replace("kp920", "kp921") for value in values[: int((by - 1) * len(values))])
    return changed


def copies(plane: control_planes.ControlPlane, namespace: str) -> list[str]:
    copied = plane.api.get(f"/apis/apps/v1/namespaces/{namespace}/controllerrevisions")["items"]
    return [item["metadata"]["name"] for item in copied]


def applied(plane: control_planes.ControlPlane, item: Any) -> Any:
    path = f"/apis/apps/v1/namespaces/{item['metadata']['namespace']}/daemonsets/{item['metadata']['name']}"
    return plane.api.apply(path, json.dumps(item), "kae")


def test_the_controller_copies_the_template_of_the_largest_daemonset_but_no_larger(
    control_plane: control_planes.ControlPlane, namespace: pods.Namespace
) -> None:
    item = largest("none", 1536 << 10, namespace.name)
    over = larger(item, 1.03)
    over["metadata"]["name"] = "over"

    # It is taken, as the API server keeps a DaemonSet more tightly than its template's copy.
    assert [applied(control_plane, one).status for one in (over, item)] == [201, 201]

    waiting.until("the copy", lambda: copies(control_plane, namespace.name))
    time.sleep(3)
    assert [name.rpartition("-")[0] for name in copies(control_plane, namespace.name)] == ["kae-device-plugin-rest"]
    answer = applied(control_plane, larger(item, 1.3))
    assert (answer.status, answer.body["message"]) == (500, "etcdserver: request is too large")


def test_the_largest_daemonset_for_argo_cd_is_applied_client_side_but_no_larger_one(
    control_plane: control_planes.ControlPlane, namespace: pods.Namespace
) -> None:
    item = largest("argocd", 256 << 10, namespace.name)

    control_plane.kubectl("apply", "-f", "-", text=json.dumps(item))
    with pytest.raises(control_planes.KubectlFailed, match="Too long: may not be more than 262144 bytes"):
        control_plane.kubectl("apply", "-f", "-", text=json.dumps(larger(item, 1.15)))
