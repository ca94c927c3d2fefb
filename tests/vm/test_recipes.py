"""Drivers of recipes on two real kernels: modules out of images as KMM has them, without a device, and with one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import driver_config
from tests.installer import settings, stacks
from tests.kube import apiserver
from tests.vm import artifacts, host, pods
from tests.vm.pods import SIMPLE

ONLOAD = ("sfc", "onload")
LEASE = settings.MINE
PARAMETERS = {"cplane_server_params": "-K -l", "quiet": True, "stacks": 4}

CARRY_TRAFFIC = (
    "ip link add team0 type bond mode active-backup; ip link set sfc0 master team0; ip link set team0 up;"
    " ip link add link team0 name team0.5 type vlan id 5; ip link add bridge0 type bridge;"
    " ip link set team0.5 up master bridge0; ip link set bridge0 up;"
    " ip addr add 192.0.2.1/24 dev bridge0; ip route add default via 192.0.2.254 metric 4000"
)
"""A default route over a bridge, over a VLAN, over a bond, over the interface of sfc."""


def install_simple(on: host.Host, version: str, kernel: str = "", **fields: Any) -> host.Said:
    image = f"simple-kmod-{version}-{kernel or on.guest.release}"
    with pods.running(on, pods.config(stacks.KMOD, version, **fields), {"modules": image}) as installer:
        return installer.wait_for_rest()


def have_simple(on: host.Host, version: str) -> None:
    """Have a version of simple-kmod installed: where a test begins."""
    if on.loaded(SIMPLE) != dict.fromkeys(SIMPLE, version):
        said = install_simple(on, version)
        assert said.state == "Ready", said


def other_kernel(parts: artifacts.Artifacts) -> str:
    return next(release for release in parts.kernels if release != parts.release)


def onload(version: str, **fields: Any) -> dict[str, Any]:
    nodes = ("/dev/onload", "/dev/onload_epoll")
    return pods.config(stacks.ONLOAD, version, nodes=nodes, module_parameters={"onload": PARAMETERS}, **fields)


def onload_images(on: host.Host, version: str) -> dict[str, str]:
    return {"modules": f"onload-module-{version}-{on.guest.release}", "user": f"onload-user-{version}"}


def install_onload(on: host.Host, version: str, **fields: Any) -> host.Said:
    with pods.running(on, onload(version, **fields), onload_images(on, version)) as installer:
        return installer.wait_for_rest()


def have_onload(on: host.Host, version: str) -> None:
    """Have a version of Onload installed, in place of the kernel's own driver: where a test begins."""
    if on.loaded(ONLOAD) != dict.fromkeys(ONLOAD, version):
        if not on.loaded(ONLOAD):
            have_in_tree_sfc(on)
        said = install_onload(on, version)
        assert said.state == "Ready", said


def have_in_tree_sfc(on: host.Host) -> None:
    """Have the kernel's own network driver loaded, and no Onload."""
    release = on.guest.release
    if on.loaded(ONLOAD) == {"sfc": "5.3"}:
        return
    if "onload" in on.loaded(ONLOAD):
        assert install_onload(on, "8.1", state="Absent").state == "Ready"
    own = f"/lib/modules/{release}/kernel/drivers/net/ethernet/sfc/sfc.ko"
    on.guest.run(f"install -D {pods.KMODS}/in-tree-{release}/opt/lib/modules/{release}/sfc.ko {own}")
    on.guest.run("depmod && modprobe sfc")
    assert on.loaded(ONLOAD) == {"sfc": "5.3"}


def onload_files(on: host.Host) -> list[str]:
    return [path for path in on.files() if "onload" in path or "sfc" in path]


def user_space(on: host.Host) -> list[str]:
    return on.guest.ask("/opt/onload/usr/bin/onload; cat /opt/onload/usr/lib64/libonload.so").output.split()


def order(on: host.Host) -> list[str]:
    return [
        line.rpartition("] ")[2] for line in on.guest.kernel_log().splitlines() if line.endswith((" begins", " ends"))
    ]


