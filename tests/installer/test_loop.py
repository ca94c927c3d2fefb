"""The running installer: how a host stands when it has been looked at, and what was done to it."""

import inspect
import sys
import time
from pathlib import Path

import pytest

from installer import loop
from installer.decide import decision
from installer.host import record
from installer.report import driver_state
from runtime import driver_config, errors
from tests.installer import homes, kernel, modulefiles, settings
from tests.installer.machines import Machine

HPRE = "hisi_hpre-0"


def test_a_new_host_changes_and_is_ready(machine: Machine, image: Path) -> None:
    # Once with programs that are processes of their own.
    machine.host = kernel.Host(machine.root)
    made = settings.installer(machine, image)

    assert made.loop.cycle() == 0
    assert (made.shown.state, made.shown.ready) == ("Changing", False)
    assert made.loop.cycle() == 60

    assert (made.shown.state, made.shown.reason) == ("Ready", "The driver 2.0.1 is loaded and verified.")
    assert set(machine.loaded()) == set(modulefiles.DRIVER)
    assert set(machine.nodes().values()) == {0o666}
    assert made.shown.changes == {"succeeded": 1, "failed": 0, "abandoned": 0}


def test_what_a_plan_shows_is_what_is_done(machine: Machine, image: Path) -> None:
    made = settings.installer(machine, image)
    planned = [step.name for step in made.parts.report().steps]

    made.settle()

    assert list(made.shown.steps) == planned


@pytest.mark.usefixtures("installed")
def test_a_host_that_is_right_stays_as_it_is(machine: Machine, image: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine.hold(4711, HPRE)
    machine.calls()
    files, runs = machine.files(), machine.files("run")

    began = time.perf_counter()
    made = settings.installer(machine, image)
    pause_s = made.loop.cycle()
    took_s = time.perf_counter() - began

    with capsys.disabled():
        sys.stdout.write(f" (already right: {took_s * 1000:.0f} ms) ")
    assert (made.shown.state, pause_s) == ("Ready", 60)
    assert (machine.files(), machine.files("run")) == (files, runs)
    assert machine.calls() == [f"modinfo -k {machine.kernel} {' '.join(modulefiles.DRIVER)}"]
    assert (made.shown.steps, made.shown.changes["succeeded"]) == ({}, 0)


def test_a_host_whose_kernel_is_another_pools_waits_and_is_not_ready(machine: Machine, image: Path) -> None:
    before = machine.files()

    shown = settings.installer(machine, image, kernels=driver_config.Kernels(pattern="^6")).settle()

    assert (shown.state, shown.ready) == ("Waiting", False)
    assert (machine.files(), settings.changes_made(machine)) == (before, [])


@pytest.mark.usefixtures("installed")
def test_what_an_interrupted_change_left_on_a_host_that_is_right_is_removed(machine: Machine, image: Path) -> None:
    machine.host.write(homes.KAE.changing, "{}\n")
    last = record.FailedTry(digest="", state="Failed", reason="", failures=1, boot="", until_s=0)
    record.update(machine.host, attempt=last)

    shown = settings.installer(machine, image).settle()

    assert (shown.state, record.read(machine.host).attempt) == ("Ready", None)
    assert not machine.host.path(homes.KAE.changing).exists()


@pytest.mark.parametrize("name", ["osrelease", "random/boot_id"])
def test_a_folder_that_is_no_host_is_said_to_be_none(name: str, machine: Machine, image: Path) -> None:
    made = settings.installer(machine, image)
    (machine.root / "proc/sys/kernel" / name).unlink()

    with pytest.raises(errors.Failure, match="is not the root of a host"):
        made.loop.cycle()


def test_every_state_that_the_program_takes_is_one_of_the_metric() -> None:
    text = "".join(map(inspect.getsource, (loop, decision)))

    for name in driver_state.STATES:
        assert f'"{name}"' in text
