"""A device plugin on a host whose /run takes nothing more: a real disk, in memory, with few inodes."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from device_plugin import plugin
from device_plugin.host import paths
from runtime import device_plugin_config as config
from tests import tools
from tests.cluster.local import machine as mounts
from tests.device_plugin import hosts, machines, settings
from tests.host import disks, roots

A = "0000:79:00.0"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[hosts.Host]:
    tools.require_cluster(roots.obstacles())
    made = machines.bare_metal(tmp_path)
    options = "nr_inodes=200,mode=755"
    subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(made.run)), check=True, timeout=30)
    try:
        yield made
    finally:
        mounts.unmount(made.run)


def look(node: plugin.Plugin) -> dict[str, bool]:
    asyncio.run(node.look())
    return settings.told(node)


def test_a_link_that_cannot_be_made_makes_its_device_unhealthy_and_no_other(host: hosts.Host) -> None:
    node = settings.looked(host)
    sound = settings.told(node)
    (node.where.links / "hisi_hpre-30976").unlink()
    disks.take_inodes(node.where.run)

    assert look(node) == sound | {A: False}
    (device,) = [each for each in node.devices if not each.healthy]
    assert [(reason.code, reason.text) for reason in device.reasons] == [
        ("HostPath", f"'{node.where.links}/hisi_hpre-30976' cannot be changed: No space left on device.")
    ]
    (node.where.run / "of others/0").unlink()
    assert look(node) == sound


def test_renumbered_devices_have_right_links_on_a_full_disk(host: hosts.Host) -> None:
    node = settings.looked(host)
    sound = settings.told(node)
    disks.take_inodes(node.where.run)

    host.renumber()

    # Wrong links go first, which makes room.
    assert look(node) == sound
    links = {path.name: str(path.readlink()) for path in node.where.links.iterdir()}
    assert links == {
        paths.published_name(state.function.kind.module, address): f"/dev/{state.entry}"
        for address, state in host.states().items()
    }


def test_a_plugin_that_starts_on_a_full_disk_offers_what_has_its_paths(host: hosts.Host) -> None:
    sound = settings.told(settings.looked(host))
    where = settings.where(host)
    (where.links / "hisi_hpre-30976").unlink()
    disks.take_inodes(where.run)

    assert settings.told(settings.looked(host)) == sound | {A: False}


def test_a_file_that_cannot_be_made_takes_the_devices_of_its_resource_alone(host: hosts.Host) -> None:
    with_file = settings.inject(files=(config.InjectedFile(name="a", text="x", as_="/etc/a"),))
    stated = settings.settings(settings.uacce("hpre", inject=with_file), settings.uacce("zip"))
    node = settings.looked(host, stated)
    (node.where.files / "a").unlink()
    disks.take_inodes(node.where.run)

    assert set(look(node).values()) == {False}
    assert set(settings.told(node, "zip").values()) == {True}
    (reason,) = {device.reasons for device in node.devices if not device.healthy}.pop()
    assert reason.text.startswith(f"'{node.where.files}/")
