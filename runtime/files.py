"""Replace files whole, and keep a second copy of a program from working on the same node by a lock file."""

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from pathlib import Path

RETRY_S = 0.1
"""The recommended pause between two calls of `acquire`."""


class Lock:
    """A file that one process at a time can lock (flock(2)); the kernel releases the lock when its process ends."""

    def __init__(self, path: Path) -> None:
        """Create the file and its folder; raises `OSError` when the disk refuses."""
        self._path = path
        self._descriptor = self._opened()

    def acquire(self) -> bool:
        """Try to take the lock, without waiting; return whether this process holds it.

        Where somebody removed or replaced the file, the lock is that of the file which is there now, or of a new one;
        who holds it calls this from time to time, to hear of that. Raises `OSError` as its making does.
        """
        if not self._is_there():
            fresh = self._opened()
            os.close(self._descriptor)
            self._descriptor = fresh
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return self._is_there()
        return False

    def close(self) -> None:
        """Release the lock. The file stays: removing it would let two processes lock two files of one name."""
        os.close(self._descriptor)

    def _opened(self) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def _is_there(self) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._descriptor), self._path.lstat())
        return False


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of this file; false where there is none."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk (fsync(2)); raise `OSError` if that fails."""
    # A pipe that somebody put there meanwhile would be waited for.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def content(path: Path) -> bytes:
    """Return the content of a file; raises `OSError`, also for a link, a folder and a pipe, which waits."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is no file", str(path))
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)


def beside(path: Path) -> Path:
    """Return the sibling path at which the next content of a file is made."""
    return path.with_name(f".{path.name}.new")


@contextlib.contextmanager
def replaced(path: Path) -> Iterator[Path]:
    """Return a context with a sibling path that replaces the file at the end; a failure removes the sibling."""
    # A reader finds the old file or the new one. After a power failure that holds only for content that was synced.
    fresh = beside(path)
    fresh.unlink(missing_ok=True)  # A killed program leaves it, and a link is never made over a file.
    try:
        yield fresh
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink(missing_ok=True)
        raise
