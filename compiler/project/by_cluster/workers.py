"""Work on many items by several processes, which are forked, so that they share what is in memory already."""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from compiler import errors

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PAYS = 2 << 20
"""Bytes of input for which a process pays: reading and planning them takes three times as long as starting it."""

_OWN = 400_000
"""The time that an item takes besides its input, as bytes of input."""

_Outcome = tuple[Any, Exception | None]
"""The answer for an item, or the exception that the work on it raised."""


class Crew(msgspec.Struct, frozen=True):
    """The processes that may work at a time, and what to tell of each item that is done."""

    jobs: int | None = None
    """The most processes; None for as many as this one may use cores."""
    progress: Callable[[Any], None] = lambda _: None

    def each(
        self, work: Callable[[Item], Answer], items: Sequence[Item], size: Callable[[Item], int] = lambda _: 0
    ) -> Iterator[Answer]:
        """Yield what `work` returns for each item, in their order; `size` is the bytes of input of an item.

        No process is started for input that one process is done with sooner. An exception is that of the first item
        that raises one. Raises WorldError where a process is killed.
        """
        count = min(self.jobs or usable_cores(), len(items) - 1, sum(size(item) + _OWN for item in items) // _PAYS)
        answers = map(work, items) if count < 2 else _forked(work, items, size, count)
        for item, answer in zip(items, answers, strict=True):
            self.progress(item)
            yield answer


def _forked(
    work: Callable[[Item], Answer], items: Sequence[Item], size: Callable[[Item], int], count: int
) -> Iterator[Answer]:
    ordered = sorted(range(len(items)), key=lambda number: -size(items[number]))
    # The smallest item is worked on here: modules, validators and templates are then loaded once for all processes.
    done = {ordered[-1]: _outcome(work, items[ordered[-1]])}
    with _processes(lambda number: _outcome(work, items[number]), count) as ends:
        # The largest ones come first, so that none of them is the last.
        outcomes = _outcomes(ends, ordered[:-1])
        for number, item in enumerate(items):
            while ends and number not in done:
                done.update([next(outcomes)])
            answer, error = done.pop(number) if number in done else _outcome(work, item)
            if error is not None:
                raise error
            yield answer


def _outcome(work: Callable[[Item], Any], item: Item) -> _Outcome:
    try:
        return work(item), None
    except Exception as error:
        import traceback  # noqa: PLC0415 - needed here only

        # Processes send each other no tracebacks.
        error.add_note(traceback.format_exc())
        return None, error


@contextlib.contextmanager
def _processes(work: Callable[[int], _Outcome], count: int) -> Iterator[Sequence[Any]]:
    """Yield the pipes to new processes, as many as the system allows, which may be none.

    They need no semaphores, for which /dev/shm may be missing (sem_open(3)), and no threads, which the limits on
    processes count too (RLIMIT_NPROC in setrlimit(2)).
    """
    from multiprocessing import get_context  # noqa: PLC0415 - 10 ms, which a small fleet saves

    context, ends, processes = get_context("fork"), list[Any](), list[Any]()
    try:
        with contextlib.suppress(OSError), _without_interrupts() as before:
            for _ in range(count):
                end, other = context.Pipe()
                ends.append(end)
                with other:
                    process = context.Process(target=_serve, args=(work, other, tuple(ends), before))
                    process.start()
                processes.append(process)
        yield ends[: len(processes)]
    finally:
        for end in ends:
            end.close()
        for process in processes:
            process.join()


@contextlib.contextmanager
def _without_interrupts() -> Iterator[Iterable[int]]:
    """Put Ctrl-C off, and yield the signals that were put off before."""
    import signal  # noqa: PLC0415 - as multiprocessing

    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(work: Callable[[int], _Outcome], end: Any, others: Iterable[Any], blocked: Iterable[int]) -> None:
    """Work on the items whose numbers come, until the parent closes the pipe or ends; Ctrl-C is the parent's."""
    import signal  # noqa: PLC0415 - as multiprocessing

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for other in others:  # A pipe ends when no process has the parent's end of it.
        other.close()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            number = end.recv()
            end.send((number, work(number)))


def _outcomes(ends: Sequence[Any], numbers: Iterable[int]) -> Iterator[tuple[int, _Outcome]]:
    """Yield the outcome of each item, in the order in which processes are done. Raises WorldError for a killed one."""
    from multiprocessing import connection  # noqa: PLC0415 - see above

    todo, busy = iter(numbers), [*ends]
    try:
        for end in ends:
            end.send(next(todo))
        while busy:
            for end in cast("list[Any]", connection.wait(busy)):
                outcome = end.recv()
                if (number := next(todo, None)) is None:
                    busy.remove(end)
                else:
                    end.send(number)
                yield outcome
    except (EOFError, OSError) as error:
        message = "a worker process was killed; the kernel does so where memory runs out."
        raise errors.WorldError(message, hint="Run it again with fewer --jobs.") from error


def usable_cores() -> int:
    """Return the number of cores that this process may use: its affinity, and the quota of its control groups.

    cpu.max of cgroup v2 is "QUOTA PERIOD" or "max PERIOD", and cpu.cfs_quota_us of v1 is -1 without a quota:
    https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files,
    https://docs.kernel.org/scheduler/sched-bwc.html.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *map(int, quotas())]))


def quotas(root: Path = Path("/")) -> Iterator[float]:
    """Yield the quotas of the control groups of this process and of those around them, in cores."""
    with contextlib.suppress(OSError, ValueError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = root / "sys/fs/cgroup" / controllers
            below = Path(group.lstrip("/"))
            for folder in (below, *below.parents):
                yield from _quota(top / folder)


def _quota(folder: Path) -> Iterator[float]:
    with contextlib.suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        yield int(quota) / int(period)
    with contextlib.suppress(OSError, ValueError):
        quota_us, period_us = (int((folder / f"cpu.cfs_{name}_us").read_text()) for name in ("quota", "period"))
        if quota_us > 0:
            yield quota_us / period_us
