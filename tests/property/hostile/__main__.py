"""The command: hostile trees, how the commands end in them, and all that they did wrong."""

import os
import sys

from tests.property import campaign
from tests.property.hostile import trees

if __name__ == "__main__":
    os.environ["CI_TOKEN"] = trees.SECRET  # The environment of each process holds it from its start.
    sys.exit(campaign.main("hostile", __doc__, 1000, trees.visit))
