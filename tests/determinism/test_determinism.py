"""The example fleet under some conditions; `python -m tests.determinism` knows them all."""

import dataclasses
from pathlib import Path

import pytest

from tests import in_process, project
from tests.determinism import conditions, layouts, runs
from tests.determinism.runs import Condition

SEEDED = [Condition(name=f"hash seed {seed}", environment={"PYTHONHASHSEED": str(seed)}) for seed in (1, 2, 3)]
CONDITIONS = [
    Condition(
        name="another machine",
        environment={"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "TZ": "Asia/Kathmandu"},
        layout=layouts.shuffled(3),
        folder="other machine/ünï",
        umask=0o077,
    ),
    dataclasses.replace(SEEDED[0], layout=layouts.crlf),
    dataclasses.replace(SEEDED[1], layout=layouts.linked, options=("--no-cache",)),
    dataclasses.replace(SEEDED[2], layout=layouts.over_other_output),
]
"""Several unlike things at once; each has its own row in the matrix, which says what a failure comes from."""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> runs.Outcome:
    """The outcome of a plain run."""
    return runs.run(conditions.PLAIN, tmp_path_factory.mktemp("reference"))


@pytest.mark.parametrize("condition", CONDITIONS, ids=lambda condition: condition.name)
def test_the_same_documents_give_the_same_bytes_and_findings(
    condition: Condition, reference: runs.Outcome, tmp_path: Path
) -> None:
    outcome = runs.run(condition, tmp_path)

    assert (outcome.code, reference.code) == (0, 0)
    assert outcome == reference


@pytest.mark.parametrize("name", layouts.OTHER_PLACES)
def test_documents_that_say_the_same_in_other_places_give_the_same_bytes(name: str, tmp_path: Path) -> None:
    folders = [tmp_path / "reference", tmp_path / "other"]
    for folder, layout in zip(folders, (layouts.plain, layouts.OTHER_PLACES[name]), strict=True):
        folder.mkdir()
        layout(folder)

    codes = [in_process.kae(folder, "compile").code for folder in folders]

    assert codes == [0, 0]
    assert project.tree(folders[0] / "output") == project.tree(folders[1] / "output")


def test_the_checked_in_output_is_what_the_example_fleet_compiles_to(tmp_path: Path) -> None:
    layouts.plain(tmp_path)

    in_process.kae(tmp_path, "compile", "--no-cache")

    assert project.tree(tmp_path / "output") == project.tree(layouts.ROOT / "output")
