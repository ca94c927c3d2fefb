"""The command: random pairs of commits, and each that goes otherwise on a real control plane than `kae diff` says."""

import functools
import sys

from tests.cluster.rehearsals import trial
from tests.property import campaign

if __name__ == "__main__":
    chosen = campaign.parser("rehearsals", __doc__, 60).parse_args()
    with trial.running() as kubeconfig:
        tried = functools.partial(campaign.in_memory, functools.partial(trial.trial, kubeconfig))
        sys.exit(campaign.told(map(tried, campaign.seeds(chosen))))
