"""The command: walks from the example fleet, prints what came of the edits, and every disagreement."""

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator

import tabulate

from tests.property.walk import edits, steps

_OUTCOMES = ("compiled", "refused", "stopped", "accepted")
_SORTS = (*edits.MISTAKES, *edits.HARMLESS)


def main() -> int:
    """Walk; return 1 where the judge disagrees with a compile."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.walk", description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="how many edits")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first walk; each has the next one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    misses, alarms = [], []
    for result in _results(chosen):
        counts += result.counts
        misses += result.misses
        alarms += result.alarms
    sums = [sum(counts[sort, outcome] for sort in _SORTS) for outcome in _OUTCOMES]
    rows = [(sort, *(counts[sort, outcome] for outcome in _OUTCOMES)) for sort in _SORTS]
    table = tabulate.tabulate([*rows, ("together", *sums)], headers=("edit", *_OUTCOMES), tablefmt="plain")
    told = "".join(f"{line}\n" for line in (*misses, *alarms))
    sys.stdout.write(f"{told}{table}\nmisses: {len(misses)}, false alarms: {len(alarms)}\n")
    return 1 if misses or alarms else 0


def _results(chosen: argparse.Namespace) -> Iterator[steps.Result]:
    lengths = [min(steps.LENGTH, chosen.count - at) for at in range(0, chosen.count, steps.LENGTH)]
    walks = list(enumerate(lengths, chosen.seed))
    if chosen.processes == 1 or len(walks) == 1:
        yield from map(steps.walk, walks)
        return
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        yield from pool.imap(steps.walk, walks)


if __name__ == "__main__":
    sys.exit(main())
