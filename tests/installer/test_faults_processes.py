"""Installers that end on a signal or are killed during their work, and two of them on one host."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installer.host import record
from runtime import driver_config
from tests import waits
from tests.installer import homes, incidents, settings
from tests.installer import kernel as behind
from tests.installer.incidents import Crew
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = pytest.mark.usefixtures("installed")

ROOT = Path(__file__).parents[2]
DEADLINE_S = 30


class Pods:
    """Pods of the installer of the driver 2.0.2 on a host."""

    def __init__(self, machine: Machine, image: Path, folder: Path) -> None:
        """None runs yet."""
        self._machine = machine
        self._folder = folder
        self._running: list[subprocess.Popen[str]] = []
        stated = settings.config(driver_version="2.0.2", drain=driver_config.Drain(timeout_seconds=600))
        (folder / "config.json").write_text(settings.text(stated))
        self._options = {
            "--config": folder / "config.json",
            "--host-root": machine.root,
            "--image-root": image,
            "--kubeconfig": folder / "kubeconfig",
        }

    def start(self, name: str) -> "subprocess.Popen[str]":
        """One more; what it says to the kubelet lies in a folder of this name."""
        (self._folder / name).mkdir()
        options = {**self._options, "--program-dir": self._folder / name}
        words = [str(word) for pair in options.items() for word in pair]
        command = [sys.executable, "-c", behind.MAIN, *words]
        started = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._running.append(started)
        return started

    def is_ready(self, name: str) -> bool:
        """Return whether the pod of this name is ready."""
        return (self._folder / name / "ready").exists()

    def end(self) -> None:
        """Kills what still runs."""
        for started in self._running:
            started.kill()
            started.communicate(timeout=DEADLINE_S)


@pytest.fixture
def pods(machine: Machine, newer: Path, tmp_path: Path, server: ApiServer) -> Iterator[Pods]:
    """Pods that find an API server."""
    del server  # Its kubeconfig lies in the folder.
    made = Pods(machine, newer, tmp_path)
    yield made
    made.end()


def delay(machine: Machine, command: str, seconds: float) -> None:
    """Lets the next call of a command take its time, and do nothing."""
    failure = {"command": command, "text": "", "code": 0, "times": 1, "seconds": seconds}
    (machine.root / "fake/failures.json").write_text(json.dumps([failure]))


def called(machine: Machine, command: str) -> Callable[[], bool]:
    """Return a condition that is true once a command has been called."""
    calls = machine.root / "fake/calls"
    return lambda: calls.exists() and any(line.startswith(command) for line in calls.read_text().splitlines())


def ended(pod: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> int:
    """Sends a signal, and waits for the exit code."""
    pod.send_signal(number)
    pod.communicate(timeout=DEADLINE_S)
    return pod.returncode


@pytest.mark.long
@pytest.mark.parametrize("question", ["modinfo -k", "modinfo -F"], ids=["look", "staging"])
def test_sigterm_in_a_look_or_a_staging_leaves_nothing(question: str, machine: Machine, pods: Pods) -> None:
    delay(machine, question, 60)
    pod = pods.start("one")
    waits.until(called(machine, question))

    assert ended(pod) == 0

    assert incidents.works(machine)
    assert not machine.host.path(f"{homes.KAE.drivers}/.new").exists()
    assert record.read(machine.host).attempt is None


def test_sigterm_before_anything_is_disturbed_lets_nothing_begin(machine: Machine, crew: Crew) -> None:
    job = crew.job()
    job.at("store-driver", machine.host.stop.set)
    machine.calls()

    job.loop.cycle()

    assert "announce-change" not in job.shown.taken
    assert (settings.changes_made(machine), incidents.works(machine)) == ([], True)
    machine.host.stop.clear()
    assert crew.job().settle().state == "Ready"


@pytest.mark.long
@pytest.mark.parametrize("step", ["rmmod hisi_zip", "depmod"])
def test_sigterm_after_an_unloading_is_obeyed_with_a_whole_driver(step: str, machine: Machine, pods: Pods) -> None:
    delay(machine, step, 1)
    pod = pods.start("one")
    waits.until(called(machine, step))

    assert ended(pod) == 0

    # An rmmod that does nothing and says that it did is a failure, and the old driver comes back.
    assert incidents.works(machine, "2.0.1" if step.startswith("rmmod") else "2.0.2")


def test_after_the_unloading_no_question_to_the_host_is_broken_off(machine: Machine, crew: Crew) -> None:
    def end() -> None:
        machine.host.stop.set()
        delay(machine, "modinfo -k", 0.5)

    job = crew.job()
    job.at("prove-driver", end, event="begun")

    job.loop.cycle()

    # What is not answered is no proof; but it is an answer, and the old driver is back.
    assert (job.shown.state, incidents.works(machine)) == ("Failed", True)


@pytest.mark.long
def test_of_two_installers_the_second_touches_nothing_until_the_first_is_killed(machine: Machine, pods: Pods) -> None:
    machine.hold(4711, "hisi_hpre-0")
    first = pods.start("first")
    waits.until(machine.host.path(homes.KAE.changing).exists)
    second = pods.start("second")
    assert second.stderr is not None
    _, line = (json.loads(second.stderr.readline()) for _ in range(2))
    machine.calls()
    assert line["message"] == "Another installer is at work on this host; waiting for its end."

    assert ended(first, signal.SIGKILL) == -signal.SIGKILL
    waited = machine.calls()
    machine.release(4711)
    waits.until(lambda: pods.is_ready("second"))

    assert waited == []
    assert incidents.works(machine, "2.0.2")


@pytest.mark.long
def test_the_second_installer_goes_on_where_the_first_was_killed(machine: Machine, pods: Pods) -> None:
    delay(machine, "rmmod hisi_sec2", 3)
    first = pods.start("first")
    waits.until(called(machine, "rmmod hisi_sec2"))
    second = pods.start("second")
    assert second.stderr is not None
    _, told = second.stderr.readline(), second.stderr.readline()
    assert "Another installer is at work" in told

    ended(first, signal.SIGKILL)
    waits.until(lambda: pods.is_ready("second"))

    assert incidents.works(machine, "2.0.2")
    assert ended(second) == 0
