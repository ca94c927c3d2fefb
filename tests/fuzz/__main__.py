"""The fuzzer's command: it tries many documents, prints counts, and keeps the documents that fail."""

import argparse
import collections
import functools
import itertools
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import tabulate

from tests import project
from tests.fuzz import mutants, trial
from tests.property import campaign

_BATCH = 500
"""Documents that a process tries before it starts afresh with what it keeps from call to call."""

_SHOWN = 5000
"""Documents between two lines of progress."""


def main() -> int:
    """Tries the documents and returns 1 where one fails."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=100_000, help="how many documents")
    parser.add_argument("--seed", type=int, default=0, help="other seeds give other documents")
    parser.add_argument("--first", type=int, default=0, metavar="NUMBER", help="the first document")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="one document, which is kept, too")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="the folder for what fails (default: a temporary one)")
    chosen = parser.parse_args()
    keep = chosen.keep or Path(tempfile.gettempdir(), f"kae-fuzz-{chosen.seed}")
    if chosen.only is not None:
        chosen.first, chosen.count, chosen.processes = chosen.only, 1, 1
    results = []
    start = time.monotonic()
    for result in _results(chosen):
        results.append(result)
        if result.fault or chosen.only is not None:
            _say(f"\n{kept(keep, chosen.seed, result)}\n{result.fault or f'exit code {result.code}'}")
        if len(results) % _SHOWN == 0:
            rate = len(results) / (time.monotonic() - start)
            _say(f"{len(results)} of {chosen.count}, {rate:.0f}/s")
    _say(table(results, chosen.seed))
    return 1 if any(result.fault for result in results) else 0


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def _results(chosen: argparse.Namespace) -> Iterator[trial.Result]:
    numbers = range(chosen.first, chosen.first + chosen.count)
    work = [(chosen.seed, numbers[at : at + _BATCH]) for at in range(0, len(numbers), _BATCH)]
    tried = functools.partial(campaign.in_memory, trial.batch)
    return itertools.chain.from_iterable(campaign.results(chosen, tried, work))


def kept(keep: Path, seed: int, result: trial.Result) -> Path:
    """Write a project that failed to a folder, and return the folder."""
    mutant = mutants.mutant(seed, result.number)
    folder = keep / str(result.number)
    shutil.rmtree(folder, ignore_errors=True)
    title = f"{result.number}: {mutant.origin}, {mutant.sort}"
    again = f"python -m tests.fuzz --seed {seed} --only {result.number}"
    return project.write(folder, {**mutant.files, "fault.txt": f"{title}\n{again}\n\n{result.fault}\n"})


def table(results: Sequence[trial.Result], seed: int) -> str:
    """Return counts of exit codes by sort of mutation, and of documents by code of finding."""
    by_sort = collections.Counter((result.sort, result.code) for result in results)
    codes = sorted({code for _, code in by_sort})
    rows = []
    for sort in (*mutants.SORTS, "all"):
        counts = [sum(n for (s, c), n in by_sort.items() if c == code and sort in (s, "all")) for code in codes]
        fine = counts[codes.index(0)] if 0 in codes else 0
        rows.append((sort, sum(counts), *counts, f"{fine / max(sum(counts), 1):.1%}"))
    counted = collections.Counter(code for result in results for code in result.reported)
    reported = sorted(counted.items(), key=lambda item: (-item[1], item[0]))
    head = ("mutations", "documents", *(f"exit {code}" for code in codes), "compile")
    failed = sum(bool(result.fault) for result in results)
    return "\n".join(
        (
            f"seed {seed}: {len(results)} documents, {failed} failures",
            "",
            tabulate.tabulate(rows, headers=head),
            "",
            tabulate.tabulate(reported, headers=("code", "documents")),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
