"""The command: random fleets, how their compiles end, and where one differs."""

import sys

from tests.property import campaign
from tests.property.divided import trial

if __name__ == "__main__":
    sys.exit(campaign.main("divided", __doc__, 50, trial.judged))
