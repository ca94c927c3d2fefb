"""A server that forks watchers, and reaps orphans as the first process of a pod does.

`ForkServer` is the side of the test. The server is a process that has imported everything, because an import of the
Kubernetes client takes a second. The pauses of its watchers are fractions of a second.
"""

import contextlib
import ctypes
import json
import mmap
import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from compiler.kube import client, credentials, reader
from runtime import shapes
from watcher import cli, loop

QUIET_S, REMOVAL_S, INTERVAL_S, COMMIT_S = 0.1, 0.2, 2.5, 0.05

_HURRY: tuple[tuple[Any, str, object], ...] = (
    (loop, "_AGAIN_S", {"nodes": (0.05, 0.2), "repository": (0.05, 0.2)}),
    (loop, "_FORGOTTEN_S", 0.1),
    (loop, "_WATCH_S", 1),
    (client, "_BUSY_PAUSES_S", (0.05, 0.05)),
    (reader, "MARGIN_S", 0.3),
    (reader, "PAGE", 3),
)
"""Pauses and a page size for ten nodes that change all the time."""

_CLIENT = ("client", "client.exceptions", "config", "config.incluster_config", "config.kube_config", "utils.keepalive")
"""Parts of the Kubernetes client that a watcher imports when it needs them."""

_PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
_CLOCK = struct.Struct("d")
_WAIT_S = 20


class ForkServer:
    """A client of the fork server."""

    def __init__(self, folder: Path) -> None:
        """Start the server; `folder` gets the log and the wall clock of the watchers."""
        self.log = folder / "watcher.log"
        self._clock = folder / "clock"
        self._ended: dict[int, int] = {}
        self._rest = b""
        self.shift_clock(0)
        command = [sys.executable, "-m", "tests.watcher.forkserver", str(self.log), str(self._clock)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, *arguments: str, path: str, plain: bool = False) -> int:
        """Start a watcher with this PATH and return its process id; a plain one has the normal pauses."""
        wish = {"arguments": arguments, "path": path, "plain": plain}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wish).encode() + b"\n")
        self._process.stdin.flush()
        while "started" not in (told := self._told(_WAIT_S)):
            self._ended[told["ended"]] = told["status"]
        return int(told["started"])

    def status(self, pid: int) -> int:
        """Wait for the end of a watcher, and return its exit code as os.waitstatus_to_exitcode does."""
        while pid not in self._ended:
            told = self._told(_WAIT_S)
            self._ended[told["ended"]] = told["status"]
        return self._ended[pid]

    def shift_clock(self, seconds: float) -> None:
        """Set the wall clock of all watchers this far off the right time."""
        with self._clock.open("r+b" if self._clock.exists() else "wb") as file:
            file.write(_CLOCK.pack(seconds))

    def close(self) -> None:
        """End the server and every watcher."""
        self._process.communicate(timeout=_WAIT_S)

    def _told(self, within_s: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        end_s = time.monotonic() + within_s
        while b"\n" not in self._rest:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0, end_s - time.monotonic()))
            part = os.read(self._process.stdout.fileno(), 4096) if ready else b""
            assert part, "the fork server does not answer"
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\n")
        words: dict[str, Any] = json.loads(line)
        return words


def main(log: str, clock: str) -> None:
    """Fork a watcher for each line of stdin, and report which ones ended; end with the input."""
    list(map(credentials.library, _CLIENT))
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    heard, told = os.pipe()
    os.set_blocking(told, False)
    signal.set_wakeup_fd(told)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    watchers: set[int] = set()
    rest = b""
    while True:
        ready, _, _ = select.select([0, heard], [], [])
        if heard in ready:
            os.read(heard, 4096)
        for pid, status in _collected():
            if pid in watchers:
                watchers.remove(pid)
                _say(ended=pid, status=status)
        if 0 in ready:
            part = os.read(0, 4096)
            if not part:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                pid = os.fork()
                if not pid:
                    _begin(json.loads(line), log, clock)
                watchers.add(pid)
                _say(started=pid)
    for pid in watchers:
        os.kill(pid, signal.SIGKILL)


def _collected() -> Iterator[tuple[int, int]]:
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            yield pid, os.waitstatus_to_exitcode(status)


def _say(**words: int) -> None:
    os.write(1, json.dumps(words).encode() + b"\n")


def _begin(wish: dict[str, Any], log: str, clock: str) -> None:
    """Run a watcher in the child, to the end of the process."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ["PATH"] = wish["path"]
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, descriptor in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
        os.dup2(descriptor, number)
    os.closerange(3, 64)
    if wish["plain"]:
        os.execv(sys.executable, [sys.executable, "-m", "watcher", *wish["arguments"]])  # noqa: S606 - ourselves
    hurry(Path(clock))
    sys.exit(cli.main(wish["arguments"]))


def hurry(clock: Path) -> None:
    """Give the watcher of this process short pauses, and a wall clock that is off by the seconds in a file."""
    for module, name, value in _HURRY:
        assert hasattr(module, name)
        setattr(module, name, value)
    load = shapes.load

    def hurried(path: Path, shape: Any) -> Any:
        changes = {"quiet": QUIET_S, "removal_quiet": REMOVAL_S, "interval": INTERVAL_S, "min_commit": COMMIT_S}
        return msgspec.structs.replace(load(path, shape), **{f"{name}_seconds": s for name, s in changes.items()})

    shapes.load = hurried
    with clock.open("rb") as file:
        off = mmap.mmap(file.fileno(), _CLOCK.size, access=mmap.ACCESS_READ)
    right = time.time
    time.time = lambda: right() + _CLOCK.unpack(off[:])[0]


if __name__ == "__main__":
    main(*sys.argv[1:])
