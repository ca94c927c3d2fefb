"""The command: edits policies of many random fleets, and prints what an independent reader finds wrong."""

import sys

from tests.property import campaign
from tests.property.policy_edits import trial

if __name__ == "__main__":
    sys.exit(campaign.main("policy_edits", __doc__, 300, trial.trial))
