"""The command: tries many fleets, prints what there was in them, and every disagreement."""

import argparse
import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterator

import tabulate

from tests.property import campaign
from tests.property.fleets import trial

_SHOWN = 250
"""Fleets between two lines of progress."""

_FEW = 5
"""Disagreements of a fleet that are printed."""


def main() -> int:
    """Try the fleets; return 1 where a judge disagrees with one."""
    parser = campaign.parser("fleets", __doc__, count=2000)
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
    seeds = campaign.seeds(chosen)
    work = [seeds[at : at + trial.BATCH] for at in range(0, len(seeds), trial.BATCH)]
    batch = trial.of_recipes if chosen.recipes else trial.batch
    return itertools.chain.from_iterable(campaign.results(chosen, batch, work))


if __name__ == "__main__":
    sys.exit(main())
