"""Files are replaced whole, and one process at a time holds a lock."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import files


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "made" / "program.lock"
    with contextlib.closing(files.Lock(path)) as first, contextlib.closing(files.Lock(path)) as second:
        assert first.acquire()
        assert not second.acquire()


def test_a_closed_lock_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "program.lock"
    with contextlib.closing(files.Lock(path)) as first:
        first.acquire()

    with contextlib.closing(files.Lock(path)) as second:
        assert second.acquire()


def test_a_lock_whose_file_was_removed_is_that_of_the_file_of_its_name(tmp_path: Path) -> None:
    path = tmp_path / "program.lock"
    with contextlib.closing(files.Lock(path)) as first, contextlib.closing(files.Lock(path)) as second:
        assert first.acquire()
        path.unlink()
        assert second.acquire()
        assert not first.acquire()
        path.unlink()
        assert first.acquire()
        assert files.is_locked(path)
        assert not second.acquire()


@pytest.mark.parametrize("left", [Path.touch, lambda path: path.symlink_to("/nowhere")])
def test_a_file_is_replaced_whatever_a_killed_program_left_beside(left: Callable[[Path], None], tmp_path: Path) -> None:
    path = tmp_path / "driver.json"
    path.write_text("old")
    left(tmp_path / ".driver.json.new")

    with files.replaced(path) as fresh:
        fresh.write_text("new")
        assert path.read_text() == "old"

    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "driver.json"
    path.write_text("old")

    with pytest.raises(OSError, match="full"), files.replaced(path) as fresh:
        fresh.write_text("half")
        raise OSError("The disk is full.")

    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(OSError, match="Invalid argument"):
        files.sync(tmp_path / "pipe")


@pytest.mark.parametrize("place", ["nothing", "folder", "pipe", "link"])
def test_content_is_that_of_a_file_and_nothing_is_waited_for(place: str, tmp_path: Path) -> None:
    path, file = tmp_path / "path", tmp_path / "file"
    file.write_bytes(b"words")
    makers = {"folder": path.mkdir, "pipe": lambda: os.mkfifo(path), "link": lambda: path.symlink_to(file)}
    makers.get(place, str)()

    assert files.content(file) == b"words"
    with pytest.raises(OSError, match="path"):
        files.content(path)
