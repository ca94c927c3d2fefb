"""Whatever a recipe with programs says, their names and places are the plan's, and their rights are those listed."""

import pytest

from compiler.formats import references
from tests import effort
from tests.property.programs import trial

SEEDS = effort.examples(gate=40, long=1000)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(SEEDS))  # `make programs` takes more
def test_texts_names_places_and_rights_are_those_of_a_second_reading(seed: int) -> None:
    assert trial.trial(seed).faults == []


def test_a_value_that_is_read_again_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    once = references.text
    monkeypatch.setattr(
        references,
        "text",
        lambda template, scope, **how: (
            made if (made := once(template, scope, **how)) is references.ABSENT else once(made, scope, **how)
        ),
    )

    assert any(trial.trial(seed).faults for seed in range(20))
