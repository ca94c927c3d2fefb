from pathlib import Path

import pytest

from tests import effort
from tests.watcher import faults


@pytest.mark.long
@pytest.mark.seeded
def test_after_each_fault_the_branch_shows_the_cluster_and_nothing_is_left_over(tmp_path: Path) -> None:
    # How soon is measured by `make watcher-faults`; here other tests take the processors.
    testbed = faults.Faults(tmp_path, seed=1, patience_s=300)
    count = effort.examples(gate=2, long=8)

    testbed.run(count)

    assert testbed.counts.total() == count
    assert testbed.branch.count > count
