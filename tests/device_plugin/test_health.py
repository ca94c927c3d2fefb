"""A function is offered or not, healthy or not, and says why."""

from collections.abc import Callable
from pathlib import Path

import pytest

from device_plugin.host import health
from tests.device_plugin import hosts, machines, settings
from tests.device_plugin.functions import Function

HPRE = "0000:79:00.0"
VF = "0000:79:00.1"


def codes(host: hosts.Host, address: str = HPRE, *, changing: bool = False) -> list[str]:
    """The codes of what is wrong with a function."""
    return [reason.code for reason in health.reasons(settings.function(host, address), changing=changing)]


def text(host: hosts.Host, address: str = HPRE) -> str:
    """The only thing that is wrong with a function."""
    (reason,) = health.reasons(settings.function(host, address), changing=False)
    return reason.text


@pytest.mark.parametrize("machine", [machines.bare_metal, machines.kae_1, machines.smmu_off, machines.new_920])
def test_what_works_is_offered_and_healthy(machine: Callable[[Path], hosts.Host], tmp_path: Path) -> None:
    found = settings.scanned(machine(tmp_path)).functions

    assert found
    assert {health.withheld(item) for item in found} == {None}
    assert {health.reasons(item, changing=False) for item in found} == {()}
    assert all(map(health.usable, found))


def test_a_device_whose_queues_are_all_in_use_is_healthy(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_available_instances(HPRE, 0)

    assert codes(host) == []


def test_a_physical_function_with_virtual_ones_is_not_offered_and_they_are(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(HPRE, 8)

    assert health.withheld(settings.function(host, HPRE)) == "Its 8 virtual functions are offered in its place."
    assert health.withheld(settings.function(host, VF)) is None
    assert codes(host, VF) == []


@pytest.mark.parametrize("driver", ["vfio-pci", "hisi_acc_vfio_pci"])
def test_what_is_passed_to_a_guest_is_not_offered(driver: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(HPRE, 2)
    host.unbind(VF)
    host.bind(VF, driver)

    assert health.withheld(settings.function(host, VF)) == f"It is bound to {driver}, for a virtual machine."
    assert health.withheld(settings.function(host, "0000:79:00.2")) is None


def test_a_function_without_driver_is_unhealthy(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.unbind(HPRE)

    assert codes(host) == ["NoDriver"]
    assert health.withheld(settings.function(host, HPRE)) is None


def test_a_driver_that_serves_the_kernel_alone_makes_an_unhealthy_device(tmp_path: Path) -> None:
    host = hosts.Host(tmp_path)
    host.add(Function(address=HPRE, kind=machines.KIND["hpre"], uacce=False))

    assert codes(host) == ["NoEntry"]
    assert "hisi_hpre" in text(host)
    assert "uacce_mode" in text(host)


@pytest.mark.parametrize("name", ["api", "flags", "algorithms", "available_instances", "dev"])
def test_a_half_made_entry_is_unhealthy_and_not_usable(name: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    (host.sysfs / "class/uacce/hisi_hpre-2" / name).unlink()

    found = codes(host)

    assert found[0] == "EntryIncomplete"
    assert not health.usable(settings.function(host, HPRE))


def test_a_half_made_entry_says_what_it_lacks(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    for name in ("flags", "algorithms"):
        (host.sysfs / "class/uacce/hisi_hpre-2" / name).unlink()

    assert (
        text(host) == "Its entry hisi_hpre-2 lacks flags, algorithms: still being made, or its driver failed (dmesg)."
    )


def test_a_missing_device_node_makes_a_device_unhealthy(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.remove_node(HPRE)

    assert codes(host) == ["NoDeviceNode"]
    assert text(host) == "/dev/hisi_hpre-2 is not there."
    assert not health.usable(settings.function(host, HPRE))


def test_another_devices_node_makes_a_device_unhealthy(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.node(HPRE).unlink()
    host.node(HPRE).symlink_to("/dev/zero")

    assert codes(host) == ["WrongDeviceNode"]
    assert text(host) == "/dev/hisi_hpre-2 is not the device 1:7."
    assert not health.usable(settings.function(host, HPRE))


@pytest.mark.parametrize(("value", "code"), [(1, "Isolated"), (-1, "IsolationUnknown"), (2, "IsolationUnknown")])
def test_isolation_and_doubt_about_it_are_faults_of_the_hardware(value: int, code: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_isolate(HPRE, value)

    (reason,) = health.reasons(settings.function(host, HPRE), changing=False)

    assert (reason.code, reason.fault) == (code, True)
    # Containers that have it keep it: nothing is wrong with entry and node.
    assert health.usable(settings.function(host, HPRE))


def test_a_kernel_that_does_not_know_isolation_has_healthy_devices(tmp_path: Path) -> None:
    host = hosts.Host(tmp_path)
    host.add(Function(address=HPRE, kind=machines.KIND["hpre"], isolate=None))

    assert codes(host) == []


def test_a_change_of_the_driver_hides_no_other_reason(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_isolate(HPRE, 1)
    host.remove_node(HPRE)

    assert codes(host, changing=True) == ["NoDeviceNode", "Isolated", "DriverChanging"]


def test_what_people_do_is_no_fault_of_the_hardware(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.unbind(HPRE)

    assert not any(reason.fault for reason in health.reasons(settings.function(host, HPRE), changing=True))
