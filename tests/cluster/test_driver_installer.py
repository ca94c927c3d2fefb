"""The driver installer on a real node: its image, its compiled DaemonSet, the real kubelet; the host is a folder."""

import sys
import time
from collections.abc import Iterator

import pytest

from installer.host import record
from tests.cluster.control import objects as kinds
from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import driver_node, driver_pods
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.cluster.nodes.driver_pods import EMPTY, NEW, OLD, Deployed
from tests.installer import homes, settings


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    # With the right to ask for its DaemonSet, which only a policy that cleans up has; `apply` turns the clean-up off.
    driver = {"enabledCleanup": True, "drain": {"timeoutSeconds": 60}}
    with driver_pods.deployed(node, images, tmp_path_factory.mktemp("resident"), driver) as made:
        yield made


def test_the_pod_is_ready_when_its_host_has_the_driver(deployed: Deployed) -> None:
    name = deployed.install(OLD)

    status, plan = (deployed.run(name, command) for command in ("status", "plan"))

    assert settings.versions(deployed.machine) == {OLD}
    assert set(deployed.machine.nodes().values()) == {0o666}
    assert f"Driver    {OLD} from prebuilt" in status
    assert plan.endswith("is loaded and verified.\n")


def test_a_new_version_is_rolled_out_and_the_users_are_evicted(
    deployed: Deployed, node: nodes.Node, namespace: pods.Namespace
) -> None:
    old = deployed.install(OLD)

    with driver_node.holding(deployed.kubelet, namespace, node) as holder:
        new = deployed.apply(NEW)
        namespace.wait_for_end(holder)
        before = settings.versions(deployed.machine)
    deployed.namespace.wait_for_ready(new)

    assert before == {OLD}
    assert settings.versions(deployed.machine) == {NEW}
    deployed.namespace.wait_for_end(old)


def test_a_pod_that_cannot_bring_its_driver_says_why_and_leaves_the_one_before(deployed: Deployed) -> None:
    deployed.install(OLD)

    name = deployed.apply(EMPTY)
    reason = f"The image holds no modules for the running kernel {deployed.machine.kernel}; it has: none."
    deployed.namespace.wait_for_event(name, reason)

    assert kinds.condition(deployed.namespace.pod(name)) == "False"
    assert settings.versions(deployed.machine) == {OLD}
    assert f"The installed driver is prebuilt {OLD}" in deployed.run(name, "plan")


def test_modules_that_a_person_unloads_are_loaded_again(deployed: Deployed) -> None:
    # A pod that found its host right: what it repairs is no repair a moment after another.
    deployed.namespace.kubectl("delete", "pod", deployed.install(OLD), "--wait=true")
    deployed.install(OLD)
    began_s = time.monotonic()
    deployed.machine.unload()

    waiting.until("the repair", lambda: settings.versions(deployed.machine) == {OLD}, timeout_s=120)

    sys.stdout.write(f"rmmod: {time.monotonic() - began_s:.1f} s\n")


def test_the_driver_stays_when_the_daemon_set_is_deleted(deployed: Deployed) -> None:
    deployed.install(OLD)

    deployed.delete()

    assert settings.versions(deployed.machine) == {OLD}
    assert record.read(deployed.machine.host).installed is not None


def test_the_driver_goes_with_the_daemon_set_where_that_was_asked_for(deployed: Deployed) -> None:
    deployed.install(OLD, enabledCleanup=True)

    deployed.delete()

    assert deployed.machine.loaded() == {}
    assert record.read(deployed.machine.host).installed is None
    assert not deployed.machine.host.path(homes.KAE.changing).exists()
