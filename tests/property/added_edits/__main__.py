"""The command: random changes, each with an edit more, and every risk that this edit hides."""

import sys

from tests.property import campaign
from tests.property.added_edits import trial

if __name__ == "__main__":
    sys.exit(campaign.main("added_edits", __doc__, 300, trial.trial))