@pytest.fixture
def api(shared: host.Host, tmp_path: Path) -> Iterator[apiserver.ApiServer]:
    """An API server with the policy's Lease, which the guest's /etc/kae/kubeconfig names."""
    server = apiserver.ApiServer(tmp_path)
    server.put_lease(LEASE, namespace=pods.NAMESPACE)
    # The guest's network has this machine's loopback interface at this address.
    shared.guest.wait_until("ip -4 route get 10.0.2.2")
    shared.guest.write("/etc/kae/kubeconfig", server.kubeconfig.read_text().replace("127.0.0.1", "10.0.2.2"))
    yield server
    server.down()


@pytest.mark.short
def test_modules_out_of_an_image_are_loaded_with_their_parameters(shared: host.Host) -> None:
    said = install_simple(shared, "1.0")

    assert said.state == "Ready", said
    assert shared.loaded(SIMPLE) == dict.fromkeys(SIMPLE, "1.0")
    assert shared.guest.read("/proc/simple-procfs-kmod") == "simple-procfs-kmod number = 7\n"


def test_a_swap_loads_the_modules_of_another_version_which_are_compressed_by_xz(shared: host.Host) -> None:
    have_simple(shared, "1.0")

    said = install_simple(shared, "1.1")

    assert said.state == "Ready", said
    assert shared.loaded(SIMPLE) == dict.fromkeys(SIMPLE, "1.1")
    assert shared.guest.read("/proc/simple-procfs-kmod") == "simple-procfs-kmod number = 7\n"


def test_modules_of_another_kernel_are_refused_before_anything_is_touched(
    shared: host.Host, parts: artifacts.Artifacts
) -> None:
    have_simple(shared, "1.1")

    said = install_simple(shared, "1.0", kernel=other_kernel(parts))

    assert said.state == "Failed", said
    assert f"for the running kernel {parts.release}; they have: {other_kernel(parts)}." in said.message
    assert shared.loaded(SIMPLE) == dict.fromkeys(SIMPLE, "1.1")


def test_modules_that_lie_in_the_folder_of_a_kernel_that_is_not_theirs_are_refused(
    shared: host.Host, parts: artifacts.Artifacts
) -> None:
    have_simple(shared, "1.1")

    said = install_simple(shared, "mixed")

    assert said.state == "Failed", said
    assert f"was built for kernel {other_kernel(parts)}; the node runs {parts.release}" in said.message
    assert shared.loaded(SIMPLE) == dict.fromkeys(SIMPLE, "1.1")


@pytest.mark.short
def test_a_module_that_the_kernel_refuses_is_rolled_back(shared: host.Host) -> None:
    have_simple(shared, "1.1")

    said = install_simple(shared, "1.2")

    assert said.state == "Failed", said
    assert "Module simple_procfs_kmod cannot be loaded: it was built against another kernel" in said.message
    assert "The host is back in its previous state." in said.message
    assert shared.loaded(SIMPLE) == dict.fromkeys(SIMPLE, "1.1")
    assert shared.guest.read("/proc/simple-procfs-kmod") == "simple-procfs-kmod number = 7\n"


def test_a_driver_under_the_hosts_own_traffic_stays(shared: host.Host) -> None:
    have_in_tree_sfc(shared)
    shared.guest.run(f"set -e; {CARRY_TRAFFIC}")

    said = install_onload(shared, "8.1")
    shared.guest.run("ip link del bridge0 && ip link del team0")

    assert said.state == "Blocked", said
    assert "bridge0" in said.message
    assert shared.loaded(ONLOAD) == {"sfc": "5.3"}


