"""Git joins two branches, whose outputs conflict, and a compile ends what is left."""

from pathlib import Path

import pytest

from tests.property.merges import pairs

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(109, id="rebase, one removes a cluster"),
        pytest.param(37, id="rebase, both rename a DaemonSet", marks=pytest.mark.long),
        pytest.param(112, id="merge, indexes in conflict", marks=pytest.mark.long),
        pytest.param(242, id="merge, one removes a cluster", marks=pytest.mark.long),
    ],
)  # `make merges` tries more
def test_a_compile_ends_what_git_leaves_in_conflict(seed: int, tmp_path: Path) -> None:
    result = pairs.tried(seed, tmp_path)

    assert result.counts["with a conflict in output/"]
    assert result.faults == []
