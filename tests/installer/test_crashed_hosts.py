"""Hosts that a new driver has crashed: the one before is back, and there is no further try until somebody asks."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from installer.host import record
from runtime import driver_config
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine
from tests.installer.settings import Boot

pytestmark = [pytest.mark.usefixtures("crashed"), pytest.mark.long]

DOWN = "The host went down during the change to the driver 2.0.2."
BACK = (
    f"{DOWN} The host is back in its previous state. It is not tried again until the policy changes the driver or its"
    " parameters, or 'python -m installer retry' is called."
)


@pytest.fixture
def bare(tmp_path: Path) -> Machine:
    """A host without a driver."""
    return Machine(tmp_path / "bare")


def test_after_a_crash_the_driver_before_is_back(machine: Machine, crew: Crew) -> None:
    shown = crew.job().settle()

    assert (shown.state, shown.ready, shown.reason) == ("Failed", False, BACK)
    assert (incidents.works(machine), incidents.blocked(machine)) == (True, False)


def test_a_driver_that_crashed_is_not_tried_again_after_later_boots(machine: Machine, crew: Crew, boot: Boot) -> None:
    crew.job().settle()

    for _ in range(2):
        machine.reboot()
        boot.now_s += 1_000_000
        job = crew.job()
        assert (job.settle().state, job.shown.reason, job.shown.taken) == ("Failed", BACK, [])
        assert incidents.works(machine)


def test_after_a_crash_retry_tries_the_driver_again(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.settle()
    machine.mend()
    machine.host.write(homes.KAE.retry, "")

    shown = job.settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


@pytest.mark.parametrize("version", ["2.0.3", "2.0.1"], ids=["new", "old"])
def test_after_a_crash_another_wish_is_fulfilled_at_once(version: str, machine: Machine, crew: Crew) -> None:
    shown = crew.job(version).settle()

    assert (shown.state, incidents.works(machine, version), incidents.blocked(machine)) == ("Ready", True, False)


def test_a_crash_on_the_way_back_leaves_the_host_alone_until_retry(machine: Machine, crew: Crew) -> None:
    machine.let_panic("2.0.1")
    incidents.crash(machine, crew.job())

    job = crew.job()
    shown = job.settle()

    assert (shown.state, shown.reason, machine.loaded()) == (
        "Failed",
        "The host went down during the change to the driver 2.0.2, and again on the way back to the previous driver,"
        " so no driver is loaded: find out why, then call 'python -m installer retry'.",
        {},
    )
    machine.mend()
    machine.host.write(homes.KAE.retry, "")
    assert (job.settle().reason, incidents.works(machine)) == (BACK, True)


def test_a_kill_on_the_way_back_goes_on_with_it(machine: Machine, crew: Crew) -> None:
    job = crew.job()

    job.end_after("place-modules")

    assert (crew.job().settle().reason, incidents.works(machine)) == (BACK, True)


def test_the_plan_after_a_crash_is_the_way_back(machine: Machine, crew: Crew) -> None:
    made = crew.job().parts.report()

    assert made.decided.reasons == (DOWN,)
    names = [step.name for step in made.steps]
    assert names[:2] == ["announce-change", "begin-change"]
    assert names[-4:] == ["prove-old-driver", "record-old-driver", "allow-autoload", "end-change"]
    assert not {"copy-modules", "prove-driver"}.intersection(names)


def test_a_way_back_that_fails_is_tried_again_after_a_pause(machine: Machine, crew: Crew, boot: Boot) -> None:
    machine.refuse()
    job = crew.job()
    assert "The previous driver cannot be restored" in job.settle().reason
    boot.now_s += 600

    assert (job.settle().reason, incidents.works(machine)) == (BACK, True)


def test_the_pause_after_a_crash_is_seconds_for_older_releases(machine: Machine, crew: Crew) -> None:
    crew.job().settle()

    attempt = json.loads(machine.host.path(homes.KAE.record).read_text())["attempt"]

    assert (attempt["untilS"], type(attempt["untilS"]), attempt["outlastsBoot"]) == (record.NEVER_S, float, True)


def test_a_second_crash_after_retry_brings_the_driver_back(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.settle()
    machine.host.write(homes.KAE.retry, "")
    incidents.crash(machine, job)

    shown = crew.job().settle()

    assert (shown.state, shown.reason) == ("Failed", BACK)
    assert (incidents.works(machine), incidents.blocked(machine)) == (True, False)


def test_a_driver_that_crashed_twice_on_request_is_left_alone(machine: Machine, crew: Crew) -> None:
    machine.let_panic("2.0.1")
    incidents.crash(machine, crew.job())
    job = crew.job()
    job.settle()
    machine.let_panic("2.0.2")
    machine.host.write(homes.KAE.retry, "")

    assert job.settle().reason == BACK

    taken = len(job.shown.taken)
    assert (job.settle().reason, len(job.shown.taken), incidents.works(machine)) == (BACK, taken, True)


@pytest.mark.parametrize("reboots", [True, False])
def test_a_driver_that_crashed_does_not_end_the_change_to_another(reboots: bool, machine: Machine, crew: Crew) -> None:
    crew.job().settle()
    crew.job("2.0.3").end_after("unload-modules")
    if reboots:
        machine.reboot()

    shown = crew.job().settle()

    assert (shown.state, shown.reason) == ("Failed", BACK)
    assert (incidents.works(machine), incidents.blocked(machine)) == (True, False)
    machine.reboot()
    assert (crew.job().settle().reason, incidents.works(machine)) == (BACK, True)


def test_a_way_back_that_crashes_is_not_begun_again_for_a_bad_wish(machine: Machine, crew: Crew) -> None:
    shutil.rmtree(machine.image("2.0.3") / "opt/lib")
    machine.let_panic("2.0.1")
    incidents.crash(machine, crew.job("2.0.3"))

    shown = crew.job("2.0.3").settle()

    assert shown.state == "Failed"
    assert "and again on the way back to the previous driver" in shown.reason


def test_a_boot_after_a_way_back_that_failed_is_no_second_crash(machine: Machine, crew: Crew) -> None:
    machine.refuse()
    assert "cannot be restored" in crew.job().settle().reason
    machine.reboot()

    shown = crew.job().settle()

    assert (shown.reason, incidents.works(machine)) == (BACK, True)


def test_a_pause_withdraws_the_announcement_of_a_killed_change(machine: Machine, crew: Crew) -> None:
    crew.job().settle()
    crew.job("2.0.3").end_after("announce-change")
    assert machine.host.path(homes.KAE.changing).exists()

    shown = crew.job().settle()

    assert (shown.reason, incidents.works(machine)) == (BACK, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"drain": driver_config.Drain(timeout_seconds=77)},
        {"enabled_cleanup": True},
        {"leases": driver_config.Leases(namespace="kae-operator", names=(settings.MINE, settings.OTHERS))},
    ],
)
@pytest.mark.parametrize("is_back", [True, False])
def test_a_crash_is_not_forgotten_with_a_change_of_what_the_kernel_never_sees(
    is_back: bool, changes: dict[str, Any], machine: Machine, crew: Crew
) -> None:
    if is_back:
        crew.job().settle()

    shown = crew.job(**changes).settle()

    assert (shown.state, shown.reason, incidents.works(machine)) == ("Failed", BACK, True)


def test_after_a_crash_other_parameters_are_tried_at_once(machine: Machine, crew: Crew) -> None:
    crew.job().settle()
    machine.mend()

    shown = crew.job(module_parameters=settings.parameters(uacce_mode=2, pf_q_num=512)).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


LOST = (
    "A change of the driver did not end, and its record is lost, so no boot loads the driver"
    " ('/etc/modprobe.d/kae-unproved.conf'): find out whether it crashed the host, then call 'python -m installer"
    " retry', which puts the driver of the policy in its place."
)


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_without_the_record_of_a_crash_no_boot_loads_the_driver(state: str, machine: Machine, crew: Crew) -> None:
    machine.host.path(homes.KAE.record).unlink()

    for _ in range(2):
        job = crew.job(state=state)
        shown = job.settle()

        assert (shown.state, shown.reason, shown.ready, job.shown.taken) == ("Blocked", LOST, False, [])
        assert (incidents.blocked(machine), machine.loaded()) == (True, {})
        assert job.parts.report().decided.reasons == (LOST,)
        machine.reboot()


def test_after_the_loss_of_the_record_retry_notes_a_crash_again(machine: Machine, crew: Crew) -> None:
    machine.host.path(homes.KAE.record).unlink()
    job = crew.job()
    job.settle()
    machine.host.write(homes.KAE.retry, "")
    incidents.crash(machine, job)

    assert (crew.job().settle().reason, incidents.blocked(machine)) == (BACK, False)
    machine.reboot()
    assert "2.0.2" not in settings.versions(machine)


def test_after_the_loss_of_the_record_retry_installs_a_driver(machine: Machine, crew: Crew) -> None:
    machine.host.path(homes.KAE.record).unlink()
    machine.mend()
    machine.host.write(homes.KAE.retry, "")

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2"), incidents.blocked(machine)) == ("Ready", True, False)


def test_a_first_driver_that_panics_crashes_the_host_once_and_leaves_none(bare: Machine) -> None:
    loaded = bare.loaded()
    with Crew(bare) as crew:
        incidents.panic(bare, crew.job())

        shown = crew.job().settle()

        assert (shown.state, shown.reason, incidents.blocked(bare)) == ("Failed", BACK, False)
        assert [path for path in bare.files() if "updates/kae" in path] == []
        assert bare.loaded() == loaded
        bare.reboot()
        assert crew.job().settle().state == "Failed"


def test_a_first_driver_that_fails_is_let_go_after_a_kill_at_its_end(bare: Machine) -> None:
    bare.refuse()
    with Crew(bare) as crew:
        crew.job().end_after("record-old-driver")
        assert incidents.blocked(bare)

        shown = crew.job().settle()

        assert (shown.state, incidents.blocked(bare)) == ("Ready", False)
