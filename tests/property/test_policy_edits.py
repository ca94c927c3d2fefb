"""The commands that edit a policy, on random fleets in files of any style, as another reader judges them."""

from pathlib import Path
from typing import Any

import pytest

from compiler.formats import edits
from tests import effort
from tests.property.policy_edits import trial


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(1, 1 + effort.examples(gate=1, long=20)))
def test_an_edit_keeps_the_text_and_does_to_the_nodes_what_it_says(tmp_path: Path, seed: int) -> None:
    assert trial.trial(seed, tmp_path).faults == []  # `make policy-edits` takes 300


@pytest.mark.long
def test_a_comment_that_goes_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = edits.written

    def careless(*arguments: Any) -> edits.Source:
        made = written(*arguments)
        return edits.Source(name=made.name, text=made.text.replace("#", "# gone", 1), documents=made.documents)

    monkeypatch.setattr(edits, "written", careless)

    faults = [fault for seed in range(1, 4) for fault in trial.trial(seed, tmp_path / str(seed)).faults]

    assert any("comments differ" in fault for fault in faults)
