"""The command: places of a host break at random moments of a change; who hangs, lies, or needs a person is told."""

import sys

from tests import fuse, tools
from tests.property import campaign
from tests.property.places import trial

if __name__ == "__main__":
    tools.require_cluster(fuse.obstacles())
    sys.exit(campaign.main("places", __doc__, 2000, trial.trial))
