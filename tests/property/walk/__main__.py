"""The command: walks from the example fleet, prints what came of the edits, and every disagreement."""

import sys
from collections import Counter

import tabulate

from tests.property import campaign
from tests.property.walk import edits, steps

_OUTCOMES = ("compiled", "refused", "stopped", "accepted")
_SORTS = (*edits.MISTAKES, *edits.HARMLESS)


def main() -> int:
    """Walk; return 1 where the judge disagrees with a compile."""
    chosen = campaign.parser("walk", __doc__, count=500).parse_args()
    counts: Counter[tuple[str, str]] = Counter()
    misses, alarms = [], []
    lengths = [min(steps.LENGTH, chosen.count - at) for at in range(0, chosen.count, steps.LENGTH)]
    for result in campaign.results(chosen, steps.walk, list(enumerate(lengths, chosen.seed))):
        counts += result.counts
        misses += result.misses
        alarms += result.alarms
    sums = [sum(counts[sort, outcome] for sort in _SORTS) for outcome in _OUTCOMES]
    rows = [(sort, *(counts[sort, outcome] for outcome in _OUTCOMES)) for sort in _SORTS]
    table = tabulate.tabulate([*rows, ("together", *sums)], headers=("edit", *_OUTCOMES), tablefmt="plain")
    told = "".join(f"{line}\n" for line in (*misses, *alarms))
    sys.stdout.write(f"{told}{table}\nmisses: {len(misses)}, false alarms: {len(alarms)}\n")
    return 1 if misses or alarms else 0


if __name__ == "__main__":
    sys.exit(main())
