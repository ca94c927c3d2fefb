"""A driver's life on a real kernel: installed, upgraded, rolled back, loaded by a boot, removed."""

from pathlib import Path

import pytest

from device_plugin.host import paths
from tests.vm import artifacts, host

ENGINES = ("hisi_hpre", "hisi_sec2", "hisi_zip")


def published(shared: host.Host) -> list[str]:
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


@pytest.mark.parametrize(("old", "new"), [pytest.param("2.0.1", "2.0.2", marks=pytest.mark.short), ("2.0.2", "2.0.1")])
def test_a_change_of_the_version_loads_the_other_modules(old: str, new: str, shared: host.Host) -> None:
    shared.have(old)

    said = shared.install(new)

    assert said.state == "Ready", said
    assert shared.loaded() == dict.fromkeys(artifacts.MODULES, new)


@pytest.mark.parametrize(
    ("driver", "words"),
    [
        pytest.param("probe", "no zip device has an entry", marks=pytest.mark.short),
        ("init", "Input/output error"),
        ("start", "gives no queue: Input/output error"),
    ],
)
def test_a_driver_that_does_not_work_is_rolled_back(driver: str, words: str, shared: host.Host) -> None:
    shared.have("2.0.2")

    said = shared.install(driver)

    assert said.state == "Failed", said
    assert words in said.message
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


def test_a_removed_driver_leaves_nothing(shared: host.Host) -> None:
    shared.have("2.0.1")

    removed = shared.command("remove")

    assert removed.code == 0, removed.output
    assert shared.loaded() == {}
    assert shared.files() == []
    assert shared.guest.ask("ls -d /dev/hisi_* /sys/class/uacce/*").code != 0
    assert shared.guest.ask("modprobe -n hisi_zip").code != 0
