"""The command: hostile trees, a table of how the commands end in them, and all that they did wrong."""

import argparse
import multiprocessing
import os
import sys
from collections import Counter
from collections.abc import Iterator

import tabulate

from tests.property.hostile import acts, trees


def main() -> int:
    """Visit trees; return 1 where a command did what it must not."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.hostile", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many trees")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first tree; each has the next one")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    chosen = parser.parse_args()
    os.environ["CI_TOKEN"] = trees.SECRET  # The environment of each process holds it from its start.
    ends: Counter[tuple[str, int]] = Counter()
    met: Counter[str] = Counter()
    wrongs = []
    for result in _results(chosen):
        ends += result.ends
        met.update(set(result.acts))
        wrongs += result.wrongs
    sys.stdout.write("".join(f"{wrong}\n" for wrong in wrongs))
    commands = dict.fromkeys(" ".join(command) for command in trees.COMMANDS)
    codes = sorted({code for _, code in ends})
    rows = [(command, *(ends[command, code] for code in codes)) for command in commands]
    table = tabulate.tabulate(rows, headers=("command", *map(str, codes)), tablefmt="plain")
    counts = ", ".join(f"{name} {met[name]}" for name in acts.ACTS)
    sys.stdout.write(f"{table}\ntrees with each act: {counts}\nwrong: {len(wrongs)}\n")
    return 1 if wrongs else 0


def _results(chosen: argparse.Namespace) -> Iterator[trees.Result]:
    seeds = range(chosen.seed, chosen.seed + chosen.count)
    if chosen.processes == 1:
        yield from map(trees.visited, seeds)
        return
    with multiprocessing.get_context("spawn").Pool(chosen.processes) as pool:
        yield from pool.imap(trees.visited, seeds, chunksize=5)


if __name__ == "__main__":
    sys.exit(main())
