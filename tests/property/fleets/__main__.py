"""The command: tries many fleets, prints what there was in them, and every disagreement."""

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator

import tabulate

from tests.property.fleets import trial

_SHOWN = 250
"""Fleets between two lines of progress."""

_FEW = 5
"""Disagreements of a fleet that are printed."""


def main() -> int:
    """Try the fleets; return 1 where a judge disagrees with one."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.fleets", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many fleets")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first; each has the next one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--recipes", action="store_true", help="with policies of several recipes on one node")
    chosen = parser.parse_args()
    counts: Counter[str] = Counter()
    wrong = 0
    start = time.monotonic()
    for number, result in enumerate(_results(chosen), 1):
        counts.update(result.counts)
        if result.faults:
            wrong += 1
            _say(
                f"\npython -m tests.property.fleets{' --recipes' * chosen.recipes} --seed {result.seed} --count 1: "
                f"{len(result.faults)} disagreements"
            )
            _say("\n".join(result.faults[:_FEW]))
        if number % _SHOWN == 0:
            _say(f"{number} of {chosen.count}, {number / (time.monotonic() - start):.0f}/s")
    rows = [*counts.items(), ("fleets with disagreements", wrong)]
    _say(tabulate.tabulate(rows, tablefmt="plain", intfmt=","))
    return 1 if wrong else 0


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def _results(chosen: argparse.Namespace) -> Iterator[trial.Result]:
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    work = [seeds[at : at + trial.BATCH] for at in range(0, len(seeds), trial.BATCH)]
    batch = trial.of_recipes if chosen.recipes else trial.batch
    if chosen.processes == 1 or len(work) == 1:
        yield from itertools.chain.from_iterable(map(batch, work))
        return
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        yield from itertools.chain.from_iterable(pool.imap(batch, work))


if __name__ == "__main__":
    sys.exit(main())