def test_a_driver_takes_the_place_of_the_kernels_own_and_brings_its_user_space(shared: host.Host) -> None:
    have_in_tree_sfc(shared)

    said = install_onload(shared, "8.1")

    assert said.state == "Ready", said
    assert shared.loaded(ONLOAD) == dict.fromkeys(ONLOAD, "8.1")
    assert order(shared)[-3:] == ["sfc 5.3 ends", "sfc 8.1 begins", "onload 8.1 begins"]
    assert shared.guest.ask("test -c /dev/onload -a -c /dev/onload_epoll").code == 0
    assert user_space(shared) == ["8.1", "8.1"]
    said_by_kernel = shared.guest.run(f"cd /sys/module/onload/parameters && cat {' '.join(sorted(PARAMETERS))}")
    assert said_by_kernel == "-K -l\nY\n4\n"


@pytest.mark.short
def test_a_swap_waits_under_its_lease_for_the_process_that_has_a_device_open(
    shared: host.Host, api: apiserver.ApiServer
) -> None:
    have_onload(shared, "8.1")
    unit = shared.open("onload")
    wanted = onload("8.2", drain=driver_config.Drain(timeout_seconds=300))

    with pods.running(shared, wanted, onload_images(shared, "8.2"), "--kubeconfig /etc/kae/kubeconfig") as installer:
        installer.wait_for_step("drain-devices")
        loaded, files = shared.loaded(ONLOAD), user_space(shared)
        holder = api.lease(LEASE, pods.NAMESPACE).get("holderIdentity")
        shared.guest.run(f"systemctl kill -s KILL {unit}")
        said = installer.wait_for_rest()

    assert said.state == "Ready", said
    assert loaded == dict.fromkeys(ONLOAD, "8.1")
    assert files == ["8.1", "8.1"]
    assert holder == "kae-vm"
    assert shared.loaded(ONLOAD) == dict.fromkeys(ONLOAD, "8.2")
    assert order(shared)[-4:] == ["onload 8.1 ends", "sfc 8.1 ends", "sfc 8.2 begins", "onload 8.2 begins"]
    assert user_space(shared) == ["8.2", "8.2"]
    assert not api.lease(LEASE, pods.NAMESPACE).get("holderIdentity")


def test_a_driver_that_fails_gives_its_place_back_with_the_user_space_of_before(shared: host.Host) -> None:
    have_onload(shared, "8.2")

    said = install_onload(shared, "8.3")

    assert said.state == "Failed", said
    assert "The host is back in its previous state." in said.message
    assert shared.loaded(ONLOAD) == dict.fromkeys(ONLOAD, "8.2")
    assert user_space(shared) == ["8.2", "8.2"]


def test_an_absent_policy_gives_the_kernels_own_driver_back_and_leaves_nothing(shared: host.Host) -> None:
    have_onload(shared, "8.2")

    said = install_onload(shared, "8.2", state="Absent")

    assert said.state == "Ready", said
    assert shared.loaded(ONLOAD) == {"sfc": "5.3"}
    assert onload_files(shared) == []


def test_a_driver_that_fails_on_a_host_without_one_leaves_the_kernels_own_loaded(shared: host.Host) -> None:
    have_in_tree_sfc(shared)

    said = install_onload(shared, "8.3")

    assert said.state == "Failed", said
    assert shared.loaded(ONLOAD) == {"sfc": "5.3"}
    assert onload_files(shared) == []


def test_another_kernel_gets_modules_which_go_with_the_policy(shared: host.Host, parts: artifacts.Artifacts) -> None:
    have_simple(shared, "1.1")
    shared.boot_kernel(other_kernel(parts))
    assert shared.loaded(SIMPLE) == {}

    states, loaded = [], []
    for version in ("1.0", "1.1", "1.2"):
        states.append(install_simple(shared, version).state)
        loaded.append(shared.loaded(SIMPLE))
    removed = install_simple(shared, "1.1", state="Absent")

    assert states == ["Ready", "Ready", "Failed"]
    assert removed.state == "Ready"
    assert loaded == [dict.fromkeys(SIMPLE, version) for version in ("1.0", "1.1", "1.1")]
    assert shared.loaded(SIMPLE) == {}
    assert shared.files() == []
    assert shared.guest.ask("test -e /proc/simple-procfs-kmod").code == 1
