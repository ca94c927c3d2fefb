"""The part of the work that a process does at a time; a module of its own, as processes import it by name."""

import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz import mutants, trial

_ADDRESSES = 4 << 30
"""Bytes that a process may address: what a few kilobytes make grow beyond them fails, rather than the machine."""

_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, on Linux


def batch(work: tuple[int, Sequence[int]]) -> list[trial.Result]:
    """The results of some documents, tried in a folder of their own."""
    seed, numbers = work
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as folder:
        bench = trial.Bench(Path(folder))
        return [bench.run(mutants.mutant(seed, number)) for number in numbers]
