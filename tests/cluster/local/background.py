"""Work that goes on beside a test, again and again, until the test ends."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent import futures

_PAUSE_S = 0.2


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
        while not self._stop.wait(_PAUSE_S):
            self._work()
