"""The files by which a program speaks to its probes."""

import functools
import os
import time
from pathlib import Path

import pytest

from runtime import errors, state


@pytest.mark.parametrize(
    ("acts", "left"),
    [
        ([("ready", "3 resources are registered")], {"ready": "3 resources are registered\n"}),
        ([("ready", "It is loaded."), ("unready", ""), ("unready", "")], {}),
        ([("ready", ""), ("unready", "No driver is loaded.")], {"unready": "No driver is loaded.\n"}),
        ([("unready", "No driver is loaded."), ("unready", "The disk is full.")], {"unready": "The disk is full.\n"}),
        ([("unready", "No driver is loaded."), ("ready", "It is loaded.")], {"ready": "It is loaded.\n"}),
    ],
)
def test_a_program_that_is_ready_or_not_has_one_file_with_the_last_reason(
    acts: list[tuple[str, str]], left: dict[str, str], tmp_path: Path
) -> None:
    folder = state.ProgramDir(tmp_path)

    for name, reason in acts:
        {"ready": folder.set_ready, "unready": folder.set_unready}[name](reason)

    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.name != "alive"} == left


def test_a_program_that_is_no_longer_ready_has_no_file(tmp_path: Path) -> None:
    folder = state.ProgramDir(tmp_path)
    folder.set_ready()

    folder.set_unready()
    folder.set_unready()

    assert not (tmp_path / "ready").exists()


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
