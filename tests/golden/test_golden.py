"""Each project in tests/golden/<case> compiles to the tree in its output/, and an outside tool builds that."""

import shutil
from pathlib import Path

import pytest

from tests import outside, project

HERE = Path(__file__).parent
CASES = [path.name for path in project.cases(HERE, "why.md")]


@pytest.mark.parametrize("case", CASES)
def test_a_golden_project_compiles_to_its_tree(case: str, tmp_path: Path) -> None:
    for folder in ("policies", "inventory"):
        if (HERE / case / folder).is_dir():
            shutil.copytree(HERE / case / folder, tmp_path / folder)

    answer = project.kae(tmp_path, "compile", "--no-cache")

    expected = HERE / case / "output"
    if project.accepting():
        shutil.rmtree(expected, ignore_errors=True)
        shutil.copytree(tmp_path / "output", expected)
    assert answer.code == 0, answer.err
    assert project.tree(tmp_path / "output") == project.tree(expected)


def trees() -> list[Path]:
    """The output of every cluster, of the golden projects and of the example fleet."""
    return sorted([*HERE.glob("*/output/*"), *(HERE.parents[1] / "output").iterdir()])


@pytest.mark.parametrize("tree", trees(), ids=lambda tree: str(tree.relative_to(HERE.parents[1])))
def test_a_tree_is_built_by_kubectl_and_accepted_by_every_schema(tree: Path) -> None:
    objects = [path for path in tree.glob("*/*.yaml") if path.parent.name != "bootstrap"]

    assert outside.assert_valid(outside.built(tree)) == len(objects)


def test_every_golden_case_says_why_in_a_sentence() -> None:
    sentences = [(HERE / case / "why.md").read_text(encoding="utf-8").strip() for case in CASES]

    assert len(CASES) >= 6
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in sentences)
