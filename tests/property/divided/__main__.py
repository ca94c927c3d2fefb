"""The command: random fleets, how their compiles end, where one differs, and a digest of all answers."""

import hashlib
import multiprocessing
import sys
from collections import Counter
from concurrent import futures

import tabulate

from tests.property import campaign
from tests.property.divided import trial


def main() -> int:
    """Try the fleets; return 1 where a way to compile one differs from another."""
    chosen = campaign.parser("divided", __doc__, count=50).parse_args()
    wrong = 0
    counts: Counter[str] = Counter()
    digest = hashlib.sha256()
    # Not the pool of a campaign: its processes may start none, as a compile by several processes does.
    with futures.ProcessPoolExecutor(chosen.processes, multiprocessing.get_context("spawn")) as pool:
        for result in pool.map(trial.tried, campaign.seeds(chosen)):
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
