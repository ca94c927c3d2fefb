"""A function is offered or not, healthy or not, and says why."""

from pathlib import Path

import pytest

from device_plugin.host import health
from tests.device_plugin import hosts, machines, settings
from tests.device_plugin.functions import Function

HPRE = "0000:79:00.0"
VF = "0000:79:00.1"


def codes(host: hosts.Host, *, changing: bool = False) -> list[str]:
    return [reason.code for reason in health.reasons(settings.function(host, HPRE), changing=changing)]


@pytest.mark.parametrize("driver", ["vfio-pci", "hisi_acc_vfio_pci"])
def test_what_is_passed_to_a_guest_is_not_offered(driver: str, tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    host.set_vfs(HPRE, 2)
    host.unbind(VF)
    host.bind(VF, driver)

    assert health.withheld(settings.function(host, VF)) == f"It is bound to {driver}, for a virtual machine."
    assert health.withheld(settings.function(host, "0000:79:00.2")) is None
    host.unbind(VF)
    assert [reason.code for reason in health.reasons(settings.function(host, VF), changing=False)] == ["NoDriver"]


def test_a_function_without_driver_or_with_a_half_made_entry_is_unhealthy(tmp_path: Path) -> None:
    host = machines.bare_metal(tmp_path)
    (host.sysfs / "class/uacce/hisi_hpre-2/flags").unlink()
    assert codes(host) == ["EntryIncomplete"]

    host.unbind(HPRE)
    assert codes(host) == ["NoDriver"]
    assert health.withheld(settings.function(host, HPRE)) is None


def test_a_driver_that_serves_the_kernel_alone_makes_an_unhealthy_device(tmp_path: Path) -> None:
    host = hosts.Host(tmp_path)
    host.add(Function(address=HPRE, kind=machines.KIND["hpre"], uacce=False))

    assert codes(host) == ["NoEntry"]


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
