"""`kae diff` claims what is true: its pods and nodes are those of the outputs of both commits."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compiler.changes import pods
from compiler.views.diff import data
from tests.property import daemonset_controller as controller
from tests.property.revision_pairs import trial

pytestmark = pytest.mark.long


# Odd seeds have a recipe with vendors' programs.
@pytest.mark.parametrize("seed", [12, 15, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 13))])
def test_the_effect_of_random_edits_equals_the_difference_of_their_outputs(tmp_path: Path, seed: int) -> None:
    assert trial.trial(seed, tmp_path).faults == []  # `make pairs` takes more


def test_a_pod_that_is_left_out_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "replaced", lambda _: frozenset())

    assert trial.trial(1, tmp_path).faults != []


def test_a_fate_of_a_vendors_program_that_is_left_out_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fates = data._effect
    monkeypatch.setattr(data, "_effect", lambda effect: fates(replace(effect, program_pods=())))

    assert any("programPods" in fault for fault in trial.trial(15, tmp_path).faults)


@pytest.mark.parametrize(
    ("effect", "runs", "keeps"),
    [("PreferNoSchedule", True, True), ("NoSchedule", False, True), ("NoExecute", False, False)],
)
def test_the_controller_keeps_pods_on_a_node_to_which_it_brings_none(effect: str, runs: bool, keeps: bool) -> None:
    node = {"metadata": {"name": "n"}, "spec": {"taints": [{"key": "x", "value": "y", "effect": effect}]}}
    daemon_set: dict[str, Any] = {"spec": {"template": {"spec": {}}}}

    assert (controller.runs_on(daemon_set, node), controller.keeps_on(daemon_set, node)) == (runs, keeps)
