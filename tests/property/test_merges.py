"""Git joins two branches, whose outputs conflict, and a compile ends what is left."""

from pathlib import Path

import pytest

from tests.property.merges import pairs

JOINED = {
    "rebase, one removes a cluster": 11,
    "merge, indexes in conflict": 20,
    "merge, one removes a cluster": 42,
}
"""Seeds; `make merges` tries more."""


@pytest.mark.parametrize("seed", JOINED.values(), ids=JOINED)
def test_a_compile_ends_what_git_leaves_in_conflict(seed: int, tmp_path: Path) -> None:
    result = pairs.tried(seed, tmp_path)

    assert result.conflicts
    assert not result.fault
