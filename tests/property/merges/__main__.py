"""The command: joins pairs of changes, prints how they ended, and every failure."""

import sys
from collections import Counter
from collections.abc import Iterable

import tabulate

from tests.property import campaign
from tests.property.merges import pairs


def main() -> int:
    """Try the pairs; return 1 where one does not end."""
    chosen = campaign.parser("merges", __doc__, count=50).parse_args()
    results = list(campaign.results(chosen, pairs.pair, campaign.seeds(chosen)))
    sys.stdout.write(told(results))
    return 1 if any(result.fault for result in results) else 0


def told(results: Iterable[pairs.Result]) -> str:
    """Return a table of the ends, after a paragraph for each failure."""
    counts: Counter[str] = Counter()
    lines = []
    for result in results:
        first, second = result.changes
        place = f"python -m tests.property.merges --seed {result.seed} --count 1 ({result.way}: {first}; {second})"
        counts["pairs"] += 1
        counts["without a conflict in output/"] += not result.conflicts
        counts["compiled by git alone"] += result.is_current
        counts["compiled without an edit by hand"] += not result.fault
        counts["asked for a removal"] += bool(result.asked)
        for path in result.conflicts:
            counts[f"conflicts in {'DaemonSets' if 'daemonset-' in path else path.rpartition('/')[2]}"] += 1
        if result.fault:
            lines.append(f"{place}: {', '.join(result.conflicts)}: {result.fault}\n")
    return "".join(lines) + tabulate.tabulate(counts.items(), tablefmt="plain") + "\n"


if __name__ == "__main__":
    sys.exit(main())
