"""What other repositories take from this one: the action, the GitLab template, the hooks of pre-commit."""

import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import project, revisions
from tests.cli import codehosts, diffs
from tests.cli.answers import told
from tests.cli.jobs import World


def data(root: Path, name: str) -> Any:
    """Return the data of a file of the repository."""
    return yaml.safe_load((root / name).read_text("utf-8"))


def steps(root: Path) -> dict[str, dict[str, Any]]:
    """Return the steps of the action that run a script, by name."""
    listed = data(root, "action.yml")["runs"]["steps"]
    return {step["name"]: step for step in listed if "run" in step}


def test_the_action_runs_scripts_that_are_there_and_pastes_no_word_into_them(repository_root: Path) -> None:
    for step in steps(repository_root).values():
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]
        for name in re.findall(r"\$GITHUB_ACTION_PATH/([\w./-]+)", step["run"]):
            assert (repository_root / name).is_file(), name


def test_only_the_step_that_comments_has_the_token(repository_root: Path) -> None:
    named = [name for name, step in steps(repository_root).items() if "token" in str(step.get("env")).lower()]

    assert named == ["Comment"]


@pytest.fixture
def world(tmp_path: Path, repository_root: Path) -> World:
    """An environment with kae, and a clone with what GitHub checks out of a pull request, in a folder of it."""
    world = World(tmp_path, repository_root)
    clone = world.folder / "a"
    folder = shutil.copytree(diffs.EXAMPLE, clone / "fleet")
    told(folder, "compile")
    revisions.commit(clone)
    diffs.change(folder, "canary")
    told(folder, "compile")
    world.git(clone, "checkout", "--quiet", "-b", "change")
    revisions.commit(clone)
    world.git(clone, "checkout", "--quiet", "main")
    world.git(clone, "merge", "--quiet", "--no-ff", "--no-edit", "change")
    return world


@pytest.mark.long
def test_the_steps_of_the_action_check_review_and_comment(world: World, repository_root: Path) -> None:
    with codehosts.serving("github") as host:
        environment = host.environment | {
            "GITHUB_ACTION_PATH": str(repository_root),
            "GITHUB_STEP_SUMMARY": str(world.folder / "summary"),
            "KAE_PROJECT": "fleet",
            "NO_PROXY": "*",
        }
        for name in ("Check", "Review", "Comment"):
            done = world.run(world.folder / "a", "bash", "-c", steps(repository_root)[name]["run"], **environment)
            assert done.returncode == 0, (name, done.stdout, done.stderr)

    (comment,) = host.comments
    assert "### 1 of 24 nodes in cluster east is affected" in comment["body"]
    assert (world.folder / "summary").exists()


def test_the_action_installs_kae_beside_the_jobs_own_python(tmp_path: Path, repository_root: Path) -> None:
    # pip is a stand-in, as there is no index: what is asked of it is pinned by hashes, which other tests install.
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@" --without-pip\n')
    (programs / "python3").chmod(0o755)
    project.write(tmp_path / "site/pip", {"__init__.py": "", "__main__.py": "import sys; print(*sys.argv[1:])\n"})
    environment = {
        "GITHUB_PATH": str(tmp_path / "path"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(tmp_path / "site"),
        "RUNNER_TEMP": str(tmp_path),
    }
    script = ("bash", str(repository_root / "ci/install-action.sh"))

    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    assert "--require-hashes" in done.stdout
    folder = Path((tmp_path / "path").read_text().strip())
    assert (folder / "kae").stat().st_mode & stat.S_IXUSR
    packages = next(path for path in map(Path, sys.path) if (path / "yaml").is_dir())
    more = {"PYTHONPATH": str(packages), "PATH": os.environ["PATH"]}
    version = subprocess.run((folder / "kae", "--version"), env=more, capture_output=True, text=True, check=True)
    assert version.stdout.startswith("kae ")


def test_the_gitlab_template_runs_the_scripts_of_the_image(repository_root: Path) -> None:
    jobs = data(repository_root, "ci/gitlab.yml")
    lines = [line for job in ("kae-check", "kae-review") for line in jobs[job]["script"]]
    lines += jobs["kae-review"]["after_script"]

    for line in lines:
        name = re.search(r"/opt/kae/ci/(\S+)", line)
        assert name
        assert (repository_root / "templates/init/ci" / name[1]).is_file()
    assert jobs[".kae"]["image"] == {"name": "$KAE_IMAGE", "entrypoint": [""]}
    assert "TOKEN" not in str(jobs)


def test_the_hooks_of_pre_commit_are_commands_of_kae_for_every_project(repository_root: Path) -> None:
    hooks = data(repository_root, ".pre-commit-hooks.yaml")

    assert [hook["id"] for hook in hooks] == ["kae-check", "kae-compile"]
    for hook in hooks:
        assert hook["language"] == "python"
        assert hook["pass_filenames"] is False
        command, *arguments = hook["entry"].split()
        assert command == "kae"
        assert set(arguments) <= {"compile", "--check"}
        for name, counts in (("policies/a.yaml", True), ("fleet/kae.yaml", True), ("README.md", False)):
            assert bool(re.search(hook["files"], name)) is counts
