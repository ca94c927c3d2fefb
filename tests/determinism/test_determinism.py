"""The example fleet under some conditions; `python -m tests.determinism` knows them all."""

from pathlib import Path

import pytest

from tests import in_process, project
from tests.determinism import layouts, runs
from tests.determinism.runs import Condition

CONDITIONS = [
    Condition(
        name="another machine",
        environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Asia/Kathmandu"},
        layout=layouts.linked,
        folder="other machine/ünï",
        umask=0o077,
        options=("--no-cache",),
    ),
    *(
        pytest.param(
            Condition(name=f"hash seed {seed}", environment={"PYTHONHASHSEED": str(seed)}, layout=layout),
            marks=pytest.mark.long,
        )
        for seed, layout in ((1, layouts.crlf), (2, layouts.shuffled(3)), (3, layouts.over_other_output))
    ),
]
"""Several unlike things at once; each has its own row in the matrix, which says what a failure comes from."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> runs.Outcome:
    """The outcome of a plain run, in this process."""
    folder = tmp_path_factory.mktemp("reference")
    layouts.plain(folder)
    answer = in_process.kae(folder, "compile")
    return runs.outcome(folder, answer.code, answer.err)


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_the_same_documents_give_the_same_bytes_and_findings(
    condition: Condition, reference: runs.Outcome, tmp_path: Path
) -> None:
    outcome = runs.run(condition, tmp_path)

    assert reference.code == 0
    assert outcome == reference


@pytest.mark.parametrize("name", layouts.OTHER_PLACES)
def test_documents_that_say_the_same_in_other_places_give_the_same_bytes(
    name: str, reference: runs.Outcome, tmp_path: Path
) -> None:
    layouts.OTHER_PLACES[name](tmp_path)

    answer = in_process.kae(tmp_path, "compile")

    assert runs.outcome(tmp_path, answer.code, reference.findings) == reference


def test_the_checked_in_output_is_what_the_example_fleet_compiles_to(tmp_path: Path) -> None:
    layouts.plain(tmp_path)

    in_process.kae(tmp_path, "compile", "--no-cache")

    assert project.tree(tmp_path / "output") == project.tree(layouts.ROOT / "output")
