"""The command of a campaign: how many trials, from which seed, by how many processes."""

import argparse
import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

Work = TypeVar("Work")
Result = TypeVar("Result")


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


def results(
    chosen: argparse.Namespace, tried: Callable[[Work], Result], work: Sequence[Work], together: int = 1
) -> Iterator[Result]:
    """Yield the result of each piece of work, in order; a process gets so many together."""
    if chosen.processes == 1 or len(work) == 1:
        yield from map(tried, work)
        return
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        yield from pool.imap(tried, work, chunksize=together)
