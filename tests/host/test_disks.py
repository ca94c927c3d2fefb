"""Disks of the host that are full, or read-only: real ones, in memory, with the host's real depmod."""

from pathlib import Path

import pytest

from tests.host import disks
from tests.installer import homes, incidents, machines, settings

BACK = "The host is back in its previous state."
MODULES = f"/lib/modules/{machines.KERNEL}"


def index(machine: machines.Machine) -> dict[str, bytes]:
    files = machine.host.path(MODULES).iterdir()
    return {path.name: path.read_bytes() for path in files if path.is_file() and "modules." in path.name}


def test_a_disk_that_is_too_small_for_the_driver_is_refused_with_the_sizes(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disks.disk(machine, "/var/lib/kae", 100) as folder:
        disks.fill(folder, leave=20 * disks.MIB + disks.MIB // 2)

        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert incidents.works(machine)
        assert shown.reason == f"The disk of '{homes.KAE.drivers}' has 20 MiB free, and 64 are needed."


def test_a_disk_with_too_few_inodes_for_the_driver_is_refused_with_their_numbers(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disks.disk(machine, "/var/lib/kae", 100, 200) as folder:
        disks.take_inodes(folder, leave=40)

        shown = crew.job(image=newer).settle()

        assert (shown.state, incidents.works(machine)) == ("Failed", True)
        assert f"The disk of '{homes.KAE.drivers}' has " in shown.reason
        assert "inodes free (df -i), and " in shown.reason


def test_a_disk_that_gets_full_while_the_driver_is_staged_gets_its_room_back(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disks.disk(machine, "/var/lib/kae", 100) as folder:
        job = crew.job(image=newer)
        job.at("prepare-store", lambda: disks.fill(folder, leave=6 << 10))

        job.settle()

        assert job.shown.state == "Failed"
        assert incidents.works(machine)
        assert job.shown.reason.startswith(f"The disk of '{homes.KAE.drivers}/.new/modules/")
        assert job.shown.reason.endswith("' on the host is full.")
        assert not (folder / "drivers/.new").exists()


def test_a_disk_without_room_makes_no_crash_loop(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    with disks.disk(machine, "/var/lib/kae", 80) as folder:
        disks.fill(folder)
        job = crew.job(image=newer)
        job.settle()

        # The pause cannot be noted; it is kept.
        pause_s = job.loop.cycle()

        assert job.shown.state == "Failed"
        assert job.shown.changes["failed"] == 1
        assert 0 < pause_s <= 60
        assert incidents.works(machine)


def test_a_disk_too_small_for_the_modules_is_refused_before_anybody_is_evicted(
    machine: machines.Machine, newer: Path, tmp_path: Path
) -> None:
    with disks.disk(machine, MODULES, 20) as folder, disks.used(machine, tmp_path) as (users, crew):
        disks.fill(folder, leave=10 * disks.MIB + disks.MIB // 2)

        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert shown.reason == (
            f"'{MODULES}/updates/kae' on the host cannot be changed, so no change begins: its disk has 10 MiB free, and"
            " 16 are needed."
        )
        assert users.evicted == []
        assert incidents.works(machine)


@pytest.mark.parametrize("step", ["place-modules", "place-libraries", "index-modules"])
def test_a_disk_that_gets_full_while_files_are_placed_brings_the_old_driver_back(
    step: str, machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    where = "/opt" if step == "place-libraries" else MODULES  # The trees are beside the link.
    with disks.disk(machine, where, 40) as folder:
        job = crew.job(image=newer)
        job.at(step, lambda: disks.fill(folder), event="begun")
        before = index(machine)

        job.settle()

        assert job.shown.state == "Failed"
        assert incidents.works(machine)
        assert job.shown.reason.endswith(BACK)
        # It is that of all modules, and depmod cuts its files off on a full disk.
        assert index(machine) == before


def test_read_only_modules_are_refused_before_evictions(machine: machines.Machine, newer: Path, tmp_path: Path) -> None:
    with (
        disks.disk(machine, "/usr/lib/modules", 40) as folder,
        disks.used(machine, tmp_path) as (users, crew),
        disks.read_only(folder),
    ):
        machine.calls()

        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert shown.reason == (
            f"'{MODULES}/updates/kae' on the host cannot be changed, so no change begins: its file system is read-only:"
            " mount it so that it can be written."
        )
        assert users.evicted == []
        assert incidents.works(machine)
        assert settings.changes_made(machine) == []


@pytest.mark.parametrize("step", ["unload-modules", "place-modules"])
def test_modules_that_become_read_only_in_a_change_leave_a_driver_or_say_why_not(
    step: str, machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disks.disk(machine, "/usr/lib/modules", 40) as folder, disks.read_only(folder):
        job = crew.job(image=newer)
        disks.remount(folder, "rw")
        job.at(step, lambda: disks.remount(folder, "ro"))

        job.settle()

        assert job.shown.state == "Failed"
        assert "Read-only file system" in job.shown.reason
        assert not machine.host.path(homes.KAE.changing).exists()
        # Old files that are untouched need no writing to come back.
        assert incidents.works(machine) is (step == "unload-modules")
        assert ("cannot be restored" in job.shown.reason) is (step == "place-modules")


def test_a_read_only_record_is_a_failure_that_touches_nothing(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disks.disk(machine, "/var/lib/kae", 100) as folder, disks.read_only(folder):
        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert incidents.works(machine)
        assert shown.reason.endswith("' on the host cannot be changed: Read-only file system.")
        assert shown.reason.startswith(f"'{homes.KAE.drivers}/")


def test_a_disk_with_room_again_takes_the_driver(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    with disks.disk(machine, "/var/lib/kae", 100) as folder:
        disks.fill(folder)
        crew.job(image=newer).settle()
        (folder / "of others").unlink()

        # The pause could not be noted on the full disk, so another installer begins at once.
        shown = crew.job(image=newer).settle()

        assert shown.state == "Ready"
        assert incidents.works(machine, "2.0.2")
