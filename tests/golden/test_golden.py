"""Each project in tests/golden/<case> compiles to the tree in its output/, and an outside tool builds that."""

import shutil
import subprocess
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


@pytest.mark.parametrize("case", CASES)
def test_a_golden_tree_is_built_by_kubectl_and_accepted_by_every_schema(case: str) -> None:
    for cluster in sorted((HERE / case / "output").iterdir()):
        built = subprocess.run(
            [outside.kubectl(), "kustomize", str(cluster)],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
        )

        outside.assert_valid(built.stdout)


def test_every_golden_case_says_why_in_a_sentence() -> None:
    sentences = [(HERE / case / "why.md").read_text(encoding="utf-8").strip() for case in CASES]

    assert len(CASES) >= 6
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in sentences)
