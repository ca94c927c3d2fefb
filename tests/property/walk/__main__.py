"""The command: walks from the example fleet, says what came of the edits, and every disagreement."""

import functools
import sys

from tests.property import campaign
from tests.property.walk import steps

if __name__ == "__main__":
    chosen = campaign.parser("walk", __doc__, count=500).parse_args()
    lengths = [min(steps.LENGTH, chosen.count - at) for at in range(0, chosen.count, steps.LENGTH)]
    tried = functools.partial(campaign.in_memory, steps.walked)
    sys.exit(campaign.told(campaign.results(chosen, tried, list(enumerate(lengths, chosen.seed)))))
