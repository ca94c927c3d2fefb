"""Run child processes: each for a bounded time, in a process group of its own that ends with it.

A process in state D does not even end by SIGKILL, so no wait here is without a limit.
"""

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from runtime import errors, pulse

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The search path of child processes, unless their environment says otherwise."""

MOST_OUTPUT = 65 << 20
"""The most bytes that a child process may write to stdout: the largest file that git prints, and some."""

_MOST_STDERR = 1 << 20
"""The most bytes of stderr that are kept; what follows is read and dropped."""

_POLL_S = 0.1

_SILENT_S = 0.005
"""The pause between two looks at a process that has closed its outputs, as all do that are about to end."""

_DRAIN_S = 5
"""The time that pipes may stay open after the end of their process: one that left the group may hold them."""

_KILLED_S = 5
"""The time in which a killed process ends, unless it waits in the kernel."""


left_behind: "list[subprocess.Popen[bytes]]" = []
"""The processes that did not end when they were killed; without a reference Popen would warn of each."""


class TooSlow(errors.Failure):
    """A child process was killed after its timeout."""


class Unkillable(errors.Failure):
    """A child process was killed and did not end: it waits in the kernel (state D of proc(5)), and is left behind."""


class Cancelled(errors.Failure):
    """The program is ending, so it stopped what was under way."""


class TooMuch(errors.Failure):
    """A child process was killed because its output does not fit into memory."""


class NotStarted(errors.Failure):
    """A child process could not be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A child process to run."""

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    """The whole environment: nothing is inherited. PATH also finds the program itself."""
    shown: str
    """The command in messages."""
    stdin: bytes = field(default=b"", repr=False)
    merged: bool = False
    """True when stderr is part of the output."""
    umask: int = -1
    """-1 keeps the umask of this process."""
    most_file: int | None = None
    """The most bytes of a file that it writes (RLIMIT_FSIZE of setrlimit(2)): more is the error EFBIG."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions under which a child process is killed."""

    timeout_s: float
    stop: threading.Event | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of a child process that ended by itself."""

    code: int
    """Negative: the number of the signal that ended it."""
    output: bytes = field(repr=False)
    stderr: bytes = field(repr=False)


def run(command: Command, limits: Limits) -> Ended:
    """Run a child process to its end; any of the failures above ends it, and its process group."""
    process = _start(command)
    try:
        output, stderr = _communicate(process, limits, command.shown)
    finally:
        _kill(process, command.shown)
    return Ended(code=process.returncode, output=output, stderr=stderr)


def _start(command: Command) -> "subprocess.Popen[bytes]":
    try:
        with _input(command.stdin) as source:
            process = subprocess.Popen(  # noqa: S603 - an argument list, no shell
                list(command.arguments),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if command.merged else subprocess.PIPE,
                env=dict(command.environment),
                cwd="/",
                umask=command.umask,
                # Python ignores SIGXFSZ, and SIGPIPE; what is started with a limit has to inherit the first.
                restore_signals=command.most_file is None,
                start_new_session=True,  # Its children join its process group, and are killed with it.
            )
        if command.most_file is not None:
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (command.most_file, command.most_file))
    except FileNotFoundError as error:
        raise NotStarted(f"There is no program '{command.arguments[0]}' here.") from error
    except OSError as error:
        raise NotStarted(f"'{command.shown}' cannot be started: {error.strerror}.") from error
    return process


@contextlib.contextmanager
def _input(content: bytes) -> Iterator[int]:
    """Yield a descriptor of a file in memory, so that nothing has to feed a pipe."""
    # With a pipe, `communicate` sends only what the process takes before the first timeout, and the process waits for
    # the rest for ever (Popen._communicate up to Python 3.13 at least: `if self.stdin and input`).
    if not content:
        yield subprocess.DEVNULL
        return
    descriptor = os.memfd_create("input")
    with open(descriptor, "wb") as file:  # noqa: PTH123 - by number
        file.write(content)
        file.seek(0)
        yield descriptor


class _Outputs:
    """The outputs of a process, read while it runs: Popen.communicate would keep all of them in memory."""

    def __init__(self, process: "subprocess.Popen[bytes]", shown: str) -> None:
        self._shown = shown
        self.output, self.stderr = bytearray(), bytearray()
        self._pipes = selectors.DefaultSelector()
        for pipe, kept in ((process.stdout, self.output), (process.stderr, self.stderr)):
            if pipe is not None:
                self._pipes.register(pipe, selectors.EVENT_READ, kept)

    def read(self) -> bool:
        """Read what there is, or wait for it a moment; return whether a pipe is still open."""
        for key, _ in self._pipes.select(_POLL_S if self._pipes.get_map() else _SILENT_S):
            chunk = os.read(key.fd, 1 << 16)
            if not chunk:
                self._pipes.unregister(key.fileobj)
            elif key.data is self.output:
                self.output += chunk
            else:
                self.stderr += chunk[: _MOST_STDERR - len(self.stderr)]
        if len(self.output) > MOST_OUTPUT:
            raise TooMuch(f"'{self._shown}' wrote more than {MOST_OUTPUT >> 20} MiB, and was ended.")
        return bool(self._pipes.get_map())

    def close(self) -> None:
        """Free the selector; the pipes stay open."""
        self._pipes.close()


def _communicate(process: "subprocess.Popen[bytes]", limits: Limits, shown: str) -> tuple[bytes, bytes]:
    began_s = time.monotonic()
    with contextlib.closing(_Outputs(process, shown)) as outputs:
        # A process that has ended is left unreaped: until then its number names its group.
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            outputs.read()
            pulse.beat()
            lasted_s = time.monotonic() - began_s
            if lasted_s >= limits.timeout_s:
                raise TooSlow(f"'{shown}' did not end within {limits.timeout_s:g} seconds.")
            # What ends in a moment is let end, such as a question that tells why the work cannot go on.
            if lasted_s >= _POLL_S and limits.stop is not None and limits.stop.is_set():
                raise Cancelled(f"'{shown}' was stopped, because the program is ending.")
        ended_s = time.monotonic()
        while outputs.read() and (late_s := time.monotonic() - ended_s) < _DRAIN_S:
            # A child that still holds the pipes is killed; one that left the group may hold them for ever.
            if late_s > _POLL_S:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        process.poll()
        return bytes(outputs.output), bytes(outputs.stderr)


def _kill(process: "subprocess.Popen[bytes]", shown: str) -> None:
    try:
        if process.returncode is None:
            # The process is not reaped yet, so its number still names its group.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=_KILLED_S)
    except subprocess.TimeoutExpired as error:
        left_behind.append(process)
        raise Unkillable(f"'{shown}' hangs in the kernel, and not even SIGKILL ends it.") from error
    finally:
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            with contextlib.suppress(OSError):
                pipe.close()
