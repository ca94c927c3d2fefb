"""Waits for conditions until a bound that load does not reach, and says what was seen; and work beside a wait."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from typing import Protocol, TypeVar

_PAUSE_S, _WORK_PAUSE_S = 0.05, 0.2
_BOUND_S = 300
"""Most things come within seconds; on a machine that others use, too, they take minutes."""

T = TypeVar("T")


class NotYet(Exception):  # noqa: N818 - It is named for what happened.
    """A probe cannot see anything now: a wait looks again, and a test that does not wait fails."""


class TimedOut(Exception):  # noqa: N818 - It is named for what happened, as TimeoutError is.
    """A condition did not come true in time, or never can."""


class Watched(Protocol):
    """A program without which the condition can never hold."""

    name: str

    def ended(self) -> int | None:
        """Return the exit code, or None while the program runs."""

    def log_tail(self) -> str:
        """Return the last lines of its log."""


def until(
    what: str,
    probe: Callable[[], T | None],
    *,
    timeout_s: float = _BOUND_S,
    programs: Sequence[Watched] = (),
    explain: Callable[[], str] = str,
) -> T:
    """Return the first answer of the probe that is true; end the wait at once when a program has ended."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        answer, obstacle = _looked(probe)
        if answer:
            return answer
        gone = [program for program in programs if program.ended() is not None]
        if gone:
            raise TimedOut(f"{what}: {gone[0].name} has ended with {gone[0].ended()}.\n{gone[0].log_tail()}")
        if time.monotonic() > deadline_s:
            logs = (f"The end of {program.name}'s log:\n{program.log_tail()}" for program in programs)
            told = (f"{what}: not after {timeout_s:g} s.", obstacle, explain(), *logs)
            raise TimedOut("\n".join(filter(None, told)))
        time.sleep(_PAUSE_S)


def _looked(probe: Callable[[], T | None]) -> tuple[T | None, str]:
    try:
        return probe(), ""
    except (NotYet, ConnectionError, TimeoutError) as obstacle:
        return None, repr(obstacle)


class Repeated:
    """A piece of work that is done again and again; waits take it for a program that must not end."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        self.name = name
        self._work = work
        self._stop = threading.Event()
        self._running: futures.Future[None] = futures.Future()

    @contextlib.contextmanager
    def working(self) -> Iterator[None]:
        with futures.ThreadPoolExecutor(1) as pool:
            self._running = pool.submit(self._run)
            try:
                yield
            finally:
                self._stop.set()
        self._running.result()

    def ended(self) -> int | None:
        return 1 if self._running.done() else None

    def log_tail(self) -> str:
        return repr(self._running.exception()) if self._running.done() else ""

    def _run(self) -> None:
        while not self._stop.wait(_WORK_PAUSE_S):
            self._work()
