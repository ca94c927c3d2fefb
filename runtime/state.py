"""What a program says of itself to the kubelet's probes, by files in a folder of its own."""

import time
from pathlib import Path

from runtime import errors

READY = "ready"
"""There while the program is ready; the readiness probe looks for it."""

UNREADY = "unready"
"""Says why the program is not ready, for the events that the kubelet makes of a probe's words."""

ALIVE = "alive"
"""Holds the moment of the last beat; `runtime.probe` reads it."""


class ProgramDir:
    """The folder of a running program, which must exist; one program at a time owns it.

    Every method raises `errors.Failure` when the folder cannot be written. Files appear whole or not at all.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # A container that restarts in its pod finds the emptyDir as the one before left it.
        self.set_unready()
        self.beat()

    def set_ready(self, reason: str = "") -> None:
        """The program does its work from now on; the reason is what `cat` prints to a person."""
        self._write(READY, reason)
        self._remove(UNREADY)

    def set_unready(self, reason: str = "") -> None:
        """The program does not do its work; the reason, if there is one, is what the probe says."""
        if reason:
            self._write(UNREADY, reason)
        self._remove(READY)

    def beat(self) -> None:
        """The program still runs; to be called often enough for `runtime.probe`, best every ten seconds.

        The file holds time.monotonic() in seconds, which on Linux is one clock for all processes since boot
        (clock_gettime(2)). Its mtime would not do: the wall clock jumps, back as well as forth.
        """
        self._write(ALIVE, f"{time.monotonic():.3f}")

    def _remove(self, name: str) -> None:
        try:
            (self._path / name).unlink(missing_ok=True)
        except OSError as error:
            raise self._failure(name, error) from error

    def _write(self, name: str, text: str) -> None:
        fresh = self._path / f".{name}.new"
        try:
            fresh.write_text(f"{text}\n", "utf-8")
            fresh.replace(self._path / name)
        except OSError as error:
            raise self._failure(name, error) from error

    def _failure(self, name: str, error: OSError) -> errors.Failure:
        return errors.Failure(f"'{self._path / name}' cannot be changed: {error.strerror}.")
