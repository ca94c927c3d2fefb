"""The command: walks from the example fleet, says what came of the edits, and every disagreement."""

import functools
import sys

from tests.property import campaign
from tests.property.walk import steps

if __name__ == "__main__":
    parser = campaign.parser("walk", __doc__, count=500)
    parser.add_argument(
        "--recipes", action="store_true", help="with DevicePolicies of a recipe in place of KAEPolicies"
    )
    chosen = parser.parse_args()
    lengths = [min(steps.LENGTH, chosen.count - at) for at in range(0, chosen.count, steps.LENGTH)]
    walked = functools.partial(steps.walked, of_recipes=chosen.recipes)
    tried = functools.partial(campaign.in_memory, walked)
    sys.exit(campaign.told(campaign.results(chosen, tried, list(enumerate(lengths, chosen.seed)))))
