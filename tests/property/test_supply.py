"""Whoever else writes what runs as root on nodes is a risk, and a tag that moves in its repository is none."""

import pytest

from compiler.changes import supply
from tests import effort
from tests.property.supply import trial

pytestmark = pytest.mark.long

SEEDS = effort.examples(gate=6, long=300)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(SEEDS))  # `make supply` takes more
def test_an_edit_that_brings_other_writers_is_a_risk_and_no_other_one(seed: int) -> None:
    assert trial.trial(seed).faults == []


def test_a_rule_that_says_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supply.Supply, "new_images", lambda *_: frozenset())

    assert any(trial.trial(seed).faults for seed in (5, 11))
