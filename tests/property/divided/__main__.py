"""The command: random fleets, how their compiles end, where one differs, and a digest of all answers."""

import argparse
import hashlib
import multiprocessing
import os
import sys
from collections import Counter
from concurrent import futures

import tabulate

from tests.property.divided import trial


def main() -> int:
    """Try the fleets; return 1 where a way to compile one differs from another."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.divided", description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="how many fleets")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first; each has the next one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    wrong = 0
    counts: Counter[str] = Counter()
    digest = hashlib.sha256()
    with futures.ProcessPoolExecutor(chosen.processes, multiprocessing.get_context("spawn")) as pool:
        for result in pool.map(trial.tried, seeds):
            counts["fleets"] += 1
            counts[f"exit codes {', '.join(map(str, result.codes))}"] += 1
            digest.update(result.digest.encode())
            if result.faults:
                wrong += 1
                sys.stdout.write(f"seed {result.seed} ({', '.join(result.acts)}):\n")
                sys.stdout.writelines(f"  {fault}\n" for fault in result.faults)
    rows = [*sorted(counts.items()), ("fleets that differ", wrong), ("sha256 of all answers", digest.hexdigest())]
    sys.stdout.write(f"{tabulate.tabulate(rows, tablefmt='plain', disable_numparse=True)}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
