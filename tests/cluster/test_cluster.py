"""The cluster does what the other tests assume."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cluster.control import pods
from tests.cluster.local import instances, programs
from tests.cluster.nodes import archives
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes

SLEEP = ("sleep", "600")


def budget(name: str, app: str) -> dict[str, object]:
    """Return a disruption budget that forbids every eviction of these pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }


def test_the_node_is_ready_and_runs_the_pinned_kubelet(node: nodes.Node) -> None:
    version = programs.SETS[0].version()

    found = node.describe()

    assert node.is_ready()
    assert found["status"]["nodeInfo"]["kubeletVersion"] == version
    assert node.allocatable("pods") == node.capacity("pods") == 110
    assert node.allocatable("example.com/none") is None


def test_a_pod_in_the_hosts_network_runs_and_its_log_can_be_read(debian: str, namespace: pods.Namespace) -> None:
    namespace.apply(pods.pod("hello", debian, ["python3", "-c", "print('hello')"], hostNetwork=True))

    found = namespace.wait_for_phase("hello", "Succeeded")

    assert found["status"]["podIP"] == namespace.plane.instance.address
    assert namespace.logs("hello") == "hello\n"
    assert any(event.startswith("Started:") for event in namespace.events("hello"))


def test_a_pod_of_its_own_network_is_probed_by_exec_and_reaches_the_api(debian: str, namespace: pods.Namespace) -> None:
    probe = {"exec": {"command": ["cat", "/etc/hostname"]}, "periodSeconds": 1}
    ask = "import os, socket; socket.create_connection((os.environ['KUBERNETES_SERVICE_HOST'], 443), 5); print('there')"

    namespace.apply(pods.pod("own", debian, SLEEP, container={"readinessProbe": probe}))
    found = namespace.wait_for_ready("own")

    assert found["status"]["podIP"].startswith(namespace.plane.instance.pods.rpartition(".")[0])
    assert namespace.run("own", "python3", "-c", ask) == "there\n"


def test_a_restart_of_the_kubelet_leaves_pods_alone(node: nodes.Node, debian: str, namespace: pods.Namespace) -> None:
    namespace.apply(pods.pod("stays", debian, SLEEP))
    before = namespace.wait_for_ready("stays")

    took = node.restart_kubelet()
    after = namespace.wait_for_ready("stays")

    assert 0 < took.stopped_s < took.healthy_s <= took.settled_s < 30
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["status"]["containerStatuses"] == before["status"]["containerStatuses"]
    assert namespace.run("stays", "echo", "still here") == "still here\n"


def test_a_disruption_budget_forbids_eviction_until_it_is_gone(debian: str, namespace: pods.Namespace) -> None:
    namespace.apply(budget("none", "kept"), pods.pod("kept", debian, SLEEP))
    namespace.wait_for_ready("kept")

    refused = namespace.evict("kept")
    namespace.kubectl("delete", "poddisruptionbudget", "none")
    allowed = namespace.evict("kept")

    assert (refused, allowed) == (429, 201)


def test_layers_of_an_image_lie_upon_one_another(
    images: image_store.Images, namespace: pods.Namespace, tmp_path: Path
) -> None:
    debian = image_store.debian_root(("kmod", "python3"))
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hostname.txt").write_text("ours\n")

    image = images.build("example.com/layered:1.0.0", debian, tmp_path, WorkingDir="/etc")
    namespace.apply(pods.pod("layered", image, ["cat", "hostname.txt", "debian_version"]))
    namespace.wait_for_phase("layered", "Succeeded")

    assert namespace.logs("layered").splitlines()[0] == "ours"


@pytest.mark.parametrize("write", [archives.docker, archives.oci], ids=["docker", "oci"])
def test_an_archive_is_loaded_under_the_name_that_is_asked_for(
    write: Callable[[Path, Path], Path], images: image_store.Images, namespace: pods.Namespace, tmp_path: Path
) -> None:
    name = f"example.com/{write.__name__}:2.0.0"
    archive = write(tmp_path, image_store.pause_root(tmp_path / "root"))

    images.load(name, archive)
    namespace.apply(pods.pod("archived", name, ["/pause"]))

    namespace.wait_for_ready("archived")


def test_what_the_node_writes_stays_in_the_state_of_the_cluster(
    node: nodes.Node, debian: str, namespace: pods.Namespace
) -> None:
    folder = {"name": "run", "hostPath": {"path": "/run/cluster-test", "type": "DirectoryOrCreate"}}
    mount = {"volumeMounts": [{"name": "run", "mountPath": "/out"}]}

    namespace.apply(pods.pod("writes", debian, ["touch", "/out/written"], volumes=[folder], container=mount))
    namespace.wait_for_phase("writes", "Succeeded")

    assert (node.path("/run/cluster-test") / "written").exists()
    assert node.run("ls", "/run/cluster-test") == "written\n"
    assert not Path("/run/cluster-test").exists()
    assert node.name == instances.NODE
