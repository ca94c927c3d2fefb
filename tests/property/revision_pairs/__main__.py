"""The command: random pairs of commits, and every disagreement between `kae diff` and their outputs."""

import sys
from collections import Counter

from tests.property import campaign
from tests.property.revision_pairs import trial


def main() -> int:
    """Run the trials; return 1 where one disagrees."""
    chosen = campaign.parser("revision_pairs", __doc__, count=300).parse_args()
    sorts: Counter[str] = Counter()
    differing = wrong = 0
    for result in campaign.results(chosen, trial.run, campaign.seeds(chosen)):
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
