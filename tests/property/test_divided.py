"""Several processes and several machines compile what one process does: the same bytes, findings and exit codes."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from compiler.project.by_cluster import planned, shards, workers
from tests.property.divided import trial


@pytest.mark.parametrize("seed", [4, 19])  # `make divided` goes further
def test_one_process_several_and_shards_end_alike(seed: int, tmp_path: Path) -> None:
    assert trial.judged(seed, tmp_path, (3,)).faults == ()


def test_a_cluster_that_no_shard_takes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards.Shard, "takes", lambda own, name: own.count == 1 or (own.index == 0 and name != "east"))

    assert "2 shards: other bytes" in trial.judged(4, tmp_path, (2,)).faults


def test_findings_that_a_process_keeps_to_itself_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(work: Callable[[Any], Any], items: Sequence[Any], *_: object) -> Iterator[Any]:
        for answer in map(work, items):
            yield dataclasses.replace(answer, on_nodes=()) if isinstance(answer, planned.Planned) else answer

    monkeypatch.setattr(workers, "_forked", silent)

    assert any(fault.startswith("--jobs 2: standard") for fault in trial.judged(4, tmp_path, (1,)).faults)
