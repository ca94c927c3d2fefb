"""The workflows of this project: what zizmor and actionlint do not judge, as they do not know the scripts."""

import os
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.cluster.local import programs
from tests.documentation.pages import ROOT
from tests.documentation.workflows import WORKFLOWS, jobs


@pytest.mark.parametrize(("workflow", "name"), [("ci", "run"), ("nightly", "nightly")])
def test_the_jobs_of_a_workflow_run_every_part_of_its_script(workflow: str, name: str) -> None:
    script = (ROOT / ".ci" / name).read_text("utf-8")

    parts = [part for job in jobs(workflow).values() for part in job["strategy"]["matrix"]["part"]]

    assert sorted(parts) == sorted(re.findall(r"^part_(\w+)\(\)", script, re.MULTILINE))
    (whole,) = re.findall(r"^parts=\((.*)\)", script, re.MULTILINE)
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
    (known,) = re.findall(r"^steps=\((.*)\)", script, re.MULTILINE)
    assert steps == known.split()


@pytest.mark.parametrize(
    "command",
    [(".ci/run", "style", "clutser"), (".ci/nightly", "fuzz", "clutser"), ("ci/release.sh", "programs", "clutser")],
)
def test_a_misspelt_part_is_told_before_any_part_begins(command: tuple[str, ...]) -> None:
    environment = os.environ | {"REGISTRY": "registry.example.com/team"}

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=20, check=False)

    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(r"'clutser' is none of [a-z_ ]+\.\n", done.stderr)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_right_that_a_job_does_not_name_and_every_job_ends(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))

    assert workflow["permissions"] == {}
    assert "concurrency" in workflow
    for job in workflow["jobs"].values():
        assert "contents" in job["permissions"]
        assert job["timeout-minutes"] <= 150


def test_only_the_last_job_of_a_release_can_sign_or_write_the_repository() -> None:
    *others, last = jobs("release").values()

    rights = [job["permissions"] for job in others]
    assert [found for found in rights if found | {"packages": "read"} != {"contents": "read", "packages": "read"}] == []
    assert last["permissions"]["id-token"] == "write"
    assert last["environment"] == "release"


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.stem)
def test_every_action_is_named_by_a_commit_with_its_release_beside_it(path: Path) -> None:
    uses = re.findall(r"^ +(?:- )?uses: (.*)$", path.read_text("utf-8"), re.MULTILINE)

    assert [line for line in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v[0-9.]+", line)] == []


@pytest.mark.parametrize(("program", "setting"), [("cosign", "cosign-release"), ("syft", "syft-version")])
def test_a_release_is_made_by_the_programs_of_its_test(program: str, setting: str) -> None:
    (tested,) = (known for known in programs.RELEASE if known.name == program)

    (used,) = (
        step["with"][setting]
        for job in jobs("release").values()
        for step in job["steps"]
        if setting in step.get("with", {})
    )

    assert used == tested.version()


def test_the_jobs_of_ci_have_the_go_that_the_programs_of_the_cluster_ask_for() -> None:
    (used,) = (
        step["with"]["go-version"] for step in jobs("ci")["system"]["steps"] if "go-version" in step.get("with", {})
    )

    asked = [
        tuple(map(int, re.findall(r"^go (\d+)\.(\d+)", path.read_text("utf-8"), re.MULTILINE)[0]))
        for path in programs.SOURCES.glob("*/go.mod")
    ]
    assert tuple(map(int, used.removesuffix(".x").split("."))) >= max(asked)


def test_one_action_has_one_commit_everywhere() -> None:
    texts = "".join(path.read_text("utf-8") for path in (*WORKFLOWS, ROOT / "action.yml"))

    found = set(re.findall(r"uses: ([\w./-]+)@([0-9a-f]{40})", texts))

    assert len({name for name, _ in found}) == len(found)
