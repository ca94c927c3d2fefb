"""The command: hostile trees, a table of how the commands end in them, and all that they did wrong."""

import os
import sys
from collections import Counter

import tabulate

from tests.property import campaign
from tests.property.hostile import acts, trees


def main() -> int:
    """Visit trees; return 1 where a command did what it must not."""
    chosen = campaign.parser("hostile", __doc__, count=1000).parse_args()
    os.environ["CI_TOKEN"] = trees.SECRET  # The environment of each process holds it from its start.
    ends: Counter[tuple[str, int]] = Counter()
    met: Counter[str] = Counter()
    wrongs = []
    for result in campaign.results(chosen, trees.visited, campaign.seeds(chosen), together=5):
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


if __name__ == "__main__":
    sys.exit(main())
