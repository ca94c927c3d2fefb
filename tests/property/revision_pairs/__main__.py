"""The command: random pairs of commits, and every disagreement between `kae diff` and their outputs."""

import argparse
import multiprocessing
import os
import sys
from collections import Counter

from tests.property.revision_pairs import trial


def main() -> int:
    """Run the trials; return 1 where one disagrees."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.revision_pairs", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="how many pairs")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first pair; each has the next one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    sorts: Counter[str] = Counter()
    differing = wrong = 0
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        for result in pool.imap(trial.run, seeds):
            sorts.update(result.sorts)
            differing += result.differs
            wrong += bool(result.misses)
            for miss in result.misses:
                sys.stdout.write(f"seed {result.seed} ({', '.join(result.sorts)}): {miss}\n")
    sys.stdout.write("".join(f"{number:5} {sort}\n" for sort, number in sorted(sorts.items())))
    sys.stdout.write(f"pairs: {chosen.count}, of which {differing} change pods; wrong: {wrong}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
