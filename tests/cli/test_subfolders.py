"""The jobs of projects in folders of a repository: the scripts run in a clone of a remote, as code hosts call them."""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import in_process, project
from tests.cli import codehosts, diffs
from tests.cli.answers import told
from tests.cli.jobs import ACTIONS, World

pytestmark = pytest.mark.long

A, B = "fleets/a", "fleets-a"
"""Two projects, whose names are the same without what an artifact's name cannot hold."""
GITOPS = "  gitops:\n    engine: argocd\n    repository: {url: https://git.example.com/platform/all.git}\n"
SCRIPTS = "templates/init/ci"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """The bare repository of two compiled projects; nobody changes it."""
    world = World(tmp_path_factory.mktemp("begun"), repository_root)
    made = world.folder / "made"
    made.mkdir()
    world.git(made, "init", "--quiet", "--initial-branch=main")
    project.write(made, {"README.md": "Ours.\n"})
    for name in (A, B):
        folder = shutil.copytree(diffs.EXAMPLE, made / name)
        cluster = folder / "policies/cluster.yaml"
        cluster.write_text(cluster.read_text() + GITOPS)
        told(folder, "compile")
    world.commit(made, "Begin")
    world.git(world.folder, "clone", "--quiet", "--bare", "made", "fleet.git")
    return world.bare


def run(world: World, clone: Path, script: str, name: str, **more: str) -> Any:
    """Run a script of the jobs for a project, from the root of the repository."""
    path = Path(world.environment["PYTHONPATH"]) / SCRIPTS / script
    return world.run(clone, "bash", str(path), **{"KAE_PROJECT": name, **more})


def test_the_check_names_what_decides_in_the_whole_repository(world: World, clone: Path) -> None:
    decisive = [
        ".gitattributes",
        ".github/workflows/kae.yaml",
        ".gitlab-ci.yml",
        ".sourceignore",
        "fleets/.sourceignore",
        f"{A}/kae.yaml",
        f"{A}/output/east/.gitattributes",
    ]
    project.write(clone, {name: "{}\n" if name.endswith("l") else "# Nothing.\n" for name in decisive})
    project.write(clone, {f"{B}/.sourceignore": "# Of another project.\n", "README.md": "Ours, too.\n"})
    world.propose(clone, "Tidy")

    done = run(world, clone, "check.sh", A, **ACTIONS)

    said = re.findall(r"title=check-changed::The pull request changes (\S+), which", done.stdout)
    assert sorted(said) == decisive


def test_annotations_have_the_path_in_the_repository(world: World, clone: Path) -> None:
    diffs.change(clone / A, "canary")
    diffs.edit(clone / B, ("nodeSelector:", "nodeSelectors:"))
    told(clone / A, "compile")
    world.propose(clone, "Change both")

    effect = run(world, clone, "review.sh", A, **ACTIONS)
    mistake = run(world, clone, "check.sh", B, **ACTIONS)
    sarif = json.loads(in_process.kae(clone / B, "compile", "--check", "--format", "sarif").out)

    assert (effect.returncode, mistake.returncode) == (0, 1), effect.stderr
    files = [set(re.findall(r"^::\w+ file=([^,:]+)", done.stdout, re.MULTILINE)) for done in (effect, mistake)]
    assert files == [{f"{A}/policies/tls.yaml"}, {f"{B}/policies/tls.yaml"}]
    places = [item["locations"][0]["physicalLocation"] for item in sarif["runs"][0]["results"]]
    assert {place["artifactLocation"]["uri"] for place in places} == {f"{B}/policies/tls.yaml"}


def test_what_git_hides_is_named_by_its_path_in_the_repository(world: World, clone: Path) -> None:
    entry = f"160000,{world.git(clone, 'rev-parse', 'HEAD')},{A}/output/more"
    world.git(clone, "update-index", "--add", "--cacheinfo", entry)
    world.git(clone, "commit", "--quiet", "--message", "Tidy")
    world.git(clone, "reset", "--quiet", "--hard")

    done = run(world, clone, "check.sh", A)

    assert done.returncode == 1
    assert f"git holds at {A}/output/more something else" in done.stderr


@pytest.mark.parametrize("name", [A, B])
def test_an_output_that_is_not_up_to_date_is_named_by_its_path(name: str, world: World, clone: Path) -> None:
    diffs.change(clone / name, "canary")
    world.propose(clone, "Do not compile")

    done = run(world, clone, "check.sh", name, **ACTIONS)

    assert done.returncode == 4
    assert f"::error title=output::{name}/output/ is not what" in done.stdout


@pytest.mark.parametrize("name", [A, B])
def test_an_engine_is_started_with_the_path_in_the_repository(name: str, clone: Path) -> None:
    (path,) = (clone / name / "output/east/bootstrap").glob("application-*.yaml")
    application = yaml.safe_load(path.read_text())

    assert application["spec"]["source"]["path"] == f"{name}/output/east"


