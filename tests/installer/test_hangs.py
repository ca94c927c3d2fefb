"""What hangs ends in time, is told, and holds nothing up."""

import os
import threading
from pathlib import Path

import pytest

from installer import loop
from installer.host import record
from runtime import clocks, errors, files, killable, pulse, signals, state
from tests import waits
from tests.installer import homes, incidents, settings
from tests.installer.incidents import Crew
from tests.installer.machines import Machine
from tests.kube.apiserver import ApiServer

pytestmark = pytest.mark.usefixtures("really_killable")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What hangs is known soon."""
    monkeypatch.setattr(killable, "PATIENCE_S", 0.3)


def test_a_pipe_among_the_options_ends_readiness_until_it_is_gone(
    installed: Machine, machine: Machine, crew: Crew
) -> None:
    del installed
    job = crew.job("2.0.1")
    assert job.settle().state == "Ready"
    pipe = machine.root / "etc/modprobe.d/zz.conf"
    os.mkfifo(pipe)

    job.loop.cycle()
    shown = job.shown
    stuck = (shown.state, shown.ready, shown.reason)
    pipe.unlink()

    assert stuck[:2] == ("Stuck", False)
    assert stuck[2].startswith("The host cannot be looked at: '/etc/modprobe.d/zz.conf' on the host does not answer")
    assert job.settle().state == "Ready"


def test_a_lease_is_not_renewed_for_work_that_hangs(
    server: ApiServer, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = settings.wired(machine, machine.image("2.0.1"), server.kubeconfig)
    monkeypatch.setattr(parts.claim, "renew_s", 0.01)
    hanging = threading.Event()
    monkeypatch.setattr(pulse, "hangs", lambda: "It hangs." if hanging.is_set() else "")
    parts.claim.take()

    first = server.lease(settings.MINE)["renewTime"]
    waits.until(lambda: server.lease(settings.MINE)["renewTime"] != first)
    hanging.set()
    threading.Event().wait(0.1)  # One that was under way may still come.
    last = server.lease(settings.MINE)["renewTime"]
    threading.Event().wait(0.2)

    assert server.lease(settings.MINE)["renewTime"] == last
    parts.close()


@pytest.mark.usefixtures("installed")
def test_a_renamed_node_goes_on_with_its_lease(
    crew: Crew, users: incidents.Users, server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    users.come(incidents.POD)
    crew.job().end_after("begin-change")
    before = incidents.holder(server)
    monkeypatch.setenv("NODE_NAME", "renamed")

    shown = crew.job().settle()

    assert (before, shown.state, incidents.holder(server)) == ("kp920-1", "Ready", "")


def test_a_lease_that_another_host_took_in_the_former_name_is_its_own(
    server: ApiServer, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = settings.wired(machine, machine.image("2.0.1"), server.kubeconfig)
    monkeypatch.setattr(clocks, "utc", lambda **_: "2026-01-02T03:04:05.000001Z")
    parts.claim.take()
    known = parts.claim.acquired
    parts.close()
    monkeypatch.setenv("NODE_NAME", "renamed")
    renamed = settings.wired(machine, machine.image("2.0.1"), server.kubeconfig)

    assert not renamed.claim.resume(settings.MINE, f"{known}9")
    assert renamed.claim.resume(settings.MINE, known)
    renamed.close()


def test_a_lock_that_is_lost_to_another_installer_ends_this_one(machine: Machine, tmp_path: Path, crew: Crew) -> None:
    job = crew.job("2.0.1")
    path = machine.host.path(homes.KAE.lock)
    thieves: list[files.Lock] = []

    def steal() -> None:
        path.unlink()
        thieves.append(files.Lock(path))
        assert thieves[0].acquire()

    job.at("record-driver", steal)

    with pytest.raises(errors.Failure, match=r"kae\.lock' was removed, and another installer has it now\.$"):
        job.loop.run(state.ProgramDir(tmp_path))

    thieves[0].close()


def test_a_lock_that_was_removed_is_taken_again(machine: Machine) -> None:
    with loop.lock(machine.host) as own:
        machine.host.path(homes.KAE.lock).unlink()
        assert own.acquire()
        with pytest.raises(errors.Failure, match="at work"), loop.lock(machine.host, wait=False):
            pass


def test_no_readiness_is_left_of_the_container_before(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signals, "set_on_signals", lambda _: None)
    (tmp_path / "ready").write_text("The driver 2.0.1 is loaded and verified.\n")
    record.update(machine.host, since="x")

    from installer import cli  # noqa: PLC0415 - the program as the kubelet starts it

    code = cli.main(
        ["--config", str(tmp_path / "none"), "--host-root", str(machine.root), "--program-dir", str(tmp_path)]
    )

    assert (code, (tmp_path / "ready").exists()) == (1, False)
