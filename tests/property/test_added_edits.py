"""What a change does is told also beside another edit, which may be the larger one."""

import pytest

from compiler.checks.risks import change
from tests import effort
from tests.property.added_edits import trial

pytestmark = pytest.mark.long

SEEDS = effort.examples(gate=3, long=150)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(SEEDS))  # `make added-edits` takes more
def test_an_edit_more_hides_no_risk(seed: int) -> None:
    assert trial.trial(seed).faults == []


def test_a_step_that_joining_nodes_dilute_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    driven = change.RevisionChange.driven
    monkeypatch.setattr(change.RevisionChange, "driven", lambda own, policy, **_: driven(own, policy))

    assert trial.trial(45).faults == ["large-step is told no more beside 'nodes that join'"]
