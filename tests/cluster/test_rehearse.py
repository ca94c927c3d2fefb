"""`kae rehearse` on the control planes that it starts: what happens is what `kae diff` says, and a lie is told.

docs/foresight.md has the calls.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from compiler.changes import pods
from compiler.kube import client, credentials
from compiler.rehearsal import api
from compiler.rehearsal import programs as own
from tests import in_process, revisions
from tests.cli import fleet, jobs
from tests.cluster.local import programs, waiting
from tests.cluster.rehearsals import trial


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with trial.running() as path:
        yield path


@pytest.fixture
def swap(tmp_path: Path) -> Path:
    """A project whose second commit has the driver of a policy replaced, and a node join."""
    folder = fleet.small(tmp_path / "project")
    revisions.commit(folder)
    path = folder / "policies/tls.yaml"
    path.write_text(path.read_text().replace("version: 2.2.0", "version: 2.3.0"))
    (folder / "inventory/east.json").write_text(fleet.listed())
    revisions.commit(folder)
    return folder


@pytest.mark.parametrize("seed", range(100, 104))
def test_a_random_pair_of_commits_goes_as_diff_says(seed: int, kubeconfig: Path, tmp_path: Path) -> None:
    found = trial.trial(kubeconfig, seed, tmp_path)

    assert found.faults == [], found


def test_a_rehearsal_counts_each_pod_that_comes_and_is_replaced(swap: Path, kubeconfig: Path) -> None:
    answer = trial.rehearsed(kubeconfig, swap)

    assert (answer.code, answer.err) == (0, "")
    assert "cluster east: 6 hollow nodes, as `kae diff` says\n" in answer.out
    assert [line.split()[1:5] for line in answer.out.splitlines() if "driver-tls" in line] == [
        ["kae-operator/kae-driver-tls", "replaced", "1", "1"]
    ]


def test_a_diff_that_lies_is_told_as_a_difference(swap: Path, kubeconfig: Path) -> None:
    with mock.patch.object(pods, "replaced", lambda _: frozenset()):
        answer = trial.rehearsed(kubeconfig, swap)
        (cluster,) = json.loads(trial.rehearsed(kubeconfig, swap, "-o", "json").out)["clusters"]

    assert answer.code == 4
    assert "NOT as `kae diff` says" in answer.out
    assert "only rehearsed: kp920-01" in answer.out
    lies = [(row["name"], row["fate"], row["foretold"]) for row in cluster["pods"] if not row["equal"]]
    assert lies == [("kae-driver-tls", "replaced", [])]


def test_a_cluster_of_a_kubeconfig_is_left_as_empty_as_it_was(swap: Path, tmp_path: Path) -> None:
    with trial.running() as path:
        server = api.Api(client.Connection(credentials.of_files([path]), "tests"))
        before = _there(server)
        options = ("rehearse", "HEAD~1", "--to", "HEAD", "--kubeconfig", str(path))
        answers = [in_process.kae(swap, *options) for _ in range(2)]
        assert [(answer.code, answer.err) for answer in answers] == [(0, "")] * 2
        assert _there(server) == before

        server.do("POST", "/api/v1/nodes", {"metadata": {"name": "real-01"}})
        refused = in_process.kae(swap, *options)
        assert refused.code == 1
        assert "is not empty: it has nodes, such as 'real-01'." in refused.err


def _there(server: api.Api) -> list[str]:
    paths = [f"/api/v1/{kind}" for kind in ("nodes", "pods", "namespaces")]
    paths += ["/apis/apps/v1/daemonsets", "/apis/rbac.authorization.k8s.io/v1/clusterroles"]
    paths.append("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    return [f"{path} {item['metadata']['name']}" for path in paths for item in server.items(path)]


def test_a_rehearsal_that_is_asked_to_end_ends_its_programs(swap: Path, tmp_path: Path) -> None:
    words = ("-m", "compiler", "rehearse", "HEAD~1", "--to", "HEAD", "--programs", str(programs.folder()))
    environment = {**os.environ, "TMPDIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen((sys.executable, *words), cwd=swap, env=environment) as process:
        waiting.until("the scheduler", lambda: "kube-scheduler" in _programs(tmp_path))
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=120) == 128 + signal.SIGTERM

    assert _programs(tmp_path) == []
    assert [*tmp_path.glob("kae-rehearse-*")] == []


def test_the_job_of_a_pull_request_rehearses_it_on_the_programs_of_an_archive(swap: Path, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    shutil.copytree(root / "templates/init/ci", swap / "ci")
    (tmp_path / "world").mkdir()
    world = jobs.World(tmp_path / "world", root)
    world.install_real_kae()
    world.install(tmp_path / "world/bin/python3", ": pip has nothing to install")
    archive, summary = tmp_path / "programs.tar.gz", tmp_path / "summary"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        for name in own.NAMES:
            packed.add(programs.path(name), f"kubernetes/server/bin/{name}")
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    more = {"KAE_CONTROL_PLANE": str(archive), "KAE_CONTROL_PLANE_SHA256": digest, "GITHUB_STEP_SUMMARY": str(summary)}

    done = world.run(swap, "bash", "ci/rehearse.sh", "HEAD~1", **more, **jobs.ACTIONS)

    said = "cluster east: 6 hollow nodes, as `kae diff` says\n"
    assert (done.returncode, done.stderr) == (0, "")
    assert said in done.stdout
    assert summary.read_text().startswith(f"### The rehearsal differs nowhere from what `kae diff` says\n\n    {said}")


def _programs(folder: Path) -> list[str]:
    """Return the names of the programs that work in a folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").readlink().is_relative_to(folder / "") and process != Path("/proc/self"):
                found.append((process / "comm").read_text().strip())
        except OSError:
            continue
    return [name for name in found if any(each.startswith(name) for each in own.NAMES)]
