"""A driver's life on a real kernel: installed, upgraded, rolled back, loaded by a boot, removed."""

from pathlib import Path

import pytest

from device_plugin.host import paths
from tests.vm import artifacts, host

ENGINES = ("hisi_hpre", "hisi_sec2", "hisi_zip")


def published(shared: host.Host) -> list[str]:
    """Return the names that containers have for the devices."""
    folders = map(Path, shared.guest.run("ls -d /sys/bus/pci/devices/*/uacce/*").split())
    return [paths.published_name(path.name.rpartition("-")[0], path.parts[-3]) for path in folders]


@pytest.mark.short
def test_a_first_driver_is_installed_and_gives_every_device_an_entry(shared: host.Host) -> None:
    said = shared.install("2.0.1")

    assert said.state == "Ready", said
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.1")
    assert [len(shared.entries(module)) for module in ENGINES] == [2, 2, 2]
    # Each node, and the link of the name that containers have.
    assert shared.guest.run("udevadm settle && stat -L -c %a /dev/hisi_*").split() == ["666"] * 12
    assert {shared.guest.run(f"readlink /dev/{name}").strip() for name in published(shared)} == set(shared.entries())


@pytest.mark.short
def test_an_upgrade_loads_the_new_modules(shared: host.Host) -> None:
    shared.have("2.0.1")

    said = shared.install("2.0.2")

    assert said.state == "Ready", said
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.2")


@pytest.mark.short
def test_a_driver_that_gives_no_device_an_entry_is_rolled_back(shared: host.Host) -> None:
    shared.have("2.0.2")

    said = shared.install("probe")

    assert said.state == "Failed", said
    assert "no zip device has an entry" in said.message
    assert "The host is back in its previous state." in said.message
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.2")
    assert len(shared.entries("hisi_zip")) == 2


def test_a_driver_whose_module_does_not_load_is_rolled_back(shared: host.Host) -> None:
    shared.have("2.0.2")

    said = shared.install("init")

    assert said.state == "Failed", said
    assert "Input/output error" in said.message
    assert "The host is back in its previous state." in said.message
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.2")
    assert len(shared.entries("hisi_zip")) == 2


def test_a_boot_loads_the_driver_by_udev_before_an_installer_runs(shared: host.Host) -> None:
    shared.have("2.0.2")

    shared.reboot()

    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.2")
    assert [len(shared.entries(module)) for module in ENGINES] == [2, 2, 2]
    assert shared.guest.run("udevadm settle && stat -L -c %a /dev/hisi_*").split() == ["666"] * 12
    assert shared.install("2.0.2").state == "Ready"


def test_a_downgrade_loads_the_older_modules(shared: host.Host) -> None:
    shared.have("2.0.2")

    said = shared.install("2.0.1")

    assert said.state == "Ready", said
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, "2.0.1")


def test_a_removed_driver_leaves_nothing(shared: host.Host) -> None:
    shared.have("2.0.1")

    removed = shared.command("remove")

    assert removed.code == 0, removed.output
    assert shared.loaded() == {}
    assert shared.files() == []
    assert shared.guest.ask("ls -d /dev/hisi_* /sys/class/uacce/*").code != 0
    assert shared.guest.ask("modprobe -n hisi_zip").code != 0
