"""Disks of the host that are full, or read-only: real ones, in memory, with the host's real depmod."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.local import machine as mounts
from tests.installer import homes, incidents, machines, podresources, settings
from tests.kube import apiserver

MIB = 1 << 20
BACK = "The host is back in its previous state."
MODULES = f"/lib/modules/{machines.KERNEL}"


@pytest.fixture
def image(machine: machines.Machine, tmp_path: Path) -> Path:
    machine.add_image(tmp_path / "image", "2.0.1")
    settings.installed(machine, tmp_path / "image")
    return tmp_path / "image"


@pytest.fixture
def newer(machine: machines.Machine, image: Path, tmp_path: Path) -> Path:
    del image
    machine.add_image(tmp_path / "newer", "2.0.2")
    return tmp_path / "newer"


@pytest.fixture
def crew(machine: machines.Machine) -> Iterator[incidents.Crew]:
    with incidents.Crew(machine) as crew:
        yield crew


@contextmanager
def used(machine: machines.Machine, folder: Path) -> Iterator[tuple[incidents.Users, incidents.Crew]]:
    """A pod that uses a device of the host, and installers that find an API server."""
    with (
        apiserver.serving(folder) as server,
        podresources.serving(machine.root) as kubelet,
        incidents.Crew(machine, server) as crew,
    ):
        users = incidents.Users(kubelet, server)
        users.come(incidents.POD)
        yield users, crew


@contextmanager
def disk(machine: machines.Machine, absolute: str, mebibytes: int) -> Iterator[Path]:
    """A disk of its own for a folder of the host, with all that lies there."""
    folder = machine.host.path(absolute).resolve()
    content = folder.with_name(f".{folder.name}.content")
    shutil.copytree(folder, content, symlinks=True)
    options = f"size={mebibytes}m,mode=755"
    subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)), check=True, timeout=30)
    try:
        shutil.copytree(content, folder, symlinks=True, dirs_exist_ok=True)
        yield folder
    finally:
        mounts.unmount(folder)
        shutil.rmtree(content)


def fill(folder: Path, leave: int = 0) -> None:
    free = shutil.disk_usage(folder).free - leave
    with (folder / "of others").open("wb") as file:
        while free > 0:
            try:
                file.write(bytes(min(free, MIB)))
                file.flush()
            except OSError:
                return
            free -= MIB


def index(machine: machines.Machine) -> dict[str, bytes]:
    files = machine.host.path(MODULES).iterdir()
    return {path.name: path.read_bytes() for path in files if path.is_file() and "modules." in path.name}


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    remount(folder, "ro")
    try:
        yield
    finally:
        remount(folder, "rw")


def remount(folder: Path, mode: str) -> None:
    subprocess.run(("mount", "-o", f"remount,{mode}", str(folder)), check=True)


def test_a_disk_that_is_too_small_for_the_driver_is_refused_with_the_sizes(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disk(machine, "/var/lib/kae", 100) as folder:
        fill(folder, leave=20 * MIB + MIB // 2)

        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert incidents.works(machine)
        assert shown.reason == f"The disk of '{homes.KAE.drivers}' has 20 MiB free; 64 are needed."


def test_a_disk_that_gets_full_while_the_driver_is_staged_gets_its_room_back(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disk(machine, "/var/lib/kae", 100) as folder:
        job = crew.job(image=newer)
        job.at("prepare-store", lambda: fill(folder, leave=6 << 10))

        job.settle()

        assert job.shown.state == "Failed"
        assert incidents.works(machine)
        assert job.shown.reason.startswith(f"The disk of '{homes.KAE.drivers}/.new/modules/")
        assert job.shown.reason.endswith("' on the host is full.")
        assert not (folder / "drivers/.new").exists()


def test_a_disk_without_room_makes_no_crash_loop(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    with disk(machine, "/var/lib/kae", 80) as folder:
        fill(folder)
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
    with disk(machine, MODULES, 20) as folder, used(machine, tmp_path) as (users, crew):
        fill(folder, leave=10 * MIB + MIB // 2)

        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert shown.reason == f"The disk of '{MODULES}/updates/kae' on the host has 10 MiB free; 16 are needed."
        assert users.evicted == []
        assert incidents.works(machine)


@pytest.mark.parametrize("step", ["place-modules", "place-libraries", "index-modules"])
def test_a_disk_that_gets_full_while_files_are_placed_brings_the_old_driver_back(
    step: str, machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    where = "/opt" if step == "place-libraries" else MODULES  # The trees are beside the link.
    with disk(machine, where, 40) as folder:
        job = crew.job(image=newer)
        job.at(step, lambda: fill(folder), event="begun")
        before = index(machine)

        job.settle()

        assert job.shown.state == "Failed"
        assert incidents.works(machine)
        assert job.shown.reason.endswith(BACK)
        # It is that of all modules, and depmod cuts its files off on a full disk.
        assert index(machine) == before


def test_read_only_modules_are_refused_before_evictions(machine: machines.Machine, newer: Path, tmp_path: Path) -> None:
    with disk(machine, "/usr/lib/modules", 40) as folder, used(machine, tmp_path) as (users, crew), read_only(folder):
        machine.calls()

        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert shown.reason == f"'{MODULES}/updates/kae' on the host cannot be changed: its file system is read-only."
        assert users.evicted == []
        assert incidents.works(machine)
        assert settings.changes_made(machine) == []


@pytest.mark.parametrize("step", ["unload-modules", "place-modules"])
def test_modules_that_become_read_only_in_a_change_leave_a_driver_or_say_why_not(
    step: str, machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disk(machine, "/usr/lib/modules", 40) as folder, read_only(folder):
        job = crew.job(image=newer)
        remount(folder, "rw")
        job.at(step, lambda: remount(folder, "ro"))

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
    with disk(machine, "/var/lib/kae", 100) as folder, read_only(folder):
        shown = crew.job(image=newer).settle()

        assert shown.state == "Failed"
        assert incidents.works(machine)
        assert shown.reason == f"'{homes.KAE.drivers}' on the host cannot be made: Read-only file system."


def test_a_disk_with_room_again_takes_the_driver(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    with disk(machine, "/var/lib/kae", 100) as folder:
        fill(folder)
        crew.job(image=newer).settle()
        (folder / "of others").unlink()

        # The pause could not be noted on the full disk, so another installer begins at once.
        shown = crew.job(image=newer).settle()

        assert shown.state == "Ready"
        assert incidents.works(machine, "2.0.2")
