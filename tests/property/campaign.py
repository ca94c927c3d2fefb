"""The command of a campaign: how many trials, from which seed, by how many processes, and what there was in them."""

import argparse
import contextlib
import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, TypeVar

import tabulate

Work = TypeVar("Work")
Outcome = TypeVar("Outcome")

SECONDS = 20
"""The time that a call may take."""


@dataclass(kw_only=True)
class Result:
    """What there was in a trial, and what was wrong with it."""

    seed: int
    acts: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def parser(name: str, description: str | None, count: int) -> argparse.ArgumentParser:
    """Return the parser of `python -m tests.property.<name>`, which makes so many trials by default."""
    made = argparse.ArgumentParser(prog=f"python -m tests.property.{name}", description=description)
    made.add_argument("--count", type=int, default=count, help="how many")
    made.add_argument("--seed", type=int, default=0, help="the seed of the first; each has the next one")
    made.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    return made


def seeds(chosen: argparse.Namespace) -> range:
    """Return the seeds that were asked for."""
    return range(chosen.seed, chosen.seed + chosen.count)


class HangError(Exception):
    """A call that takes too long; no OSError, of which programs make sentences."""


@contextlib.contextmanager
def time_limit() -> Iterator[None]:
    """Raise HangError where a call takes a hundred times as long as usual."""

    def stop(_: int, __: object) -> NoReturn:
        raise HangError(f"no answer within {SECONDS} seconds")

    earlier = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, earlier)


def in_memory(tried: Callable[[Work, Path], Outcome], work: Work) -> Outcome:
    """Try a piece of work in a temporary folder, in memory if there is one."""
    memory = Path("/dev/shm")  # noqa: S108 - in it, each trial has a folder of its own
    folder = Path(tempfile.mkdtemp(dir=memory if memory.is_dir() else None))
    try:
        return tried(work, folder)
    finally:
        # It may be deeper than Python removes.
        subprocess.run(("chmod", "-R", "u+rwX", folder), check=False, capture_output=True)
        subprocess.run(("rm", "-rf", folder), check=True)


def results(
    chosen: argparse.Namespace, tried: Callable[[Work], Outcome], work: Sequence[Work], together: int = 1
) -> Iterator[Outcome]:
    """Yield the result of each piece of work, in order; a process gets so many together."""
    if chosen.processes == 1 or len(work) == 1:
        yield from map(tried, work)
        return
    # The processes of multiprocessing's own pool may start none, as a compile by several processes does.
    with futures.ProcessPoolExecutor(chosen.processes, multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(tried, work, chunksize=together)


def main(name: str, description: str | None, count: int, tried: Callable[[int, Path], Result]) -> int:
    """Try many seeds as the command line says, each in a folder of its own; return 1 where something is wrong."""
    chosen = parser(name, description, count).parse_args()
    return told(results(chosen, functools.partial(in_memory, tried), seeds(chosen), together=5))


def told(trials: Iterable[Result]) -> int:
    """Print every fault and a table of all that there was; return 1 where something is wrong."""
    counts: Counter[str] = Counter()
    wrong = 0
    for trial in trials:
        counts.update(trial.counts)
        wrong += bool(trial.faults)
        for fault in trial.faults:
            sys.stdout.write(f"seed {trial.seed} ({', '.join(trial.acts)}): {fault}\n")
            sys.stdout.flush()
    rows = [*counts.items(), ("trials with faults", wrong)]
    sys.stdout.write(f"{tabulate.tabulate(rows, tablefmt='plain', intfmt=',')}\n")
    return 1 if wrong else 0
