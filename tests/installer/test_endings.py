"""Being ended, and not being alone on a host."""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installer import loop
from installer.host import chroot, record
from runtime import driver_config, errors, process, state
from tests import waits
from tests.installer import homes, settings
from tests.installer import kernel as behind
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

HPRE = "hisi_hpre-0"
NO_KEY = "modprobe: ERROR: could not insert 'uacce': Key was rejected by service"
DEADLINE_S = 10


@pytest.mark.usefixtures("installed")
def test_an_end_while_holders_are_waited_for_changes_nothing(machine: Machine, newer: Path, server: ApiServer) -> None:
    machine.hold(4711, HPRE)
    drain = driver_config.Drain(timeout_seconds=60)
    made = settings.installer(machine, newer, server.kubeconfig, driver_version="2.0.2", drain=drain)
    looking = threading.Thread(target=made.loop.cycle)
    looking.start()
    waits.until(lambda: "announce-change" in made.shown.steps)

    machine.host.stop.set()
    looking.join(DEADLINE_S)

    made.parts.close()
    assert (looking.is_alive(), settings.versions(machine)) == (False, {"2.0.1"})
    assert not machine.host.path(homes.KAE.changing).exists()
    assert not server.lease(settings.MINE).get("holderIdentity")
    assert record.read(machine.host).attempt is None


def test_an_end_ends_a_program_unless_that_would_be_half_a_change() -> None:
    host = chroot.Host(Path("/"), homes.KAE, enter=())
    host.stop.set()

    with pytest.raises(process.Cancelled):
        host.run("sleep", "600")
    with host.finishing():
        assert host.run("echo", "done") == "done\n"


class Running:
    """An installer at work in a thread, with a host of its own that can be stopped."""

    def __init__(self, machine: Machine, image: Path, folder: Path) -> None:
        """Starts."""
        self.folder = folder
        folder.mkdir()
        machine.host = behind.Host(machine.root, inside=True)
        self.host = machine.host
        self.made = settings.installer(machine, image)
        self.ended: list[str] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.made.loop.run(state.ProgramDir(self.folder))
        except errors.Failure as failure:
            self.ended.append(str(failure))
        else:
            self.ended.append("as told")

    def says(self, name: str) -> str:
        """Return the text of a file for the probes; empty where there is none."""
        path = self.folder / name
        return path.read_text().strip() if path.exists() else ""

    def stop(self) -> str:
        """Ends it; how it ended."""
        self.host.stop.set()
        self._thread.join(DEADLINE_S)
        (how,) = self.ended
        return how


Start = Callable[[str], Running]


@pytest.fixture
def start(machine: Machine, image: Path, tmp_path: Path) -> Iterator[Start]:
    """Starts an installer, by the name of its folder; all end with the test."""
    running: list[Running] = []

    def made(name: str) -> Running:
        running.append(Running(machine, image, tmp_path / name))
        return running[-1]

    yield made
    for each in running:
        each.stop()


def test_the_probe_hears_that_the_host_is_ready_until_the_installer_ends(start: Start) -> None:
    running = start("program")
    waits.until(lambda: running.says("ready"))
    assert running.says("ready") == "The driver 2.0.1 is loaded and verified."

    how = running.stop()

    assert (how, running.says("ready"), running.says("unready")) == ("as told", "", "The installer has ended.")


def test_the_probe_hears_why_the_host_is_not_ready(machine: Machine, start: Start) -> None:
    machine.fail("modprobe uacce", NO_KEY)

    running = start("program")
    waits.until(
        lambda: running.says("unready").startswith("Module uacce cannot be loaded: its signature is not trusted")
    )

    assert (running.stop(), running.says("ready")) == ("as told", "")


def test_of_two_installers_the_second_waits_and_then_works(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    first = start("first")
    waits.until(lambda: first.says("ready"))

    second = start("second")
    waits.until(lambda: caplog.messages)
    waiting = (second.says("ready"), second.made.shown.state, tuple(caplog.messages))
    first.stop()
    waits.until(lambda: second.says("ready"))

    assert waiting == ("", "", ("Another installer is at work on this host; waiting for its end.",))
    assert second.stop() == "as told"


def test_an_installer_that_waits_for_another_one_can_be_ended(machine: Machine, start: Start) -> None:
    with loop.lock(machine.host):
        waiting = start("program")

        how = waiting.stop()

    assert how == "as told"


def test_who_does_not_want_to_wait_is_told_what_to_do_instead(machine: Machine) -> None:
    with (
        loop.lock(machine.host),
        pytest.raises(errors.Failure, match=r"^The installer of this host is at work: .* driver.state to Absent in "),
        loop.lock(machine.host, wait=False),
    ):
        raise AssertionError("two have the lock")


def test_the_lock_of_one_that_was_killed_is_free(machine: Machine) -> None:
    machine.host.write(homes.KAE.lock, "")

    with loop.lock(machine.host, wait=False):
        assert machine.host.path(homes.KAE.lock).exists()


def test_a_lock_that_cannot_be_made_names_its_path(machine: Machine) -> None:
    (machine.root / "run/kae-driver").write_text("in the way")

    with (
        pytest.raises(errors.Failure, match=r"^'/run/kae-driver/kae\.lock' on the host cannot be changed"),
        loop.lock(machine.host),
    ):
        raise AssertionError("it was made")


@pytest.mark.parametrize("beside", [False, True])
def test_a_start_removes_what_a_killed_download_left(
    beside: bool, machine: Machine, image: Path, tmp_path: Path
) -> None:
    repository = "/.dnf/repositories/kae.repo"
    left = [f"{homes.KAE.drivers}/.new{repository}", f"{homes.KAE.build}/packages{repository}"]
    for path in left:
        machine.host.write(path, "password=secret\n", mode=0o600)
    machine.host.stop.set()

    with loop.lock(behind.Host(machine.root)) if beside else contextlib.nullcontext():
        settings.installer(machine, image).loop.run(state.ProgramDir(tmp_path))

    assert [machine.host.path(path).exists() for path in left] == [beside, beside]
