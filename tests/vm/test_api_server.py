"""An installer in the guest and a real API server: it holds a Lease, evicts the pod that has a device, and swaps."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.conftest import control_plane, instance  # noqa: F401 - fixtures
from tests.cluster.control import certificates, pods
from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node
from tests.vm import host

NODE = "kae-vm"
POD = "default/user"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{driver_node.NAMESPACE}/leases/kae-driver-fleet-1"

KUBELET = f"""\
import pathlib, time
from tests.installer import podresources
with podresources.serving(pathlib.Path("/")) as kubelet:
    kubelet.give("{POD}", "main", "openfuyao.com/kae.zip", "0001:75:00.0")
    while not pathlib.Path("/run/pod-is-gone").exists():
        time.sleep(0.1)
    kubelet.remove("{POD}")
    time.sleep(1e6)
"""
"""Names the pod until a file is there."""


@pytest.fixture
def rights(
    control_plane: control_planes.ControlPlane,  # noqa: F811 - a fixture
    tmp_path: Path,
) -> Iterator[dict[str, Any]]:
    """The compiled rights in force, a node with a pod on it, and the kubeconfig of an installer's pod there."""
    objects = driver_node.compiled(tmp_path, fleet={"version": "2.0.2", "drain": {"timeoutSeconds": 120}})
    with contextlib.ExitStack() as stack:
        stack.enter_context(driver_node.applied(control_plane, objects))
        stack.callback(control_plane.kubectl, "delete", "node", NODE, "--ignore-not-found")
        control_plane.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        installers = pods.Namespace(name=driver_node.NAMESPACE, plane=control_plane)
        anything = {"nodeName": NODE, "tolerations": [{"operator": "Exists"}]}
        installers.apply(pods.pod("installer", "localhost/none", ["none"], serviceAccountName="kae-driver", **anything))
        pods.Namespace(name="default", plane=control_plane).apply(
            pods.pod("user", "localhost/none", ["none"], **anything)
        )
        token = installers.kubectl(
            *("create", "token", "kae-driver", "--bound-object-kind", "Pod", "--bound-object-name", "installer")
        )
        yield {
            "config": driver_node.config_of(driver_node.pod_of(driver_node.daemon_set(objects, "fleet"))),
            "kubeconfig": certificates.kubeconfig(control_plane.instance, token=token.strip()),
        }


def test_an_installer_takes_a_lease_and_evicts_the_pod_that_has_a_device(
    shared: host.Host,
    control_plane: control_planes.ControlPlane,  # noqa: F811 - a fixture
    rights: dict[str, Any],
) -> None:
    shared.have("2.0.1")
    shared.guest.wait_until("ip -4 route get 10.0.2.2")
    shared.guest.write("/etc/kae/kubeconfig", rights["kubeconfig"])
    shared.guest.write("/root/kubelet.py", KUBELET)
    shared.guest.run(f"systemd-run -q --unit=kubelet env {host.ENVIRONMENT} python3 /root/kubelet.py")
    shared.guest.wait_until("test -S /var/lib/kubelet/pod-resources/kubelet.sock")
    user = pods.Namespace(name="default", plane=control_plane)
    asked = {name: rights["config"][name] for name in ("daemonSet", "drain", "leases", "policy", "pool")}
    with shared.installing("2.0.2", options="--kubeconfig /etc/kae/kubeconfig", **asked) as installer:

        def is_evicted() -> bool:
            return "deletionTimestamp" in user.pod("user")["metadata"]

        waiting.until("the eviction", is_evicted)
        during = control_plane.api.get(LEASE)["spec"].get("holderIdentity")
        loaded = set(shared.loaded().values())
        # What a kubelet does when the containers have ended.
        shared.guest.run("touch /run/pod-is-gone")
        user.kubectl("delete", "pod", "user", "--force", "--grace-period=0")
        said = installer.wait_for_rest()
    after = control_plane.api.get(LEASE)["spec"].get("holderIdentity")

    assert said.state == "Ready", said
    assert during == NODE
    assert not after
    assert loaded == {"2.0.1"}
    assert set(shared.loaded().values()) == {"2.0.2"}
