"""Crashes of the host in a change: one at most, then the driver before, and no further try until somebody asks for it.

Ends of the power are the same to the installer: it finds a change that began in another boot.
"""

import json
from pathlib import Path

import grpc
import pytest

from tests.installer import crashes, homes, incidents, modulefiles, settings
from tests.installer.incidents import Crew, Job, Users
from tests.installer.machines import Machine
from tests.installer.settings import Boot
from tests.kube.apiserver import ApiServer

pytestmark = [pytest.mark.usefixtures("installed"), pytest.mark.long]


def cut(machine: Machine, job: Job, step: str) -> None:
    """Cut the power after a step, and boot."""
    job.end_after(step)
    machine.reboot()


def test_no_boot_loads_a_driver_before_it_is_proved(machine: Machine, crew: Crew) -> None:
    cut(machine, crew.job(), "load-modules")

    assert machine.loaded() == {}
    text = machine.host.path(homes.KAE.blocked).read_text()
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        f"blacklist {name}" for name in modulefiles.DRIVER
    ]


def test_a_driver_is_kept_from_udev_until_it_is_recorded(machine: Machine, crew: Crew) -> None:
    job = crew.job()

    job.settle()

    taken = job.shown.taken
    change = taken[taken.index("begin-change") : taken.index("end-change") + 1]
    assert change[:3] == ["begin-change", "block-autoload", "unload-modules"]
    assert change[-4:] == ["prove-driver", "record-driver", "allow-autoload", "end-change"]
    assert not incidents.blocked(machine)


def test_a_recorded_driver_that_is_kept_from_udev_is_loaded_and_let_go(machine: Machine, crew: Crew) -> None:
    cut(machine, crew.job(), "record-driver")
    assert machine.loaded() == {}

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2"), incidents.blocked(machine)) == ("Ready", True, False)
    machine.reboot()
    assert settings.versions(machine) == {"2.0.2"}


def test_a_driver_that_came_back_is_there_after_the_next_failure_too(machine: Machine, newer: Path, crew: Crew) -> None:
    crashes.spoil(newer, machine.kernel)
    cut(machine, crew.job(), "record-old-driver")

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine), incidents.blocked(machine)) == ("Failed", True, False)


def test_a_kill_after_the_record_leaves_nothing_that_keeps_the_driver_from_udev(machine: Machine, crew: Crew) -> None:
    job = crew.job()

    job.end_after("record-driver")
    again = crew.job()

    assert (again.settle().state, again.shown.taken, incidents.blocked(machine)) == ("Ready", [], False)


@pytest.mark.parametrize("state", ["Present", "Absent"])
def test_a_change_that_fails_or_removes_keeps_no_driver_from_udev(state: str, machine: Machine, crew: Crew) -> None:
    machine.refuse()

    shown = crew.job(state=state).settle()

    assert (shown.state, incidents.blocked(machine)) == ("Failed" if state == "Present" else "Ready", False)


def test_a_removal_that_the_power_ended_brings_the_driver_back_and_says_so(machine: Machine, crew: Crew) -> None:
    cut(machine, crew.job("2.0.1", state="Absent"), "place-modules")

    shown = crew.job("2.0.1", state="Absent").settle()

    assert (shown.state, incidents.works(machine)) == ("Failed", True)
    assert shown.reason.startswith("The host went down during the removal of the driver.")


def test_a_change_that_an_older_release_began_is_resumed_in_another_boot(machine: Machine, crew: Crew) -> None:
    cut(machine, crew.job(), "place-modules")
    known = json.loads(machine.host.path(homes.KAE.record).read_text())
    for field in ("boot", "asked", "back"):
        del known["change"][field]
    machine.host.path(homes.KAE.record).write_text(json.dumps(known))

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


@pytest.mark.parametrize("step", ["announce-change", "unload-modules", "place-modules"])
def test_a_change_that_retry_began_goes_on_after_a_kill(step: str, machine: Machine, crew: Crew, boot: Boot) -> None:
    machine.refuse()
    job = crew.job()
    assert job.settle().state == "Failed"
    machine.host.write(homes.KAE.retry, "")
    job.end_after(step)

    shown = crew.job().settle()

    assert (shown.state, incidents.works(machine, "2.0.2")) == ("Ready", True)


def test_a_change_that_was_killed_keeps_its_lease_when_the_next_installer_is_stopped(
    machine: Machine, server: ApiServer, users: Users, crew: Crew
) -> None:
    users.come(incidents.POD)
    crew.job().end_after("unload-modules")
    job = crew.job()
    job.at("announce-change", machine.host.stop.set)

    job.loop.cycle()

    assert incidents.holder(server) == "kp920-1"


def test_a_begun_change_stays_announced_while_a_pod_holds_it_up(
    machine: Machine, server: ApiServer, users: Users, crew: Crew
) -> None:
    crew.job().end_after("begin-change")
    users.come(incidents.POD)
    server.state.budgets[incidents.POD] = "shop/checkout-budget"

    shown = crew.job().settle()

    assert shown.state == "Blocked", shown.reason
    assert machine.host.path(homes.KAE.changing).exists()
    assert incidents.holder(server) == "kp920-1"


def test_a_crashed_host_keeps_its_lease_while_the_kubelet_says_nothing(
    machine: Machine, newer: Path, server: ApiServer, users: Users, crew: Crew
) -> None:
    users.come(incidents.POD)
    incidents.panic(machine, crew.job())
    users.kubelet.failure = grpc.StatusCode.UNAVAILABLE

    shown = crew.job().settle()

    assert (shown.state, incidents.holder(server)) == ("Failed", "kp920-1")
