"""The cluster does what the other tests assume."""

from pathlib import Path

from tests.cluster.control import pods
from tests.cluster.local import instances, programs
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes


def test_the_node_is_ready_and_runs_the_pinned_kubelet(node: nodes.Node) -> None:
    info = node.describe()["status"]["nodeInfo"]

    assert info["kubeletVersion"] == programs.SETS[0].version()
    assert node.allocatable("pods") == node.capacity("pods") == 110
    assert node.allocatable("example.com/none") is None


def test_a_pod_has_a_network_is_probed_by_exec_reaches_the_api_and_logs(debian: str, namespace: pods.Namespace) -> None:
    ask = "import os, socket; socket.create_connection((os.environ['KUBERNETES_SERVICE_HOST'], 443), 30)"
    command = ["python3", "-c", f"{ask}; print('there', flush=True); import time; time.sleep(600)"]
    probe = {"exec": {"command": ["cat", "/etc/hostname"]}, "periodSeconds": 1}

    namespace.apply(pods.pod("own", debian, command, container={"readinessProbe": probe}))
    address = namespace.wait_for_ready("own")["status"]["podIP"]

    assert address.startswith(namespace.plane.instance.pods.rpartition(".")[0])
    namespace.wait_for_event("own", "Started: ")
    namespace.wait_for_log("own", "there\n")


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
