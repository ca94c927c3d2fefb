"""Pods with and without mistakes before the real API server: it refuses those that the compiler refuses."""

import copy
import json

import pytest

from tests.cluster.control import control_plane as control_planes
from tests.compiler.checks import pod_table

PODS = "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict"


def complete(pod: pod_table.Pod) -> pod_table.Pod:
    """Return a pod of the table with what every pod has to have."""
    made = copy.deepcopy(pod)
    wanted = set[str]()
    for each in made["containers"]:
        each["image"] = "registry.example.com/main:1"
        wanted |= {mount["name"] for mount in each.get("volumeMounts", ())}
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            if name in each and each[name].keys().isdisjoint({"httpGet", "tcpSocket"}):
                each[name]["exec"] = {"command": ["true"]}
    volumes = made.setdefault("volumes", [])
    volumes += [{"name": name, "emptyDir": {}} for name in sorted(wanted - {each["name"] for each in volumes})]
    return made


def test_the_api_server_refuses_and_takes_the_pods_that_the_compiler_does(
    control_plane: control_planes.ControlPlane,
) -> None:
    def answer(pod: pod_table.Pod) -> int:
        data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "main"}, "spec": complete(pod)}
        return control_plane.api.request("POST", PODS, data).status

    taken = [(place, words) for pod, place, words in pod_table.REFUSED if answer(pod) < 400]
    refused = [pod for pod in (*pod_table.TAKEN, *(pod for pod, _, _ in pod_table.NOT_RUN)) if answer(pod) != 201]
    assert (taken, refused) == ([], [])


@pytest.mark.parametrize("pod", [pod for pod, _, _ in pod_table.UNMERGED])
def test_server_side_apply_refuses_what_a_list_has_twice(
    control_plane: control_planes.ControlPlane, pod: pod_table.Pod
) -> None:
    data = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "main"}, "spec": complete(pod)}

    with pytest.raises(control_planes.KubectlFailed, match="duplicate entries"):
        control_plane.kubectl("apply", "--server-side", "--dry-run=server", "-f", "-", text=json.dumps(data))
