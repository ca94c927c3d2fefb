"""What the device plugin, which runs without privileges, may write into /run/kae gives it no power over the host."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from installer import paths
from installer.change import prepare
from runtime import errors, files
from tests.installer import homes
from tests.installer.incidents import Crew
from tests.installer.machines import Machine

pytestmark = pytest.mark.usefixtures("installed")


def test_no_file_gets_a_mode_that_the_announcement_names(machine: Machine, crew: Crew) -> None:
    shadow = machine.host.path("/etc/shadow")
    shadow.write_text("root:secret")
    shadow.chmod(0)
    modes = {"../etc/shadow": 0o4666}
    machine.host.write(homes.KAE.changing, json.dumps({"reason": "x", "since": "y", "modes": modes}))

    shown = crew.job("2.0.1").settle()

    assert (shown.state, shadow.stat().st_mode & 0o7777) == ("Ready", 0)
    assert not machine.host.path(homes.KAE.changing).exists()


def test_a_link_in_place_of_the_folder_of_links_leads_to_no_removal(
    machine: Machine, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "_WITHDRAWN_S", 0.1)
    other = machine.host.path("/etc/other")
    other.mkdir()
    (other / "passwd").write_text("x")
    links = machine.host.path(homes.KAE.links)
    links.parent.mkdir(parents=True, exist_ok=True)
    links.symlink_to("../../etc/other")

    shown = crew.job().settle()

    assert (shown.state, [path.name for path in other.iterdir()]) == ("Ready", ["passwd"])
    assert not links.is_symlink()


@pytest.mark.parametrize("copied", [False, True])
def test_a_link_planted_at_the_last_moment_is_not_written_through(
    copied: bool, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = machine.host.path("/etc/victim")
    victim.write_text("whole")
    replaced = files.replaced

    @contextlib.contextmanager
    def planted(path: Path) -> Iterator[Path]:
        with replaced(path) as fresh:
            fresh.symlink_to(victim)
            yield fresh

    monkeypatch.setattr(files, "replaced", planted)

    with pytest.raises(errors.Failure, match="File exists"):
        if copied:
            machine.host.copy(Path(__file__), homes.KAE.changing)
        else:
            machine.host.write(homes.KAE.changing, "{}")

    assert victim.read_text() == "whole"


def test_an_installer_of_an_earlier_release_that_has_its_lock_is_waited_for(machine: Machine, crew: Crew) -> None:
    earlier = files.Lock(machine.host.path(paths.EARLIER_LOCK))  # It lay there up to kae 0.2.
    assert earlier.acquire()

    waiting = crew.job("2.0.2").settle()

    assert waiting.state == "Queued"
    assert "one of an earlier release holds its lock" in waiting.reason
    earlier.close()
    assert crew.job("2.0.2").settle().state == "Ready"


def test_an_installer_of_an_earlier_release_waits_for_a_change(machine: Machine, crew: Crew) -> None:
    earlier = files.Lock(machine.host.path(paths.EARLIER_LOCK))
    job, taken = crew.job("2.0.2"), []
    job.at("prepare-store", lambda: taken.append(earlier.acquire()))

    assert job.settle().state == "Ready"
    assert (taken, earlier.acquire()) == ([False], True)
    earlier.close()


@pytest.mark.parametrize("made", ["link", "pipe", "folder", "dangling"])
def test_what_no_earlier_installer_put_in_place_of_its_lock_holds_nothing_up(
    made: str, machine: Machine, crew: Crew
) -> None:
    path, held = machine.host.path(paths.EARLIER_LOCK), files.Lock(machine.host.path("/etc/held"))
    assert held.acquire()
    path.parent.mkdir(parents=True, exist_ok=True)
    if made == "pipe":
        os.mkfifo(path)
    elif made == "folder":
        path.mkdir()
    else:
        path.symlink_to("../../etc/held" if made == "link" else "../../etc/created")

    assert crew.job("2.0.2").settle().state == "Ready"
    assert not machine.host.path("/etc/created").exists()
    held.close()


def test_a_link_in_place_of_the_lock_creates_no_file(machine: Machine) -> None:
    path = machine.host.path(paths.LOCK)
    path.unlink(missing_ok=True)
    path.symlink_to("../../etc/created")

    with pytest.raises(OSError, match="symbolic links"):
        files.Lock(path)

    assert not machine.host.path("/etc/created").exists()
