"""The command: tries many fleets, says what there was in them, and every disagreement."""

import sys

from tests.property import campaign
from tests.property.fleets import trial

if __name__ == "__main__":
    parser = campaign.parser("fleets", __doc__, count=2000)
    parser.add_argument("--recipes", action="store_true", help="with policies of several recipes on one node")
    chosen = parser.parse_args()
    tried = trial.of_recipes if chosen.recipes else trial.of_kae
    sys.exit(campaign.told(campaign.results(chosen, tried, campaign.seeds(chosen), together=trial.BATCH)))
