"""Crashes of the host in a change: one at most, then the driver before, and no further try until somebody asks for it.

Ends of the power are the same to the installer: it finds a change that began in another boot.
"""

import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from installer import config, paths
from installer.host import record
from tests.installer import crashes, incidents, machines, modulefiles, settings
from tests.installer.fakes import kernel
from tests.kube import apiserver

pytestmark = pytest.mark.usefixtures("installed")

DOWN = "The host went down during the change to the driver 2.0.2."
BACK = (
    f"{DOWN} The host is back in its previous state. It is not tried again until the policy changes the driver or its"
    " parameters, or 'python -m installer retry' is called."
)


class PowerCut(BaseException):
    """The end of everything."""


@pytest.fixture
def bare(tmp_path: Path) -> machines.Machine:
    """A host without a driver."""
    return machines.Machine(tmp_path / "bare")


def panicked(machine: machines.Machine, crew: incidents.Crew, image: Path) -> None:
    """Let the driver 2.0.2 of an image panic as it is loaded, and boot."""
    machine.let_panic("2.0.2")
    with pytest.raises(kernel.Panic):
        crew.job(image).settle()
    machine.reboot()


def cut(machine: machines.Machine, job: incidents.Job, step: str) -> None:
    """Cut the power after a step, and boot."""

    def end() -> None:
        raise PowerCut

    job.at(step, end)
    with pytest.raises(PowerCut):
        job.settle()
    machine.reboot()


def blocked(machine: machines.Machine) -> bool:
    return machine.host.path(paths.KAE.blocked).exists()


def test_a_driver_that_panics_as_it_loads_crashes_the_host_once_and_the_one_before_is_back(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)

    shown = crew.job(newer).settle()

    assert (shown.state, shown.ready, shown.reason) == ("Failed", False, BACK)
    assert (incidents.works(machine), blocked(machine)) == (True, False)


def test_a_driver_that_panicked_is_not_tried_again_also_after_later_boots(
    machine: machines.Machine, newer: Path, crew: incidents.Crew, boot: settings.Boot
) -> None:
    panicked(machine, crew, newer)
    crew.job(newer).settle()

    for _ in range(2):
        machine.reboot()
        boot.now_s += 1_000_000
        job = crew.job(newer)
        assert (job.settle().state, job.shown.reason, job.shown.taken) == ("Failed", BACK, [])
        assert incidents.works(machine)


def test_a_first_driver_that_panics_crashes_the_host_once_and_leaves_none(
    bare: machines.Machine, tmp_path: Path
) -> None:
    bare.add_image(tmp_path / "first", "2.0.2")
    loaded = bare.loaded()
    with incidents.Crew(bare) as crew:
        panicked(bare, crew, tmp_path / "first")

        shown = crew.job(tmp_path / "first").settle()

        assert (shown.state, shown.reason, blocked(bare)) == ("Failed", BACK, False)
        assert [path for path in bare.files() if "updates/kae" in path] == []
        assert bare.loaded() == loaded
        bare.reboot()
        assert crew.job(tmp_path / "first").settle().state == "Failed"


def test_no_boot_loads_a_driver_before_it_is_proved(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    cut(machine, crew.job(newer), "load-modules")

    assert machine.loaded() == {}
    text = machine.host.path(paths.KAE.blocked).read_text()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        f"blacklist {name}" for name in modulefiles.DRIVER
    ]


