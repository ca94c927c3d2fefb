"""Work on many items by several processes, which are forked, so that they share what is in memory already."""

import argparse
import contextlib
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from compiler import errors

Item = TypeVar("Item")
Answer = TypeVar("Answer")

_PAYS = 2 << 20
"""Bytes of input for which a process pays: reading and planning them takes three times as long as starting it."""

_OWN = 400_000
"""The time that an item takes besides its input, as bytes of input."""

_work: Callable[[Any], Any]
"""The work of this process, which a worker has from before the fork, as no closure can be sent to it."""


@dataclass(frozen=True, slots=True)
class Crew:
    """The processes that may work at a time, and what to tell of each item that is done."""

    jobs: int = 1
    progress: Callable[[Any], None] = lambda _: None

    def each(
        self, work: Callable[[Item], Answer], items: Sequence[Item], size: Callable[[Item], int] = lambda _: 0
    ) -> Iterator[Answer]:
        """Yield what `work` returns for each item, in their order; `size` is the bytes of input of an item.

        No process is started for input that one process is done with sooner. An exception is that of the first item
        that raises one. Raises WorldError where a process is killed.
        """
        count = min(self.jobs, len(items) - 1, sum(size(item) + _OWN for item in items) // _PAYS)
        answers = map(work, items) if count < 2 else _forked(work, items, size, count)
        for item, answer in zip(items, answers, strict=True):
            self.progress(item)
            yield answer


def jobs(arguments: argparse.Namespace) -> int:
    """Return the most processes of a call: as it says, or else as many as it may use cores."""
    return getattr(arguments, "jobs", None) or usable_cores()


def _forked(
    work: Callable[[Item], Answer], items: Sequence[Item], size: Callable[[Item], int], count: int
) -> Iterator[Answer]:
    from concurrent import futures  # noqa: PLC0415 - 20 ms, which a small fleet saves
    from concurrent.futures import process  # noqa: PLC0415
    from multiprocessing import get_context  # noqa: PLC0415

    global _work  # noqa: PLW0603 - the one way to a forked process
    _work = work
    ordered = sorted(range(len(items)), key=lambda number: -size(items[number]))
    done: dict[int, futures.Future[Answer]] = {}
    # The first item is worked on here: modules, validators and templates are then loaded once for all processes.
    done[ordered[-1]] = _finished(functools.partial(work, items[ordered[-1]]))
    pool = process.ProcessPoolExecutor(count, mp_context=get_context("fork"), initializer=_begin)
    try:
        # The largest ones come first, so that none of them is the last.
        done.update((number, pool.submit(_call, items[number])) for number in ordered[:-1])
        for number in range(len(items)):
            yield done.pop(number).result()
    except process.BrokenProcessPool as error:
        raise errors.WorldError(
            "a worker process was killed; the kernel does so where memory runs out.",
            hint="Run it again with fewer --jobs.",
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _finished(work: Callable[[], Answer]) -> Any:
    """Return the future of work that is done here and now."""
    from concurrent import futures  # noqa: PLC0415

    future: futures.Future[Answer] = futures.Future()
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
    return future


def _begin() -> None:
    """Prepare a worker: Ctrl-C is its parent's, and it ends with its parent, however that ends."""
    from multiprocessing import parent_process  # noqa: PLC0415

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os._exit(1)


def _call(item: Any) -> Any:
    return _work(item)


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
