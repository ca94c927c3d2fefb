"""Keep a second copy of a program from working on the same node, by a lock file."""

import contextlib
import fcntl
import os
from pathlib import Path

RETRY_S = 0.1
"""The recommended pause between two calls of `acquire`."""


class Lock:
    """A file that one process at a time can lock (flock(2)); the kernel releases the lock when its process ends."""

    def __init__(self, path: Path) -> None:
        """Create the file and its folder; raises `OSError` when the disk refuses."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self) -> bool:
        """Try to take the lock, without waiting; return whether this process holds it."""
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        return False

    def close(self) -> None:
        """Release the lock. The file stays: removing it would let two processes lock two files of one name."""
        os.close(self._descriptor)
