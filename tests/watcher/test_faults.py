from pathlib import Path

from tests.watcher import faults


def test_after_each_fault_the_branch_shows_the_cluster_and_nothing_is_left_over(tmp_path: Path) -> None:
    # How soon is measured by `make watcher-faults`; here other tests take the processors.
    testbed = faults.Faults(tmp_path, seed=2, patience_s=30)

    testbed.run(6)

    assert testbed.counts.total() == 6
    assert testbed.branch.count > 4
