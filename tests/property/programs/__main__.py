"""The command: compiles random recipes with programs, and says which text, name or right is not what it has to be."""

import sys

from tests.property import campaign
from tests.property.programs import trial

if __name__ == "__main__":
    sys.exit(campaign.main("programs", __doc__, 2000, trial.trial))
