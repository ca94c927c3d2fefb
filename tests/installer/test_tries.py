"""After a failure: when it tries again, what makes it try at once, and what never makes it hurry."""

import json
import shutil
import time
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import msgspec
import pytest

from installer.host import record
from installer.report import report
from runtime import clocks
from tests.installer import crashes, homes, incidents, machines, settings
from tests.installer.incidents import Crew, Job, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot

pytestmark = pytest.mark.long

NO_MODULES = f"The image holds no modules for the running kernel {machines.KERNEL}; it has: none."


@pytest.fixture
def bare(newer: Path) -> Path:
    """An image of the driver 2.0.2 whose modules somebody forgot."""
    shutil.rmtree(newer / "opt/lib/modules")
    return newer


def tried(machine: Machine, image: Path, **changes: Any) -> settings.Installer:
    """An installer of the driver 2.0.2 that has looked once."""
    made = settings.installer(machine, image, driver_version="2.0.2", **changes)
    made.loop.cycle()
    return made


def attempt(machine: Machine) -> record.FailedTry:
    """The last try, as it is kept on the host."""
    found = record.read(machine.host).attempt
    assert found is not None
    return found


@pytest.mark.usefixtures("installed")
def test_what_fails_before_anything_is_touched_leaves_the_old_driver_at_work(machine: Machine, bare: Path) -> None:
    machine.hold(4711, "hisi_hpre-0")
    machine.calls()

    shown = tried(machine, bare).shown

    assert (shown.state, shown.reason) == ("Failed", NO_MODULES)
    assert (settings.changes_made(machine), settings.versions(machine)) == ([], {"2.0.1"})


def test_each_pause_is_twice_as_long_as_the_one_before(machine: Machine, bare: Path, boot: Boot) -> None:
    pauses = []
    for _ in range(10):
        tried(machine, bare)
        pauses.append(attempt(machine).until_s - boot.now_s)
        boot.now_s = attempt(machine).until_s

    assert pauses == [60, 120, 240, 480, 960, 1920, 3840, 7200, 7200, 7200]
    assert (attempt(machine).failures, attempt(machine).disturbed) == (10, 0)


def test_failures_may_be_more_than_a_float_holds(machine: Machine, bare: Path, boot: Boot) -> None:
    tried(machine, bare)
    many = msgspec.structs.replace(attempt(machine), failures=5000, until_s=0)
    record.update(machine.host, attempt=many)

    tried(machine, bare)

    assert (attempt(machine).failures, attempt(machine).until_s - boot.now_s) == (5001, 7200)


def test_a_pause_is_kept_by_an_installer_that_is_started_again(machine: Machine, bare: Path, boot: Boot) -> None:
    first = tried(machine, bare)
    boot.now_s += 59
    before = machine.files()

    again = settings.installer(machine, bare, driver_version="2.0.2")
    pause_s = again.loop.cycle()

    assert (pause_s, again.shown.state, again.shown.reason) == (1, "Failed", first.shown.reason)
    assert (again.shown.steps, machine.files()) == ({}, before)


def test_after_a_boot_it_tries_at_once(machine: Machine, bare: Path, boot: Boot) -> None:
    tried(machine, bare)
    machine.reboot()
    boot.now_s = 5

    made = tried(machine, bare)

    assert made.shown.changes["failed"] == 1
    assert (attempt(machine).failures, attempt(machine).until_s) == (2, 125)


@pytest.mark.usefixtures("boot")
@pytest.mark.parametrize("wish", [{"sriov": {"zip": 0}}, {"policy": "other"}, {"install_policy": "Always"}])
def test_another_wish_is_tried_at_once_and_counts_anew(wish: dict[str, Any], machine: Machine, bare: Path) -> None:
    tried(machine, bare)
    tried(machine, bare)

    made = tried(machine, bare, **wish)

    assert (made.shown.changes["failed"], attempt(machine).failures) == (1, 1)


@pytest.mark.usefixtures("boot")
@pytest.mark.usefixtures("installed")
def test_to_go_back_to_the_old_wish_mends_it_and_forgets_the_failure(machine: Machine, image: Path, bare: Path) -> None:
    tried(machine, bare)
    machine.calls()

    shown = settings.installer(machine, image).settle()

    assert (shown.state, settings.changes_made(machine)) == ("Ready", [])
    assert record.read(machine.host).attempt is None


