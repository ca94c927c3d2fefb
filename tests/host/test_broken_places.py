"""A place of a host that breaks under an installer neither hangs it nor makes it lie, and it recovers by itself."""

from pathlib import Path

import pytest

from tests import fuse, tools
from tests.property import campaign
from tests.property.places import trial


@pytest.mark.parametrize("seed", range(8))
def test_an_installer_outlives_what_breaks_under_it(seed: int) -> None:
    tools.require_cluster(fuse.obstacles())

    def tried(number: int, folder: Path) -> campaign.Result:
        return trial.trial(number, folder)

    assert campaign.in_memory(tried, seed).faults == []  # `make places` takes more
