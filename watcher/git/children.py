"""Runs programs: with nothing of our own environment, for a bounded time, and never one that outlives its run."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from watcher.git import git_errors

_POLL_S = 0.1

_DRAIN_S = 5
"""How long the pipes of an ended group may stay open: a child that left the group may hold them."""

_UMASK = 0o022
"""A repository at file:// is for others too; what is private lies in folders that are."""

_KEPT = (
    "PATH",
    *(name for word in ("http_proxy", "https_proxy", "no_proxy", "all_proxy") for name in (word, word.upper())),
)
"""What of our own environment programs may see."""

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A program that came to its end by itself."""

    code: int
    """Negative: the signal that ended it."""
    output: bytes = field(repr=False)
    said: str = field(repr=False)
    """What it wrote to stderr."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a run is broken off."""

    timeout_s: float
    stop: threading.Event


def run(
    arguments: Sequence[str], environment: Mapping[str, str], limits: Limits, stdin: bytes = b"", shown: str = ""
) -> Ended:
    """Runs a program to its end; `shown` is how it is called in sentences, else by its name.

    Raises:
        gitwords.TooSlow: It, and all that it started, was ended after the time.
        gitwords.Cancelled: The same, as the stop event was set; or it was not started for that.
        gitwords.Failed: There is no such program, or it cannot be started.
    """
    shown = shown or arguments[0]
    if limits.stop.is_set():
        raise git_errors.Cancelled(f"'{shown}' was not begun, as we are to end.")
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    try:
        with _input(stdin) as source:
            process = subprocess.Popen(  # noqa: S603 - no shell, and the words are ours
                list(arguments),
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PATH": _PATH, **kept, "LC_ALL": "C", "TZ": "UTC", **environment},
                cwd="/",
                umask=_UMASK,
                start_new_session=True,  # Its children are of one group, and end with it.
            )
    except FileNotFoundError as error:
        raise git_errors.Failed(f"There is no program '{arguments[0]}' here.") from error
    except OSError as error:
        raise git_errors.Failed(f"'{shown}' cannot be started: {error.strerror}.") from error
    try:
        output, said = _finished(process, limits, shown)
    finally:
        _end(process)
    return Ended(code=process.returncode, output=output, said=said.decode(errors="replace"))


@contextlib.contextmanager
def _input(content: bytes) -> Iterator[int]:
    """What a program reads these bytes from: a file in memory, so that nobody has to be there to feed it.

    By a pipe `communicate` sends only what is taken before its first timeout, and the program waits for the rest for
    ever (Popen._communicate up to Python 3.13 at least: `if self.stdin and input`).
    """
    if not content:
        yield subprocess.DEVNULL
        return
    descriptor = os.memfd_create("input")
    with open(descriptor, "wb") as file:  # noqa: PTH123 - by number
        file.write(content)
        file.seek(0)
        yield descriptor


def _finished(process: "subprocess.Popen[bytes]", limits: Limits, shown: str) -> tuple[bytes, bytes]:
    waited_s = 0.0
    while not limits.stop.is_set():
        try:
            return process.communicate(timeout=min(_POLL_S, limits.timeout_s))
        except subprocess.TimeoutExpired:
            waited_s += _POLL_S
        if waited_s >= limits.timeout_s:
            raise git_errors.TooSlow(f"'{shown}' did not end within {limits.timeout_s:g} seconds.")
    raise git_errors.Cancelled(f"'{shown}' was broken off, as we are to end.")


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.returncode is None:
        # It is not collected yet, so the number is still its group's own.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=_DRAIN_S)
        process.wait()
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            with contextlib.suppress(OSError):
                pipe.close()
