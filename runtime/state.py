"""A program's state for the kubelet's probes, in files of a folder of its own."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from runtime import errors, files

READY = "ready"
"""Exists while the program is ready; the readiness probe reads it."""

UNREADY = "unready"
"""Holds the reason why the program is not ready, which the kubelet puts into events."""

ALIVE = "alive"
"""Holds the time of the last beat; `runtime.probe` reads it."""


class ProgramDir:
    """The folder of a running program, which must exist; a method raises `errors.Failure` if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # A container that restarts in its pod finds the files of the one before in the emptyDir.
        self.set_unready()
        self.beat()

    def set_ready(self, reason: str = "") -> None:
        """Mark the program as ready; `cat` prints the reason."""
        self._write(READY, reason)
        self._remove(UNREADY)

    def set_unready(self, reason: str = "") -> None:
        """Mark the program as not ready; the probe prints the reason, if there is one."""
        if reason:
            self._write(UNREADY, reason)
        self._remove(READY)

    def beat(self) -> None:
        """Record that the program is alive; call it often enough for `runtime.probe`, best every ten seconds."""
        # time.monotonic(): on Linux one clock for all processes since boot (clock_gettime(2)), where the wall clock,
        # and so an mtime, can jump in both directions.
        self._write(ALIVE, f"{time.monotonic():.3f}")

    def _remove(self, name: str) -> None:
        with self._changing(name):
            (self._path / name).unlink(missing_ok=True)

    def _write(self, name: str, text: str) -> None:
        with self._changing(name), files.replaced(self._path / name) as fresh:
            fresh.write_text(f"{text}\n", "utf-8")

    @contextlib.contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise errors.Failure(f"'{self._path / name}' cannot be changed: {error.strerror}.") from error
