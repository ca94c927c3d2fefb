"""The files by which a program speaks to its probes."""

import functools
import os
import time
from pathlib import Path

import pytest

from runtime import errors, state


def test_a_ready_program_has_its_file_and_a_reason_in_it(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)

    folder.set_ready("3 resources are registered")

    assert (tmp_path / "ready").read_text() == "3 resources are registered\n"


def test_a_program_that_is_no_longer_ready_has_no_file(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)
    folder.set_ready()

    folder.set_unready()
    folder.set_unready()

    assert not (tmp_path / "ready").exists()


def test_a_program_that_is_not_ready_says_why(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)
    folder.set_ready()

    folder.set_unready("No driver is loaded.")

    assert (tmp_path / "unready").read_text() == "No driver is loaded.\n"
    assert not (tmp_path / "ready").exists()


def test_the_last_reason_is_the_one_that_is_told(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)
    folder.set_unready("No driver is loaded.")

    folder.set_unready("The disk of '/lib/modules' on the host is full.")

    assert (tmp_path / "unready").read_text() == "The disk of '/lib/modules' on the host is full.\n"


def test_a_program_that_is_ready_no_longer_says_why_it_was_not(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)
    folder.set_unready("No driver is loaded.")

    folder.set_ready("The driver is loaded.")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["alive", "ready"]


@pytest.mark.parametrize("name", ["ready", "unready"])
def test_a_probe_in_the_middle_of_a_change_finds_the_new_file(tmp_path: Path, name: str) -> None:
    folder = state.ProgramDir(tmp_path)
    acts = {"ready": folder.set_ready, "unready": folder.set_unready}
    (other,) = acts.keys() - {name}
    (tmp_path / other).mkdir()  # Which cannot be unlinked: the change stops before its last step.

    with pytest.raises(errors.Failure, match=f"{other}' cannot be changed"):
        acts[name]("It is so.")

    assert (tmp_path / name).read_text() == "It is so.\n"


def test_what_an_earlier_run_left_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "ready").touch()
    (tmp_path / "alive").write_text("1.000\n")

    state.ProgramDir(tmp_path)

    assert not (tmp_path / "ready").exists()
    assert float((tmp_path / "alive").read_text()) != 1


def test_a_beat_is_the_monotonic_clock(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)
    before = time.monotonic()

    folder.beat()

    assert before - 0.001 <= float((tmp_path / "alive").read_text()) <= time.monotonic() + 0.001


def test_a_reader_never_meets_half_a_file(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)
    with (tmp_path / "alive").open() as open_before:
        folder.beat()

        assert os.fstat(open_before.fileno()).st_ino != (tmp_path / "alive").stat().st_ino
        assert float(open_before.read()) > 0
    assert [path.name for path in tmp_path.iterdir()] == ["alive"]


def test_a_folder_that_is_missing_is_a_failure_at_once(tmp_path: Path) -> None:
    with pytest.raises(errors.Failure) as caught:
        state.ProgramDir(tmp_path / "gone")

    assert str(caught.value) == f"'{tmp_path}/gone/alive' cannot be changed: No such file or directory."


def test_a_folder_that_goes_away_is_a_failure_of_every_act(tmp_path: Path) -> None:
    place = tmp_path / "program"
    place.mkdir()
    folder = state.ProgramDir(place)
    (place / "alive").unlink()
    place.rmdir()
    place.touch()

    for act in (folder.set_ready, folder.set_unready, functools.partial(folder.set_unready, "It is so."), folder.beat):
        with pytest.raises(errors.Failure, match="Not a directory"):
            act()
