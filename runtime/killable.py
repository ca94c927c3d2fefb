"""Work that may hang for ever, in a process that can be killed: a file of a dead server, a FIFO, what a tenant chose.

A process that waits in the kernel (state D of proc(5)) does not even end by SIGKILL. It is left behind, with no
descriptor of this one, and a bounded number of them is.
"""

import contextlib
import ctypes
import os
import pickle
import select
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from typing import NoReturn, TypeVar, cast

from runtime import errors, process, pulse

Answer = TypeVar("Answer")

PATIENCE_S = 30.0
"""Without a beat for so long, the work hangs."""

MOST_LEFT = 8
"""Processes that were killed and have not ended; with so many, no further one is started."""

_PDEATHSIG = 1  # PR_SET_PDEATHSIG of linux/prctl.h
_KILLED_S = 1.0
_POLL_S = 0.1
_ANSWER = b"\0"
"""What follows the beats and comes before the answer."""

_left: set[int] = set()

# gRPC would start its threads again in each of these processes, which never call it. It reads this at its first use.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")


class Hangs(errors.Failure):
    """The work did not advance, and was killed; the message tells where that was."""


def call(work: Callable[[], Answer], stop: threading.Event | None = None) -> Answer:
    """Return what a function returns that only reads, or raise what it raises; what it changes in memory is lost.

    It beats (`pulse.beat`) where it comes to what may hang, and within `PATIENCE_S` after that it is done with it, or
    this raises `Hangs`. Once `stop` is set this raises `process.Cancelled`.
    """
    _left.difference_update([left for left in _left if _has_ended(left)])
    if len(_left) >= MOST_LEFT:
        raise Hangs(f"{len(_left)} processes hang in the kernel, and not even SIGKILL ends them: reboot the host.")
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The child goes on with this thread alone: it takes no lock that another one may have had.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        _do(work, writing)
    os.close(writing)
    try:
        return cast("Answer", _answer(reading, stop))
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        end_s = time.monotonic() + _KILLED_S
        while not (has_ended := _has_ended(child)) and time.monotonic() < end_s:
            time.sleep(_POLL_S / 100)
        if not has_ended:
            _left.add(child)


def _has_ended(child: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        if os.waitpid(child, os.WNOHANG)[0] == 0:
            return False
    return True


def _answer(reading: int, stop: threading.Event | None) -> object:
    heard, beaten_s, readable = b"", time.monotonic(), select.poll()
    readable.register(reading, select.POLLIN)
    while True:
        if readable.poll(_POLL_S * 1000):
            beaten_s = time.monotonic()
            if not (chunk := os.read(reading, 1 << 20)):
                break
            pulse.beat()
            heard = heard[heard.rfind(b"\n", 0, -1) + 1 :] + chunk if _ANSWER not in heard else heard + chunk
        elif stop is not None and stop.is_set():
            raise process.Cancelled("A look at the host was stopped, because the program is ending.")
        elif (silent_s := time.monotonic() - beaten_s) >= PATIENCE_S:
            where = heard.decode(errors="replace").splitlines()[-1:]
            raise Hangs(f"{pulse.place(''.join(where))} for {silent_s:.0f} seconds.")
    _, has_answered, packed = heard.partition(_ANSWER)
    if not has_answered:
        raise Hangs("What looks at the host was killed.")
    is_done, answer = pickle.loads(packed)  # noqa: S301 - of this program
    if not is_done:
        raise answer
    return answer


def _do(work: Callable[[], object], writing: int) -> NoReturn:
    try:
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)  # That of the parent would take a signal of this process for one of its own.
        for name in os.listdir("/proc/self/fd"):  # noqa: PTH208 - the lock of a file is held as long as it is open
            if int(name) > 2 and int(name) != writing:
                with contextlib.suppress(OSError):
                    os.close(int(name))
        pulse.tell(writing)
        try:
            packed = pickle.dumps((True, work()))
        except errors.Failure as failure:
            packed = pickle.dumps((False, failure))
        except BaseException:
            packed = pickle.dumps((False, RuntimeError(traceback.format_exc())))
        with os.fdopen(writing, "wb") as answers:
            answers.write(_ANSWER + packed)
    finally:
        os._exit(0)