@pytest.mark.usefixtures("boot")
def test_what_breaks_right_after_it_was_mended_is_not_mended_again_and_again(machine: Machine, image: Path) -> None:
    made = settings.installer(machine, image)
    made.settle()
    machine.calls()
    settings.break_parameter(machine)

    pause_s = made.loop.cycle()

    assert (made.shown.state, pause_s, settings.changes_made(machine)) == ("Failed", 60, [])
    assert made.shown.reason == (
        "It was repaired a moment ago, and is broken again: Parameter pf_q_num of module hisi_zip is 64, not 256."
    )


def test_what_breaks_later_is_mended(machine: Machine, image: Path, boot: Boot) -> None:
    made = settings.installer(machine, image)
    made.settle()
    settings.break_parameter(machine)
    boot.now_s += 600

    assert made.settle().state == "Ready"

    assert machine.parameters("hisi_zip")["pf_q_num"] == 256
    assert made.shown.changes["succeeded"] == 2


@pytest.mark.parametrize("year", [1970, 2100])
def test_a_wall_clock_that_jumps_changes_no_decision(
    year: int, machine: Machine, image: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Jumped(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> "Jumped":
            return cls(year, 1, 1, tzinfo=tz)

    tried(machine, bare)
    monkeypatch.setattr(clocks, "datetime", Jumped)
    monkeypatch.setattr(time, "time", lambda: Jumped(year, 1, 1).timestamp())

    again = tried(machine, bare)
    other = settings.installer(machine, image).settle()

    assert (again.shown.state, again.shown.steps) == ("Failed", {})
    assert other.state == "Ready"
    assert record.read(machine.host).since == f"{year}-01-01T00:00:00Z"


@pytest.fixture
def in_vain(newer: Path, users: Users, crew: Crew, boot: Boot) -> Job:
    """An installer that has evicted a pod three times for a driver that does not load."""
    crew.job("2.0.1").settle()
    crashes.spoil(newer, machines.KERNEL)
    job = crew.job()
    for _ in range(3):
        users.come(incidents.POD)
        job.settle()
        boot.now_s += 7200
    job.shown.taken.clear()
    return job


def test_after_three_evictions_in_vain_it_stops(machine: Machine, in_vain: Job, users: Users, boot: Boot) -> None:
    boot.now_s += 1_000_000

    in_vain.settle()

    assert (in_vain.shown.state, in_vain.shown.taken, len(users.evicted)) == ("Failed", [], 3)
    assert in_vain.shown.reason.endswith(
        " Device users were disturbed 3 times in vain, so it is not tried again until the policy changes, the host"
        " boots, or 'python -m installer retry' is called."
    )
    assert json.loads(report.as_json(in_vain.parts.report()))["next"][-1] == (
        "Repair what the last try names, or change the policy; then call 'python -m installer retry'."
    )
    assert incidents.works(machine)


@pytest.mark.parametrize("how", ["a boot", "retry", "a new wish"])
def test_what_disturbed_in_vain_is_tried_again_after(how: str, machine: Machine, in_vain: Job, crew: Crew) -> None:
    if how == "a boot":
        machine.reboot()
    elif how == "retry":
        machine.host.write(homes.KAE.retry, "")
    wish: dict[str, Any] = {"sriov": {"zip": 1}} if how == "a new wish" else {}
    job = in_vain if how == "retry" else crew.job(**wish)

    job.settle()

    assert (job.shown.state, "load-modules" in job.shown.taken, incidents.works(machine)) == ("Failed", True, True)
    assert attempt(machine).failures == (1 if how == "a new wish" else 4)


@pytest.mark.usefixtures("boot")
@pytest.mark.usefixtures("installed")
def test_a_retry_that_a_healthy_host_does_not_need_ends_no_later_pause(machine: Machine, image: Path) -> None:
    machine.host.write(homes.KAE.retry, "")

    settings.installer(machine, image).settle()

    assert not machine.host.path(homes.KAE.retry).exists()
