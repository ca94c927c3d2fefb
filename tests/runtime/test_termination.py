"""The last word of a program is one line, within what the kubelet keeps."""

from pathlib import Path

import pytest

from runtime import termination


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file that the kubelet mounts, with an earlier word in it."""
    found = tmp_path / "termination-log"
    found.write_text("an earlier word, which was a longer one")
    return found


def test_the_reason_is_written_as_one_line(file: Path) -> None:
    termination.report("Port 9510\nis taken.", file)

    assert file.read_text() == "Port 9510 is taken."


def test_a_long_reason_keeps_its_start(file: Path) -> None:
    termination.report("x" * 5000, file)

    assert file.read_bytes() == b"x" * 4096


def test_no_character_is_cut_in_half(file: Path) -> None:
    termination.report("x" + "é" * 3000, file)

    assert file.read_text("utf-8") == "x" + "é" * 2047


def test_a_reason_that_is_no_text_is_written_as_far_as_it_goes(file: Path) -> None:
    termination.report("bad name \udcff", file)

    assert file.read_text() == "bad name ?"


def test_outside_of_a_container_nothing_is_left_behind(tmp_path: Path) -> None:
    termination.report("It ends.", tmp_path / "termination-log")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_hides_no_failure(tmp_path: Path) -> None:
    termination.report("It ends.", tmp_path)

    assert list(tmp_path.iterdir()) == []
