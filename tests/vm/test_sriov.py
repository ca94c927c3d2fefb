"""Virtual functions on a real kernel: made, changed in number, there after a boot, and left to virtual machines."""

import pytest

from tests.vm import host

ZIPS = ("0001:75:00.0", "0001:b5:00.0")


def vfs(of: host.Host) -> list[int]:
    return [int(of.guest.run(f"cat /sys/bus/pci/devices/{address}/sriov_numvfs")) for address in ZIPS]


def test_virtual_functions_are_made_and_each_gets_an_entry(shared: host.Host) -> None:
    said = shared.install("2.0.1", sriov={"zip": 4})

    assert said.state == "Ready", said
    assert vfs(shared) == [4, 4]
    assert len(shared.entries("hisi_zip")) == 2 + 8
    assert set(shared.guest.run("udevadm settle && stat -L -c %a /dev/hisi_zip-*").split()) == {"666"}


@pytest.mark.parametrize(
    ("driver", "count"), [("2.0.1", 6), ("2.0.2", 4)], ids=["another-number-by-way-of-none", "upgrade-keeps-them"]
)
def test_a_change_leaves_the_virtual_functions_that_are_wanted(driver: str, count: int, shared: host.Host) -> None:
    shared.have("2.0.1")
    before = shared.install("2.0.1", sriov={"zip": 4})

    said = shared.install(driver, sriov={"zip": count})

    assert [before.state, said.state] == ["Ready", "Ready"], said
    assert vfs(shared) == [count, count]
    assert len(shared.entries("hisi_zip")) == 2 * (1 + count)
    assert set(shared.loaded().values()) == {driver}


def test_virtual_functions_are_there_after_a_boot_before_an_installer_runs(shared: host.Host) -> None:
    assert shared.install("2.0.2", sriov={"zip": 3}).state == "Ready"
    assert len(shared.entries("hisi_zip")) == 2 * (1 + 3)

    shared.reboot()

    assert len(shared.entries("hisi_zip")) == 2 * (1 + 3)
    assert shared.guest.run("cat /sys/module/hisi_zip/parameters/vfs_num").strip() == "3"
    with shared.installing("2.0.2", sriov={"zip": 3}) as installer:
        assert installer.wait_for_rest().state == "Ready"
        assert installer.log('"step"') == []  # Nothing was to be done.
    assert shared.install("2.0.2", sriov={"zip": 0}).state == "Ready"
    assert len(shared.entries("hisi_zip")) == 2
