"""The scripts of the workflows run, with stand-ins for the programs that ask GitHub or a registry."""

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import revisions
from tests.documentation import workflows

REPOSITORY = "Team/KAE"
DIST = (
    *("kae_compiler-0.2.0-py3-none-any.whl", "images.txt", "SHA256SUMS", "SHA256SUMS.sigstore.json"),
    *("provenance.json", "kae-x.cdx.json"),
)
IMAGES = ("kae-device-plugin", "kae-driver-installer", "kae-watcher", "kae-compiler")
RECORD = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
"""
"""A program that does nothing but note how it was called."""


@pytest.fixture
def runner(tmp_path: Path) -> Path:
    """A folder as a runner has it: a checkout, what earlier jobs have left, and the stand-ins."""
    for name in ("checkout/dist/digests", "checkout/ci", "programs"):
        (tmp_path / name).mkdir(parents=True)
    for name in DIST:
        (tmp_path / "checkout/dist" / name).write_text(name)
    for name in IMAGES:
        (tmp_path / "checkout/dist/digests" / name).write_text(f"sha256:{name}")
    for path in ("programs/podman", "programs/gh", "checkout/ci/release.sh"):
        (tmp_path / path).write_text(RECORD)
        (tmp_path / path).chmod(0o755)
    return tmp_path


def run(runner: Path, job: dict[str, Any], variables: dict[str, str] | None = None) -> list[str]:
    """Run the scripts of a job as a runner does, and return the calls of the stand-ins."""
    files = {name: str(runner / name) for name in ("GITHUB_ENV", "GITHUB_OUTPUT", "CALLS")}
    github = {"GITHUB_REPOSITORY": REPOSITORY, "GITHUB_ACTOR": "somebody", "GITHUB_REF_NAME": "v0.2.0"}
    for step in job["steps"]:
        if "run" not in step:
            continue
        assert "${{" not in step["run"]
        own = {name: re.sub(r"\$\{\{.*?\}\}", "of-github", value) for name, value in step.get("env", {}).items()}
        path = {"PATH": f"{runner / 'programs'}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            ("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step["run"]),
            cwd=runner / "checkout",
            env=os.environ | github | files | path | own | (variables or {}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{step['run']}\n{done.stdout}{done.stderr}"
    return (runner / "CALLS").read_text().splitlines() if (runner / "CALLS").exists() else []


@pytest.mark.parametrize("name", workflows.jobs("release"))
def test_every_job_of_a_release_logs_in_and_has_the_registry_in_small_letters(runner: Path, name: str) -> None:
    login, *calls = run(runner, workflows.jobs("release")[name])

    file = Path.home() / ".docker/config.json"
    assert login == f"podman login --authfile {file} --username somebody --password-stdin ghcr.io"
    assert calls[0].startswith("release.sh ")
    assert (runner / "GITHUB_ENV").read_text() == "REGISTRY=ghcr.io/team/kae\n"


def test_the_last_job_of_a_release_attests_each_image_and_publishes_every_file(runner: Path) -> None:
    job = workflows.jobs("release")["publish"]

    *_, publish = run(runner, job)

    outputs = dict(line.split("=") for line in (runner / "GITHUB_OUTPUT").read_text().splitlines())
    attested = [step["with"]["subject-digest"] for step in job["steps"] if "subject-digest" in step.get("with", {})]
    assert attested == [f"${{{{ steps.digests.outputs.{name} }}}}" for name in IMAGES]
    assert outputs == {name: f"sha256:{name}" for name in IMAGES}
    assert publish.startswith("gh release create v0.2.0 --draft --verify-tag ")
    assert publish.split()[-len(DIST) :] == [f"dist/{name}" for name in DIST]


@pytest.mark.parametrize("changes", [True, False])
def test_new_locks_become_a_branch_and_a_pull_request_and_no_change_is_nothing(runner: Path, changes: bool) -> None:
    checkout, origin = runner / "checkout", runner / "origin.git"
    (checkout / "requirements.lock").write_text("a==1\n")
    revisions.commit(checkout)
    revisions.git(checkout, "clone", "--quiet", "--bare", ".", str(origin))
    (checkout / "requirements.lock").write_text("a==2\n" if changes else "a==1\n")
    (checkout / "locks.patch").write_text(revisions.git(checkout, "diff", "--binary"))
    revisions.git(checkout, "checkout", "--quiet", "requirements.lock")
    redirect = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{origin}.insteadOf",
        "GIT_CONFIG_VALUE_0": f"https://x-access-token:of-github@github.com/{REPOSITORY}",
    }

    calls = run(runner, workflows.jobs("dependencies")["open"], redirect)

    branches = revisions.git(origin, "for-each-ref", "--format=%(refname:short)", "refs/heads/dependencies").split()
    assert branches == ["dependencies"] * changes
    assert calls == ["gh pr create --fill --base v0.2.0 --head dependencies"] * changes
    if changes:
        assert revisions.git(origin, "show", "dependencies:requirements.lock") == "a==2\n"
        assert revisions.git(origin, "diff", "--name-only", "main", "dependencies") == "requirements.lock\n"


def test_the_base_images_become_those_of_their_tags(tmp_path: Path) -> None:
    root = Path(__file__).resolve().parents[2]
    files = [*root.glob("*/Dockerfile"), root / "ci/compiler.Dockerfile", root / ".github/workflows/ci.yml"]
    for path in (*files, root / "ci/bases.sh"):
        copy = tmp_path / "checkout" / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (tmp_path / "programs").mkdir()
    # The manifest of a tag is its name.
    (tmp_path / "programs/skopeo").write_text('#!/bin/sh\nprintf %s "$3"\n')
    (tmp_path / "programs/skopeo").chmod(0o755)

    done = subprocess.run(
        ("ci/bases.sh",),
        cwd=tmp_path / "checkout",
        env=os.environ | {"PATH": f"{tmp_path / 'programs'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    for path in files:
        text = (tmp_path / "checkout" / path.relative_to(root)).read_text("utf-8")
        tag = "bookworm" if path.parent.name in ("device_plugin", "workflows") else "trixie"
        digest = hashlib.sha256(f"docker://docker.io/library/python:3.13-slim-{tag}".encode()).hexdigest()
        assert re.findall("python@sha256:([0-9a-f]+)", text) == [digest]
