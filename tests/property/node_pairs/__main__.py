"""The command: random pairs of commits, and every disagreement between `kae diff` and what an installer does."""

import sys
from pathlib import Path

from tests.property import campaign
from tests.property.node_pairs import comings, trial


def _tried(seed: int, folder: Path) -> campaign.Result:
    return (comings.tried if seed % 5 == 0 else trial.trial)(seed, folder)


if __name__ == "__main__":
    sys.exit(campaign.main("node_pairs", __doc__, 300, _tried))
