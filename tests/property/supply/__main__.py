"""The command: edits where what runs on random fleets comes from, and says each edit that `kae diff` judges wrongly."""

import sys

from tests.property import campaign
from tests.property.supply import trial

if __name__ == "__main__":
    sys.exit(campaign.main("supply", __doc__, 300, trial.trial))
