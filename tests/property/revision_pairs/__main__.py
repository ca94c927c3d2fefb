"""The command: random pairs of commits, and every disagreement between `kae diff` and their outputs."""

import sys

from tests.property import campaign
from tests.property.revision_pairs import trial

if __name__ == "__main__":
    sys.exit(campaign.main("revision_pairs", __doc__, 300, trial.trial))
