"""`kae diff` claims what is true: its pods and nodes are those of the outputs of both commits."""

from pathlib import Path
from typing import Any

import pytest

from compiler.changes import pods
from tests.property import daemonset_controller as controller
from tests.property.revision_pairs import trial


@pytest.mark.parametrize("seed", [12, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 13))])
def test_the_effect_of_random_edits_equals_the_difference_of_their_outputs(tmp_path: Path, seed: int) -> None:
    assert trial.trial(seed, tmp_path).faults == []  # `make pairs` takes more


def test_a_pod_that_is_left_out_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "replaced", lambda _: frozenset())

    assert trial.trial(1, tmp_path).faults != []


@pytest.mark.parametrize(
    ("effect", "runs", "keeps"),
    [("PreferNoSchedule", True, True), ("NoSchedule", False, True), ("NoExecute", False, False)],
)
def test_the_controller_keeps_pods_on_a_node_to_which_it_brings_none(effect: str, runs: bool, keeps: bool) -> None:
    node = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "x", "value": "y", "effect": effect}]}}
    daemon_set: dict[str, Any] = {"spec": {"template": {"spec": {}}}}

    assert (controller.runs_on(daemon_set, node), controller.keeps_on(daemon_set, node)) == (runs, keeps)
