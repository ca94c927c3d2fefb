"""Virtual functions: as many as asked for, and those of others as they were."""

from pathlib import Path
from typing import Any

import pytest

from tests.installer import apiservers, incidents, machines, settings

HPRES = (incidents.HPRE, "0000:b9:00.0")
ZIP = "0000:75:00.0"
BACK = "The host has again what it had before."


@pytest.fixture
def machine(installed: machines.Machine, tmp_path: Path) -> machines.Machine:
    """A host that has the driver 2.0.1 by us."""
    return installed.copied(tmp_path / "host")


def vfs(machine: machines.Machine) -> dict[str, int]:
    """Physical functions with virtual ones, and how many."""
    found = {address: len(machine.vfs(address)) for address in (*HPRES, ZIP)}
    return {address: count for address, count in found.items() if count}


def set_vfs(machine: machines.Machine, address: str, count: int) -> None:
    """Makes virtual functions, as people do by hand."""
    machine.host.write_attribute(f"/sys/bus/pci/devices/{address}/sriov_numvfs", str(count))


def test_another_number_of_virtual_functions_is_reached_by_way_of_0_and_unloads_nothing(
    machine: machines.Machine, image: Path, crew: incidents.Crew
) -> None:
    crew.job(image, "2.0.1", sriov={"hpre": 2}).settle()
    machine.calls()

    shown = crew.job(image, "2.0.1", sriov={"hpre": 4}).settle()

    # The kernel refuses any other way: so does the fake one.
    assert (shown.state, vfs(machine)) == ("Ready", dict.fromkeys(HPRES, 4))
    assert settings.changes_made(machine) == []


def test_virtual_functions_are_for_everybody_too(machine: machines.Machine, image: Path, crew: incidents.Crew) -> None:
    shown = crew.job(image, "2.0.1", sriov={"hpre": 2}).settle()

    assert (shown.state, len(machine.entries()), incidents.works(machine)) == ("Ready", 10, True)


@pytest.mark.parametrize(("asked", "left"), [({"hpre": 0}, {ZIP: 3}), ({"zip": 0}, {HPRES[0]: 2})])
def test_no_virtual_functions_can_be_asked_for_and_those_of_other_kinds_stay(
    asked: dict[str, Any], left: dict[str, int], machine: machines.Machine, image: Path, crew: incidents.Crew
) -> None:
    set_vfs(machine, HPRES[0], 2)
    set_vfs(machine, ZIP, 3)

    shown = crew.job(image, "2.0.1", sriov=asked).settle()

    assert (shown.state, vfs(machine)) == ("Ready", left)


def test_virtual_functions_that_somebody_made_by_hand_are_there_again_after_an_upgrade(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    set_vfs(machine, HPRES[0], 3)

    shown = crew.job(newer).settle()

    assert (shown.state, vfs(machine), incidents.works(machine, "2.0.2")) == ("Ready", {HPRES[0]: 3}, True)


def test_virtual_functions_that_were_asked_for_are_there_again_after_a_boot(
    machine: machines.Machine, image: Path, crew: incidents.Crew
) -> None:
    crew.job(image, "2.0.1", sriov={"hpre": 2}).settle()
    machine.reboot()
    assert vfs(machine) == {}

    shown = crew.job(image, "2.0.1", sriov={"hpre": 2}).settle()

    assert (shown.state, vfs(machine)) == ("Ready", dict.fromkeys(HPRES, 2))


def test_a_number_that_the_kernel_refuses_brings_the_one_before_back(
    machine: machines.Machine, image: Path, crew: incidents.Crew
) -> None:
    set_vfs(machine, HPRES[0], 3)
    for address in HPRES:
        (machine.root / f"sys/bus/pci/devices/{address}/sriov_totalvfs").write_text("7\n")

    shown = crew.job(image, "2.0.1", sriov={"hpre": 8}).settle()

    assert (shown.state, vfs(machine), incidents.works(machine)) == ("Failed", {HPRES[0]: 3}, True)
    assert shown.reason.endswith(f"Numerical result out of range. {BACK}")


def test_a_process_on_a_virtual_function_is_waited_for_before_the_number_changes(
    machine: machines.Machine, image: Path, server: apiservers.ApiServer, crew: incidents.Crew
) -> None:
    del server
    set_vfs(machine, HPRES[0], 1)
    (entry,) = [name for name, address in machine.entries().items() if address == machine.vfs(HPRES[0])[0]]
    machine.hold(4711, entry)

    shown = crew.job(image, "2.0.1", sriov={"hpre": 2}).settle()

    assert (shown.state, vfs(machine)) == ("Blocked", {HPRES[0]: 1})
    assert "process 4711 (openssl)" in shown.reason
