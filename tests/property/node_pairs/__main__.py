"""The command: random pairs of commits, and every disagreement between `kae diff` and what an installer does."""

import sys

from tests.property import campaign
from tests.property.node_pairs import comings

if __name__ == "__main__":
    sys.exit(campaign.main("node_pairs", __doc__, 300, comings.of_campaign))