def test_a_path_without_the_folder_of_the_project_is_said(clone: Path) -> None:
    diffs.edit(clone / A, ("all.git}", "all.git, path: output/east}"), file="policies/cluster.yaml")

    answer = in_process.kae(clone / A, "compile")

    said = f"'argocd' applies 'output/east', but cluster 'east' is compiled to '{A}/output/east'."
    assert f"warning[engine-path]: {said}" in answer.err


def test_a_cache_that_moves_with_its_project_answers_for_no_other_folder(clone: Path) -> None:
    told(clone / A, "compile")
    (clone / A).rename(clone / "moved")

    answer = in_process.kae(clone / "moved", "compile", "--check")

    assert answer.code == 4
    assert "path: moved/output/east" in answer.out


def action_steps(root: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the steps of the action, by name."""
    listed = yaml.safe_load((root / "action.yml").read_text())["runs"]["steps"]
    return {step.get("name", "Python"): step for step in listed}


def pulled(world: World, clone: Path, name: str, host: codehosts.CodeHost, root: Path) -> str:
    """Run the action for a project, and return the name of its artifact."""
    output = world.folder / "github-output"
    output.unlink(missing_ok=True)
    environment = host.environment | {
        "GITHUB_ACTION_PATH": str(root),
        "GITHUB_OUTPUT": str(output),
        "GITHUB_STEP_SUMMARY": str(world.folder / "summary"),
        "KAE_PROJECT": name,
        "NO_PROXY": "*",
    }
    for step in ("Check", "Review", "Comment"):
        world.ended(0, clone, "bash", "-c", action_steps(root)[step]["run"], **environment)
    (artifact,) = output.read_text().splitlines()
    return artifact.removeprefix("artifact=")


def test_two_projects_of_a_repository_on_github_keep_two_comments_and_two_artifacts(
    world: World, clone: Path, repository_root: Path
) -> None:
    for name in (A, B):
        diffs.change(clone / name, "canary" if name == A else "plugin version")
        told(clone / name, "compile")
    world.propose(clone, "Change both")

    with codehosts.serving("github") as host:
        artifacts = [pulled(world, clone, name, host, repository_root) for name in (A, B, f"./{A}/")]

    assert artifacts == ["review-fleets-a-2265251807", "review-fleets-a", artifacts[0]]
    assert [one["body"].splitlines()[1] for one in host.comments] == [f"Project `{A}`:", f"Project `{B}`:"]
    assert "1 of 24 nodes" in host.comments[0]["body"]
    assert "1 of 24 nodes" not in host.comments[1]["body"]
    assert host.writes() == ["POST", "POST", "PATCH"]
    step = action_steps(repository_root)["Keep the page of the fleet"]
    assert step["with"]["name"] == "${{ steps.review.outputs.artifact }}"
    assert "Project fleets/a:" in (world.folder / "summary").read_text()


def gitlab_job(root: Path, name: str) -> tuple[list[str], Mapping[str, Any]]:
    """Return the lines of a job of the template, with the scripts of this checkout, and the job."""
    job = yaml.safe_load((root / "ci/gitlab.yml").read_text())[name]
    lines = [*job["script"], *job.get("after_script", ())]
    return [line.replace("/opt/kae/ci", str(root / SCRIPTS)) for line in lines], job


def test_two_projects_of_a_repository_on_gitlab_keep_two_comments_and_two_artifacts(
    world: World, clone: Path, repository_root: Path
) -> None:
    base = world.git(clone, "rev-parse", "HEAD")
    for name in (A, B):
        diffs.change(clone / name, "canary" if name == A else "plugin version")
        told(clone / name, "compile")
    world.commit(clone, "Change both")
    lines, job = gitlab_job(repository_root, "kae-review")
    pages = []

    with codehosts.serving("gitlab") as host:
        for name in (A, B, A):
            more = {"CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "KAE_PROJECT": name, "NO_PROXY": "*"}
            more["KAE_REVIEW"] = job["variables"]["KAE_REVIEW"].replace("$CI_PROJECT_DIR", str(clone))
            for line in lines:
                world.ended(0, clone, "bash", "-c", line, **host.environment, **more)
            pages.append((clone / job["artifacts"]["paths"][0] / "comment.md").read_text())
            assert (clone / job["artifacts"]["paths"][0] / "fleet.html").exists()
            assert not (clone / name / "review").exists()

    assert len(set(pages)) == 2
    assert [one["body"].splitlines()[1] for one in host.comments] == [f"Project `{A}`:", f"Project `{B}`:"]
    assert host.writes() == ["POST", "POST", "PUT"]


def test_the_project_at_the_root_keeps_the_comment_and_the_artifact_that_it_had(
    world: World, clone: Path, repository_root: Path
) -> None:
    for path in (clone / A).iterdir():
        path.rename(clone / path.name)
    told(clone, "compile")
    world.push(clone, "Move it")
    diffs.change(clone, "canary")
    told(clone, "compile")
    world.propose(clone, "Change it")

    with codehosts.serving("github") as host:
        artifact = pulled(world, clone, ".", host, repository_root)

    (comment,) = host.comments
    assert comment["body"].startswith("<!-- kae: what a pull request does -->\n### ")
    assert artifact == "review"
