"""Run child processes: each for a bounded time, in a process group of its own that ends with it."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from runtime import errors

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The search path of child processes, unless their environment says otherwise."""

_POLL_S = 0.1

_DRAIN_S = 5
"""The time that the pipes of a killed group may stay open: a process that left the group may hold them."""


class TooSlow(errors.Failure):
    """A child process was killed after its timeout."""


class Cancelled(errors.Failure):
    """The program is ending, so it stopped what was under way."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
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
    """Run a child process to its end.

    Raises:
        TooSlow: The process group was killed after the timeout.
        Cancelled: The process group was killed because `stop` was set.
        NotStarted: There is no such program, or the kernel refuses to start it.
    """
    process = _start(command)
    try:
        output, stderr = _communicate(process, limits, command.shown)
    finally:
        _kill(process)
    return Ended(code=process.returncode, output=output, stderr=stderr or b"")


def _start(command: Command) -> "subprocess.Popen[bytes]":
    try:
        with _input(command.stdin) as source:
            return subprocess.Popen(  # noqa: S603 - an argument list, no shell
                list(command.arguments),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if command.merged else subprocess.PIPE,
                env=dict(command.environment),
                cwd="/",
                umask=command.umask,
                start_new_session=True,  # Its children join its process group, and are killed with it.
            )
    except FileNotFoundError as error:
        raise NotStarted(f"There is no program '{command.arguments[0]}' here.") from error
    except OSError as error:
        raise NotStarted(f"'{command.shown}' cannot be started: {error.strerror}.") from error


@contextlib.contextmanager
def _input(content: bytes) -> Iterator[int]:
    """Yield a descriptor of a file in memory, so that nothing has to feed a pipe.

    With a pipe, `communicate` sends only what the process takes before the first timeout, and the process waits for the
    rest for ever (Popen._communicate up to Python 3.13 at least: `if self.stdin and input`).
    """
    if not content:
        yield subprocess.DEVNULL
        return
    descriptor = os.memfd_create("input")
    with open(descriptor, "wb") as file:  # noqa: PTH123 - by number
        file.write(content)
        file.seek(0)
        yield descriptor


def _communicate(process: "subprocess.Popen[bytes]", limits: Limits, shown: str) -> tuple[bytes, bytes]:
    waited_s = 0.0
    while True:
        try:
            return process.communicate(timeout=min(_POLL_S, limits.timeout_s))
        except subprocess.TimeoutExpired:
            waited_s += _POLL_S
        if waited_s >= limits.timeout_s:
            raise TooSlow(f"'{shown}' did not end within {limits.timeout_s:g} seconds.")
        if limits.stop is not None and limits.stop.is_set():
            raise Cancelled(f"'{shown}' was stopped, because the program is ending.")


def _kill(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None:
        # The process is not reaped yet, so its number still names its group.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_DRAIN_S)
        process.wait()
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            with contextlib.suppress(OSError):
                pipe.close()
