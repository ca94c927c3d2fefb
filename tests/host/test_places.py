"""A change that cannot be finished does not begin, and one that fails is undone: few inodes, attributes, mounts."""

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer.host import record
from tests.cluster.local import machine as mounts
from tests.host import disks
from tests.installer import incidents, machines

BACK = "The host is back in its previous state."
MODULES = f"/lib/modules/{machines.KERNEL}"
PLACES = ("/opt", MODULES, "/etc/modprobe.d", "/var/lib/kae", "/run/kae")


@contextlib.contextmanager
def immutable(path: Path) -> Iterator[None]:
    subprocess.run(("chattr", "+i", str(path)), check=True)
    try:
        yield
    finally:
        subprocess.run(("chattr", "-i", str(path)), check=True)


@contextlib.contextmanager
def mounted_over(path: Path) -> Iterator[None]:
    subprocess.run(("mount", "--bind", str(path), str(path)), check=True)
    try:
        yield
    finally:
        mounts.unmount(path)


_UNCOUNTED = "of others|^run/kae-features.d/"
"""Files of the tests, and those for NFD, which tell the state at each moment."""


def content(machine: machines.Machine, *below: str) -> dict[str, str]:
    return {name: digest for name, (_, digest) in machine.files(*below).items() if not re.search(_UNCOUNTED, name)}


@pytest.mark.parametrize("where", PLACES)
def test_a_disk_without_inodes_is_refused_before_anybody_is_evicted(
    where: str, machine: machines.Machine, newer: Path, tmp_path: Path
) -> None:
    with disks.disk(machine, where, 100, 200) as folder, disks.used(machine, tmp_path) as (users, crew):
        before = content(machine, "etc", "opt", "usr/lib/modules")
        job = crew.job(image=newer)
        # The driver is staged by then.
        job.at("store-driver", lambda: disks.take_inodes(folder, leave=1))

        shown = job.settle()

        assert (shown.state, users.evicted, incidents.works(machine)) == ("Failed", [], True)
        assert where in shown.reason
        assert "inodes" in shown.reason
        assert "so no change begins" in shown.reason
        assert content(machine, "etc", "opt", "usr/lib/modules") == before
        assert record.read(machine.host).lease is None


@pytest.mark.parametrize(
    "what",
    [
        "/etc/modprobe.d",
        "/opt",
        "/run/kae",
        MODULES,
        "/var/lib/kae",
        "/etc/modprobe.d/hisi_zip.conf",
        f"{MODULES}/updates/kae/hisi_zip.ko",
        f"{MODULES}/modules.dep",
        "/var/lib/kae/driver.json",
    ],
)
def test_what_is_immutable_is_refused_before_anybody_is_evicted(
    what: str, machine: machines.Machine, newer: Path, tmp_path: Path
) -> None:
    folder = next(
        each for each in (MODULES, "/etc/modprobe.d", "/opt", "/run/kae", "/var/lib/kae") if what.startswith(each)
    )
    with disks.disk(machine, folder, 100), disks.used(machine, tmp_path) as (users, crew):
        job, held = crew.job(image=newer), contextlib.ExitStack()
        job.at("store-driver", lambda: held.enter_context(immutable(machine.host.path(what))))
        with held:
            shown = job.settle()

            assert (shown.state, users.evicted, incidents.works(machine)) == ("Failed", [], True)
            assert shown.reason.startswith(f"'{what}' on the host cannot be changed, so no change begins: ")
            assert "chattr -i" in shown.reason


@pytest.mark.parametrize("what", ["/etc/modprobe.d/hisi_zip.conf", f"{MODULES}/updates/kae/hisi_zip.ko"])
def test_a_file_with_a_mount_over_it_is_refused_before_anybody_is_evicted(
    what: str, machine: machines.Machine, newer: Path, tmp_path: Path
) -> None:
    with disks.used(machine, tmp_path) as (users, crew), mounted_over(machine.host.path(what)):
        shown = crew.job(image=newer).settle()

        assert (shown.state, users.evicted, incidents.works(machine)) == ("Failed", [], True)
        assert shown.reason.startswith(f"'{what}' on the host cannot be changed, so no change begins: ")
        assert "unmount" in shown.reason


@pytest.mark.parametrize("where", ["/etc/modprobe.d", "/opt"])
def test_what_is_read_only_is_refused_before_anybody_is_evicted(
    where: str, machine: machines.Machine, newer: Path, tmp_path: Path
) -> None:
    with disks.disk(machine, where, 100) as folder, disks.used(machine, tmp_path) as (users, crew):
        job = crew.job(image=newer)
        job.at("store-driver", lambda: disks.remount(folder, "ro"))
        try:
            shown = job.settle()
        finally:
            disks.remount(folder, "rw")

        assert (shown.state, users.evicted, incidents.works(machine)) == ("Failed", [], True)
        assert "read-only: mount it so that it can be written" in shown.reason


def test_a_trial_leaves_nothing_behind_and_changes_no_file(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    before = content(machine, "etc", "opt", "usr/lib/modules", "run")
    job = crew.job(image=newer)
    seen: list[dict[str, str]] = []
    job.at("try-places", lambda: seen.append(content(machine, "etc", "opt", "usr/lib/modules", "run")))

    assert job.settle().state == "Ready"
    assert seen == [before]


@pytest.mark.parametrize("step", ["place-libraries", "index-modules", "write-options"])
def test_a_disk_whose_last_inodes_go_in_a_change_has_the_old_driver_back(
    step: str, machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    with disks.disk(machine, "/opt", 100, 200) as folder:
        job = crew.job(image=newer)
        job.at(step, lambda: disks.take_inodes(folder, leave=2), event="begun")
        if step != "place-libraries":
            machine.refuse("hisi_zip")

        shown = job.settle()

        assert (shown.state, shown.reason.endswith(BACK)) == ("Failed", True), shown.reason
        assert incidents.works(machine)


def fail_the_way_back(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    """A change fails, and its rollback, too: the kernel takes no module."""
    machine.refuse("hisi_hpre", times=None)
    shown = crew.job(image=newer).settle()
    assert "cannot be restored" in shown.reason
    machine.mend()


def test_a_boot_after_a_failed_rollback_is_no_crash(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    fail_the_way_back(machine, newer, crew)
    machine.reboot()

    shown = crew.job(image=newer).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True), shown.reason


def test_the_earlier_driver_comes_back_on_a_full_disk_after_a_failed_rollback(
    machine: machines.Machine, image: Path, newer: Path, crew: incidents.Crew
) -> None:
    with disks.disk(machine, "/opt", 100, 200) as folder:
        job = crew.job(image=newer)
        job.at("place-libraries", lambda: disks.take_inodes(folder, leave=2), event="begun")
        machine.refuse("hisi_hpre", times=None)
        assert "cannot be restored" in job.settle().reason
        machine.mend()
        disks.take_inodes(folder)
        machine.reboot()

        shown = crew.job("2.0.1", image).settle()

        assert (shown.state, incidents.works(machine)) == ("Ready", True), shown.reason


def test_a_way_back_writes_nothing_that_is_right(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    with disks.disk(machine, "/opt", 100) as folder:
        job = crew.job(image=newer)
        # Nothing below was changed yet.
        job.at("unload-modules", lambda: disks.remount(folder, "ro"))
        try:
            shown = job.settle()
        finally:
            disks.remount(folder, "rw")

        assert (shown.state, shown.reason.endswith(BACK)) == ("Failed", True), shown.reason
        assert incidents.works(machine)
