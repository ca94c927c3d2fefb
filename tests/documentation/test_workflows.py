"""The workflows of this project: what zizmor and actionlint do not judge, as they do not know the scripts."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))


def jobs(name: str) -> dict[str, Any]:
    """Return the jobs of a workflow."""
    found: dict[str, Any] = yaml.safe_load((ROOT / f".github/workflows/{name}.yml").read_text("utf-8"))["jobs"]
    return found


def test_the_jobs_of_ci_run_every_part_that_a_change_must_pass() -> None:
    script = (ROOT / ".ci/run").read_text("utf-8")

    parts = [part for job in jobs("ci").values() for part in job["strategy"]["matrix"]["part"]]

    assert sorted(parts) == sorted(re.findall(r"^part_(\w+)\(\)", script, re.MULTILINE))
    (whole,) = re.findall(r"set -- (.*)", script)
    assert sorted(whole.split()) == sorted(parts)


def test_the_jobs_of_a_release_run_every_step_in_its_order() -> None:
    script = (ROOT / "ci/release.sh").read_text("utf-8")

    steps = [
        word
        for job in jobs("release").values()
        for step in job["steps"]
        if str(step.get("run", "")).startswith("ci/release.sh ")
        for word in step["run"].split()[1:]
    ]

    assert steps == re.findall(r"^step_(\w+)\(\)", script, re.MULTILINE)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_right_that_a_job_does_not_name_and_every_job_ends(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))

    assert workflow["permissions"] == {}
    assert "concurrency" in workflow
    for job in workflow["jobs"].values():
        assert "contents" in job["permissions"]
        assert job["timeout-minutes"] <= 150


def test_only_the_last_job_of_a_release_can_sign_or_write_the_repository() -> None:
    *builders, last = jobs("release").values()

    assert all(job["permissions"] == {"contents": "read", "packages": "write"} for job in builders)
    assert last["permissions"]["id-token"] == "write"
    assert last["environment"] == "release"


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.stem)
def test_every_action_is_named_by_a_commit_with_its_release_beside_it(path: Path) -> None:
    uses = re.findall(r"^ +(?:- )?uses: (.*)$", path.read_text("utf-8"), re.MULTILINE)

    assert [line for line in uses if not re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}  # v[0-9.]+", line)] == []


def test_one_action_has_one_commit_everywhere() -> None:
    texts = "".join(path.read_text("utf-8") for path in (*WORKFLOWS, ROOT / "action.yml"))

    found = set(re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40})", texts))

    assert len({name for name, _ in found}) == len(found)
