"""Brute force agrees: what a compile takes away by a random edit is what it says and stops at."""

from pathlib import Path

import pytest

from compiler.changes import acceptance
from tests import effort
from tests.property.walk import steps


@pytest.mark.seeded
def test_a_walk_takes_nothing_away_in_silence_and_stops_at_nothing_else(tmp_path: Path) -> None:
    result = steps.walked((3, effort.examples(gate=3, long=12)), tmp_path)  # `make walk` goes further

    assert result.faults == []


def test_a_compile_that_stops_at_nothing_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acceptance.Acceptable, "is_accepted", lambda _, __: True)

    assert steps.walked((101, 1), tmp_path).faults != []
