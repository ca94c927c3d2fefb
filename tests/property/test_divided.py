"""Several processes and several machines compile what one process does: the same bytes, findings and exit codes."""

from pathlib import Path

import pytest

from compiler.project.by_cluster import shards
from tests.property.divided import trial


@pytest.mark.long
@pytest.mark.parametrize("seed", [3, 4, 19])
def test_one_process_several_and_shards_end_alike(seed: int, tmp_path: Path) -> None:
    assert trial.judged(seed, tmp_path, (2,)).faults == []  # `make divided` goes further


@pytest.mark.long
def test_a_cluster_that_no_shard_takes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards.Shard, "takes", lambda own, name: own.count == 1 or (own.index == 0 and name != "east"))

    assert "2 shards: other bytes" in trial.judged(4, tmp_path, (2,)).faults