def test_the_driver_is_kept_from_udev_before_the_first_module_is_unloaded_and_until_it_is_recorded(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    job = crew.job(newer)

    job.settle()

    taken = job.shown.taken
    change = taken[taken.index("begin-change") : taken.index("end-change") + 1]
    assert change[:3] == ["begin-change", "block-autoload", "unload-modules"]
    assert change[-4:] == ["prove-driver", "record-driver", "allow-autoload", "end-change"]
    assert not blocked(machine)


def test_a_driver_that_was_recorded_and_is_still_kept_from_udev_is_loaded_and_let_go(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    cut(machine, crew.job(newer), "record-driver")
    assert machine.loaded() == {}

    shown = crew.job(newer).settle()

    assert (shown.state, incidents.works(machine, "2.0.2"), blocked(machine)) == ("Ready", True, False)
    machine.reboot()
    assert settings.versions(machine) == {"2.0.2"}


def test_a_driver_that_came_back_and_is_still_kept_from_udev_is_there_after_the_next_failure_too(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    crashes.spoil(newer, machine.kernel)
    cut(machine, crew.job(newer), "record-old-driver")

    shown = crew.job(newer).settle()

    assert (shown.state, incidents.works(machine), blocked(machine)) == ("Failed", True, False)


def test_a_kill_after_the_record_leaves_nothing_that_keeps_the_driver_from_udev(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    job = crew.job(newer)

    def end() -> None:
        raise PowerCut

    job.at("record-driver", end)
    with pytest.raises(PowerCut):
        job.settle()
    again = crew.job(newer)

    assert (again.settle().state, again.shown.taken, blocked(machine)) == ("Ready", [], False)


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_a_change_that_fails_or_removes_leaves_nothing_that_keeps_a_driver_from_udev(
    state: str, machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    machine.fail("modprobe hisi_zip", "modprobe: ERROR: could not insert 'hisi_zip': No such device", times=1)

    shown = crew.job(newer, state=state).settle()

    assert (shown.state, blocked(machine)) == ("Failed" if state == "Present" else "Ready", False)


def test_after_a_crash_retry_tries_the_driver_again(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    job = crew.job(newer)
    job.settle()
    machine.mend()
    machine.host.write(paths.KAE.retry, "")

    shown = job.settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


def test_after_a_crash_a_new_wish_is_tried_at_once(
    machine: machines.Machine, newer: Path, tmp_path: Path, crew: incidents.Crew
) -> None:
    machine.add_image(tmp_path / "newest", "2.0.3")
    panicked(machine, crew, newer)

    shown = crew.job(tmp_path / "newest", "2.0.3").settle()

    assert (shown.state, incidents.works(machine, "2.0.3"), blocked(machine)) == ("Ready", True, False)


def test_the_old_wish_is_fulfilled_at_once_after_a_crash_of_the_new_one(
    machine: machines.Machine, image: Path, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)

    shown = crew.job(image, "2.0.1").settle()

    assert (shown.state, incidents.works(machine), blocked(machine)) == ("Ready", True, False)


def test_a_host_that_goes_down_on_the_way_back_too_is_left_alone_until_retry(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    machine.let_panic("2.0.1")
    with pytest.raises(kernel.Panic):
        crew.job(newer).settle()
    machine.reboot()

    job = crew.job(newer)
    shown = job.settle()

    assert (shown.state, shown.reason, machine.loaded()) == (
        "Failed",
        "The host went down during the change to the driver 2.0.2, and again on the way back to the previous driver,"
        " so no driver is loaded: find out why, then call 'python -m installer retry'.",
        {},
    )
    machine.mend()
    machine.host.write(paths.KAE.retry, "")
    assert (job.settle().reason, incidents.works(machine)) == (BACK, True)


def test_a_kill_on_the_way_back_goes_on_with_it(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    panicked(machine, crew, newer)
    job = crew.job(newer)

    def end() -> None:
        raise PowerCut

    job.at("place-modules", end)
    with pytest.raises(PowerCut):
        job.settle()

    assert (crew.job(newer).settle().reason, incidents.works(machine)) == (BACK, True)


def test_the_plan_after_a_crash_is_the_way_back(machine: machines.Machine, newer: Path, crew: incidents.Crew) -> None:
    panicked(machine, crew, newer)

    made = crew.job(newer).parts.report()

    assert made.decided.reasons == (DOWN,)
    names = [step.name for step in made.steps]
    assert names[:2] == ["announce-change", "begin-change"]
    assert names[-4:] == ["prove-old-driver", "record-old-driver", "allow-autoload", "end-change"]
    assert not {"copy-modules", "prove-driver"}.intersection(names)


def test_the_way_back_from_a_crash_that_fails_is_tried_again_after_a_pause(
    machine: machines.Machine, newer: Path, crew: incidents.Crew, boot: settings.Boot
) -> None:
    panicked(machine, crew, newer)
    machine.fail("modprobe hisi_zip", "modprobe: ERROR: could not insert 'hisi_zip': No such device", times=1)
    job = crew.job(newer)
    assert "The previous driver cannot be restored" in job.settle().reason
    boot.now_s += 600

    assert (job.settle().reason, incidents.works(machine)) == (BACK, True)


def test_a_removal_that_the_power_ended_brings_the_driver_back_and_says_so(
    machine: machines.Machine, image: Path, crew: incidents.Crew
) -> None:
    cut(machine, crew.job(image, "2.0.1", state="Absent"), "place-modules")

    shown = crew.job(image, "2.0.1", state="Absent").settle()

    assert (shown.state, incidents.works(machine)) == ("Failed", True)
    assert shown.reason.startswith("The host went down during the removal of the driver.")


def test_a_change_that_an_older_release_began_is_resumed_in_another_boot(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    cut(machine, crew.job(newer), "place-modules")
    known = json.loads(machine.host.path(paths.KAE.record).read_text())
    for field in ("boot", "asked", "back"):
        del known["change"][field]
    machine.host.path(paths.KAE.record).write_text(json.dumps(known))

    shown = crew.job(newer).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


def test_the_pause_after_a_crash_is_a_number_of_seconds_for_older_releases(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    crew.job(newer).settle()

    attempt = json.loads(machine.host.path(paths.KAE.record).read_text())["attempt"]

    assert (attempt["untilS"], type(attempt["untilS"]), attempt["outlastsBoot"]) == (record.NEVER_S, float, True)


def killed(job: incidents.Job, step: str) -> None:
    """Kill the installer after a step; the host stays up."""

    def end() -> None:
        raise PowerCut

    job.at(step, end)
    with pytest.raises(PowerCut):
        job.settle()


def test_a_second_crash_after_retry_brings_the_driver_back_as_the_first_one_does(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    job = crew.job(newer)
    job.settle()
    machine.host.write(paths.KAE.retry, "")
    with pytest.raises(kernel.Panic):
        job.settle()
    machine.reboot()

    shown = crew.job(newer).settle()

    assert (shown.state, shown.reason, incidents.works(machine), blocked(machine)) == ("Failed", BACK, True, False)


def test_a_driver_that_crashed_the_host_twice_on_request_is_not_tried_again_once_it_was_left_alone(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    machine.let_panic("2.0.1")
    with pytest.raises(kernel.Panic):
        crew.job(newer).settle()
    machine.reboot()
    job = crew.job(newer)
    job.settle()
    machine.let_panic("2.0.2")
    machine.host.write(paths.KAE.retry, "")

    assert job.settle().reason == BACK

    taken = len(job.shown.taken)
    assert (job.settle().reason, len(job.shown.taken), incidents.works(machine)) == (BACK, taken, True)


@pytest.mark.parametrize("step", ["announce-change", "unload-modules", "place-modules"])
def test_a_change_that_retry_began_goes_on_after_a_kill(
    step: str, machine: machines.Machine, newer: Path, crew: incidents.Crew, boot: settings.Boot
) -> None:
    machine.fail("modprobe hisi_zip", "modprobe: ERROR: could not insert 'hisi_zip': No such device", times=1)
    job = crew.job(newer)
    assert job.settle().state == "Failed"
    machine.host.write(paths.KAE.retry, "")
    killed(job, step)

    shown = crew.job(newer).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


@pytest.mark.parametrize("reboots", [True, False])
def test_a_driver_that_crashed_the_host_is_not_tried_to_end_the_change_to_another_one(
    reboots: bool, machine: machines.Machine, newer: Path, tmp_path: Path, crew: incidents.Crew
) -> None:
    machine.add_image(tmp_path / "newest", "2.0.3")
    panicked(machine, crew, newer)
    crew.job(newer).settle()
    killed(crew.job(tmp_path / "newest", "2.0.3"), "unload-modules")
    if reboots:
        machine.reboot()

    shown = crew.job(newer).settle()

    assert (shown.state, shown.reason, incidents.works(machine), blocked(machine)) == ("Failed", BACK, True, False)
    machine.reboot()
    assert (crew.job(newer).settle().reason, incidents.works(machine)) == (BACK, True)


def test_a_change_that_was_killed_keeps_its_lease_when_the_next_installer_is_stopped(
    machine: machines.Machine, newer: Path, server: apiserver.ApiServer, users: incidents.Users, crew: incidents.Crew
) -> None:
    users.come(incidents.POD)
    killed(crew.job(newer), "unload-modules")
    job = crew.job(newer)
    job.at("announce-change", machine.host.stop.set)

    job.loop.cycle()

    assert incidents.holder(server) == "kp920-1"


def test_a_crashed_host_keeps_its_lease_while_the_kubelet_says_nothing(
    machine: machines.Machine, newer: Path, server: apiserver.ApiServer, users: incidents.Users, crew: incidents.Crew
) -> None:
    users.come(incidents.POD)
    panicked(machine, crew, newer)
    users.kubelet.failure = grpc.StatusCode.UNAVAILABLE

    shown = crew.job(newer).settle()

    assert (shown.state, incidents.holder(server)) == ("Failed", "kp920-1")


def test_a_way_back_that_crashes_the_host_is_not_begun_again_for_a_wish_that_cannot_be_staged(
    machine: machines.Machine, newer: Path, tmp_path: Path, crew: incidents.Crew
) -> None:
    machine.add_image(tmp_path / "newest", "2.0.3", prebuilt=False)
    panicked(machine, crew, newer)
    machine.let_panic("2.0.1")
    with pytest.raises(kernel.Panic):
        crew.job(tmp_path / "newest", "2.0.3").settle()
    machine.reboot()

    shown = crew.job(tmp_path / "newest", "2.0.3").settle()

    assert shown.state == "Failed"
    assert "and again on the way back to the previous driver" in shown.reason


def test_a_boot_after_a_way_back_that_failed_is_no_second_crash(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    machine.fail("modprobe hisi_zip", "modprobe: ERROR: could not insert 'hisi_zip': No such device", times=1)
    assert "cannot be restored" in crew.job(newer).settle().reason
    machine.reboot()

    shown = crew.job(newer).settle()

    assert (shown.reason, incidents.works(machine)) == (BACK, True)


def test_a_change_that_has_begun_stays_announced_while_a_pod_holds_it_up(
    machine: machines.Machine, newer: Path, server: apiserver.ApiServer, users: incidents.Users, crew: incidents.Crew
) -> None:
    killed(crew.job(newer), "begin-change")
    users.come(incidents.POD)
    server.state.budgets[incidents.POD] = "shop/checkout-budget"

    shown = crew.job(newer).settle()

    assert shown.state == "Blocked", shown.reason
    assert machine.host.path(paths.KAE.changing).exists()
    assert incidents.holder(server) == "kp920-1"


def test_a_pause_withdraws_the_announcement_that_a_killed_change_to_another_driver_left(
    machine: machines.Machine, newer: Path, tmp_path: Path, crew: incidents.Crew
) -> None:
    machine.add_image(tmp_path / "newest", "2.0.3")
    panicked(machine, crew, newer)
    crew.job(newer).settle()
    killed(crew.job(tmp_path / "newest", "2.0.3"), "announce-change")
    assert machine.host.path(paths.KAE.changing).exists()

    shown = crew.job(newer).settle()

    assert (shown.reason, incidents.works(machine)) == (BACK, True)


@pytest.mark.parametrize(
    "changes",
    [
        {"drain": config.Drain(timeout_seconds=77)},
        {"enabled_cleanup": True},
        {"leases": config.Leases(namespace="kae-operator", names=(settings.MINE, settings.OTHERS))},
    ],
)
@pytest.mark.parametrize("is_back", [True, False])
def test_a_crash_is_not_forgotten_with_a_change_of_what_the_kernel_never_sees(
    is_back: bool, changes: dict[str, Any], machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    if is_back:
        crew.job(newer).settle()

    shown = crew.job(newer, **changes).settle()

    assert (shown.state, shown.reason, incidents.works(machine)) == ("Failed", BACK, True)


def test_after_a_crash_other_parameters_are_tried_at_once(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    crew.job(newer).settle()
    machine.mend()

    shown = crew.job(newer, module_parameters=settings.parameters(uacce_mode=2, pf_q_num=512)).settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


LOST = (
    "A change of the driver did not end, and its record is lost, so no boot loads the driver"
    " ('/etc/modprobe.d/kae-unproved.conf'): find out whether it crashed the host, then call 'python -m installer"
    " retry', which puts the driver of the policy in its place."
)


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_without_the_record_of_a_crash_no_boot_loads_the_driver_and_the_host_says_so(
    state: str, machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    machine.host.path(paths.KAE.record).unlink()

    for _ in range(2):
        job = crew.job(newer, state=state)
        shown = job.settle()

        assert (shown.state, shown.reason, shown.ready, job.shown.taken) == ("Blocked", LOST, False, [])
        assert (blocked(machine), machine.loaded()) == (True, {})
        assert job.parts.report().decided.reasons == (LOST,)
        machine.reboot()


def test_after_the_loss_of_the_record_retry_tries_the_driver_and_a_crash_is_noted_again(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    machine.host.path(paths.KAE.record).unlink()
    job = crew.job(newer)
    job.settle()
    machine.host.write(paths.KAE.retry, "")
    with pytest.raises(kernel.Panic):
        job.settle()
    machine.reboot()

    assert (crew.job(newer).settle().reason, blocked(machine)) == (BACK, False)
    machine.reboot()
    assert "2.0.2" not in settings.versions(machine)


def test_after_the_loss_of_the_record_retry_installs_a_driver_that_works(
    machine: machines.Machine, newer: Path, crew: incidents.Crew
) -> None:
    panicked(machine, crew, newer)
    machine.host.path(paths.KAE.record).unlink()
    machine.mend()
    machine.host.write(paths.KAE.retry, "")

    shown = crew.job(newer).settle()

    assert (shown.state, incidents.works(machine, "2.0.2"), blocked(machine)) == ("Ready", True, False)


def test_a_first_driver_that_fails_is_let_go_also_after_a_kill_at_the_end_of_the_way_back(
    bare: machines.Machine, tmp_path: Path
) -> None:
    bare.add_image(tmp_path / "first", "2.0.2")
    bare.fail("modprobe hisi_zip", "modprobe: ERROR: could not insert 'hisi_zip': No such device", times=1)
    with incidents.Crew(bare) as crew:
        killed(crew.job(tmp_path / "first"), "record-old-driver")
        assert blocked(bare)

        shown = crew.job(tmp_path / "first").settle()

        assert (shown.state, blocked(bare)) == ("Ready", False)
