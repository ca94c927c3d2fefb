"""Mode and group of the device nodes of a driver that others installed."""

import errno
import os
from pathlib import Path

import pytest

from device_plugin import plugin
from runtime import shapes
from tests import tools
from tests.device_plugin import hosts, machines, settings


@pytest.fixture(autouse=True)
def _is_root() -> None:
    tools.require_root("it makes device nodes")


A = "0000:79:00.0"
WANTED = shapes.DeviceNodes(mode="0660", group=994)


def modes(host: hosts.Host) -> set[tuple[int, int]]:
    return {(node.lstat().st_mode & 0o7777, node.lstat().st_gid) for node in host.dev.iterdir()}


async def test_nodes_get_their_mode_and_group_and_so_does_one_that_comes_later(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path, mknod=True)
    node = plugin.Plugin(settings.where(host), settings.settings(*settings.every(device_nodes=WANTED)))

    await node.look()
    assert modes(host) == {(0o660, 994)}

    host.unplug(A)
    host.replug(A)
    await node.look()
    assert modes(host) == {(0o660, 994)}


async def test_without_the_setting_nodes_stay_as_they_are(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path, mknod=True)
    before = modes(host)

    await plugin.Plugin(settings.where(host), settings.settings()).look()

    assert modes(host) == before


async def test_nodes_of_a_driver_that_is_being_changed_stay_as_the_installer_has_them(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path, mknod=True)
    before = modes(host)
    host.set_driver_changing("upgrade")

    await plugin.Plugin(settings.where(host), settings.settings(*settings.every(device_nodes=WANTED))).look()

    assert modes(host) == before


async def test_what_a_link_leads_to_stays_as_it_is(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    before = Path("/dev/null").stat()

    await plugin.Plugin(settings.where(host), settings.settings(*settings.every(device_nodes=WANTED))).look()

    assert (Path("/dev/null").stat().st_mode, Path("/dev/null").stat().st_gid) == (before.st_mode, before.st_gid)


async def test_a_node_that_the_host_keeps_as_it_is_makes_its_device_unhealthy_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = machines.bare_metal(tmp_path, mknod=True)
    chmod = Path.chmod

    def of_another_owner(path: Path, mode: int) -> None:
        # As for root without capabilities where the node belongs to another user (chmod(2)).
        if path == host.node(A):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))
        chmod(path, mode)

    monkeypatch.setattr(Path, "chmod", of_another_owner)
    node = plugin.Plugin(settings.where(host), settings.settings(*settings.every(device_nodes=WANTED)))
    await node.look()

    assert {device.function.address: [reason.text for reason in device.reasons] for device in node.devices} == {
        **{address: [] for address in host.states()},
        A: ["/dev/hisi_hpre-2 cannot get mode 0660 and group 994 (Operation not permitted): it has to belong to root."],
    }
    assert modes(host) == {(0o660, 994), (0o600, 994)}


async def test_a_node_is_permitted_before_kubelets_hear_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = machines.bare_metal(tmp_path, mknod=True)
    node = plugin.Plugin(settings.where(host), settings.settings(*settings.every(device_nodes=WANTED)))
    told: list[set[tuple[int, int]]] = []
    for shown in node.device_lists.values():
        monkeypatch.setattr(shown, "show", lambda _: told.append(modes(host)))

    await node.look()

    assert told == [{(0o660, 994)}] * 3
