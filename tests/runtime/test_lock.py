"""One process at a time holds a lock."""

import contextlib
from pathlib import Path

from runtime import lock


def test_a_lock_is_held_by_one_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "made" / "program.lock"
    with contextlib.closing(lock.Lock(path)) as first, contextlib.closing(lock.Lock(path)) as second:
        assert first.acquire()
        assert not second.acquire()


def test_a_closed_lock_is_free_again(tmp_path: Path) -> None:
    path = tmp_path / "program.lock"
    with contextlib.closing(lock.Lock(path)) as first:
        first.acquire()

    with contextlib.closing(lock.Lock(path)) as second:
        assert second.acquire()
