"""The command: joins pairs of changes, and says how they ended, and every failure."""

import sys

from tests.property import campaign
from tests.property.merges import pairs

if __name__ == "__main__":
    sys.exit(campaign.main("merges", __doc__, 50, pairs.tried))
