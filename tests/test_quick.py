"""`make quick`: which tests it takes for what changed, and the hook of git that runs it."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests import quick, revisions
from tests.mutants import places


@pytest.mark.long
def test_a_change_of_any_module_of_the_programs_is_tried() -> None:
    modules = [
        str(path.relative_to(quick.ROOT))
        for program in places.PROGRAMS
        for path in (quick.ROOT / program).rglob("*.py")
        if not path.name.startswith("_")
    ]

    assert [module for module in modules if not [*quick.tests_of([module])]] == []


@pytest.mark.parametrize(
    ("changed", "tried"),
    [
        ("compiler/commands/explain.py", "tests/cli/test_explain.py"),
        ("compiler/fleet/overlap.py", "tests/compiler/fleet/test_overlap.py"),
        ("tests/cli/test_plan.py", "tests/cli/test_plan.py"),
        ("templates/nfd/x.yaml", "tests/golden"),
        ("docs/tour.md", "tests/documentation"),
        ("tests/failures/yaml-syntax/expected.txt", "tests/failures"),
        ("tests/cli/__snapshots__/test_smoke.ambr", "tests/cli/test_smoke.py"),
    ],
)
def test_the_tests_of_a_change_are_those_of_its_name_first(changed: str, tried: str) -> None:
    assert next(quick.tests_of([changed])) == tried


@pytest.mark.long
def test_a_push_from_a_linked_worktree_tells_the_tests_nothing_of_its_repository(tmp_path: Path) -> None:
    top, linked = tmp_path / "top", tmp_path / "linked"
    top.mkdir()
    (top / "Makefile").write_text("quick:\n\tenv >../variables\n")
    shutil.copytree(quick.ROOT / "ci", top / "ci")
    revisions.commit(top)
    subprocess.run(["bash", "ci/hooks.sh"], cwd=top, check=True, capture_output=True)
    revisions.git(tmp_path, "init", "--quiet", "--bare", "remote.git")
    revisions.git(top, "worktree", "add", "--quiet", str(linked))

    revisions.git(linked, "push", "--quiet", str(tmp_path / "remote.git"), "HEAD")

    variables = (tmp_path / "variables").read_text()
    assert "PATH=" in variables
    assert "GIT_DIR=" not in variables
