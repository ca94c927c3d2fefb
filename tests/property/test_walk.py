"""Brute force agrees: what a compile takes away by a random edit is what it says and stops at."""

from pathlib import Path

import pytest

from compiler.changes import acceptance
from tests import effort
from tests.property.walk import edits, steps

pytestmark = pytest.mark.long

KINDS = ("KAEPolicies", "DevicePolicies")


@pytest.mark.seeded
@pytest.mark.parametrize(("seed", "of_recipes"), [(3, False), (22, True)], ids=KINDS)
def test_a_walk_takes_nothing_away_in_silence_and_stops_at_nothing_else(
    tmp_path: Path, seed: int, *, of_recipes: bool
) -> None:
    edits = effort.examples(gate=3, long=12)  # `make walk` goes further

    assert steps.walked((seed, edits), tmp_path, of_recipes=of_recipes).faults == []


@pytest.mark.parametrize(("seed", "of_recipes"), [(101, False), (116, True)], ids=KINDS)
def test_a_compile_that_stops_at_nothing_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, *, of_recipes: bool
) -> None:
    monkeypatch.setattr(acceptance.Acceptable, "is_accepted", lambda _, __: True)

    assert steps.walked((seed, 1), tmp_path, of_recipes=of_recipes).faults != []


def test_a_program_that_goes_in_silence_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance.Acceptable, "is_accepted", lambda _, __: True)
    for sorts in ("MISTAKES_OF_RECIPES", "HARMLESS_OF_RECIPES"):
        monkeypatch.setattr(edits, sorts, {"drop a program": edits.MISTAKES_OF_RECIPES["drop a program"]})

    (fault, *_) = steps.walked((1, 1), tmp_path, of_recipes=True).faults

    assert "removes-programs" in fault
    assert fault.endswith("is not said")
