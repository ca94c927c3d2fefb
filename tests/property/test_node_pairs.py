"""What `kae diff` says of a driver is what the real installer does on a fake host."""

from pathlib import Path

import pytest

from compiler.changes import effects
from tests.property.node_pairs import comings, trial

pytestmark = pytest.mark.long


@pytest.mark.parametrize("seed", [10, 15, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 40))])
def test_what_is_said_of_a_driver_is_what_happens_to_it(tmp_path: Path, seed: int) -> None:
    assert trial.trial(seed, tmp_path).faults == []  # `make pairs` takes more


@pytest.mark.parametrize("seed", [26, 28])
def test_a_driver_that_is_said_to_stay_is_noticed(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(effects, "_settled", lambda *_: ())

    assert trial.trial(seed, tmp_path).faults != []


@pytest.mark.parametrize("seed", [5, 14, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(15, 40))])
def test_what_is_said_of_an_installer_that_comes_or_goes_is_what_happens(tmp_path: Path, seed: int) -> None:
    assert comings.tried(seed, tmp_path).faults == []  # `make pairs` takes more


@pytest.mark.parametrize(("seed", "may_have"), [(5, False), (14, True)])
def test_a_wrong_guess_of_the_driver_before_an_installer_is_noticed(
    tmp_path: Path, seed: int, *, may_have: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(effects, "_may_have", lambda _: may_have)

    assert comings.tried(seed, tmp_path).faults != []
