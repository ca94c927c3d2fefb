"""Boots: an initramfs that brings an older driver back, and another kernel."""

from pathlib import Path

import pytest

from installer.host import record
from tests.installer import incidents, machines, settings
from tests.installer.incidents import Crew, Users
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]

OTHER = settings.OTHER_KERNEL


def boot_other(machine: Machine) -> None:
    """Install another kernel, and boot into it."""
    machine.add_kernel(OTHER)
    machine.reboot(OTHER)


def test_a_driver_out_of_an_older_initramfs_is_exchanged(machine: Machine, newer: Path, crew: Crew) -> None:
    machine.capture_initramfs()
    settings.installed(machine, newer, driver_version="2.0.2")
    machine.reboot()
    assert settings.versions(machine) == {"2.0.1"}
    job = crew.job(image=newer)

    job.settle()

    assert (job.shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    # It was in the store all the time.
    assert "copy-modules" not in job.shown.taken


def test_who_got_a_device_of_the_older_driver_after_a_boot_is_evicted(
    machine: Machine, newer: Path, crew: Crew, server: ApiServer, users: Users
) -> None:
    machine.capture_initramfs()
    settings.installed(machine, newer, driver_version="2.0.2")
    machine.reboot()
    users.come(incidents.POD)

    shown = crew.job(image=newer).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
    assert (users.evicted, incidents.holder(server)) == ([incidents.POD], "")


def test_another_kernel_gets_a_driver_of_its_own_and_the_one_before_keeps_its(
    machine: Machine, image: Path, crew: Crew
) -> None:
    boot_other(machine)
    machine.add_image(image, "2.0.1")
    job = crew.job("2.0.1", image=image)

    job.settle()

    assert (job.shown.state, incidents.works(machine)) == ("Ready", True)
    assert "copy-modules" in job.shown.taken
    installed = record.read(machine.host).installed
    assert installed is not None
    assert installed.kernel == OTHER

    machine.reboot(machines.KERNEL)

    # By itself, even where no installer comes; it says so all the same.
    assert (settings.versions(machine), len(machine.entries())) == ({"2.0.1"}, 6)
    assert crew.job("2.0.1", image=image).settle().state == "Ready"


def test_an_image_without_modules_for_the_new_kernel_touches_nothing(machine: Machine, image: Path, crew: Crew) -> None:
    boot_other(machine)
    before, loaded = set(machine.files("etc", "lib", "opt", "usr")), machine.loaded()

    shown = crew.job("2.0.1", image=image).settle()

    assert (shown.state, shown.ready) == ("Failed", False)
    assert shown.reason == (f"The image holds no modules for the running kernel {OTHER}; it has: {machines.KERNEL}.")
    assert (set(machine.files("etc", "lib", "opt", "usr")), machine.loaded()) == (before, loaded)


def test_what_fails_in_a_new_kernel_leaves_the_driver_of_the_old_one(machine: Machine, image: Path, crew: Crew) -> None:
    boot_other(machine)
    machine.add_image(image, "2.0.1")
    machine.refuse("hisi_sec2")
    loaded = machine.loaded()

    shown = crew.job("2.0.1", image=image).settle()
    failed = (shown.state, machine.loaded())
    machine.reboot(machines.KERNEL)

    assert failed == ("Failed", loaded)
    assert shown.reason.endswith("The host is back in its previous state.")
    assert incidents.works(machine)


@pytest.mark.parametrize("phase", ["unload-modules", "place-modules", "load-modules"])
def test_a_boot_into_another_kernel_in_a_change_ends_with_its_driver(
    phase: str, machine: Machine, newer: Path, crew: Crew
) -> None:
    crew.job(image=newer).end_after(phase)
    boot_other(machine)
    machine.add_image(newer, "2.0.2")

    shown = crew.job(image=newer).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)
