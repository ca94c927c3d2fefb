"""What becomes of objects that leave the output: an engine deletes them, or they stay, and with them what they do."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import in_process, project, revisions
from tests.cli import fleet

ENGINES = {"argocd": "Argo CD", "flux": "Flux"}
POLICY = fleet.POLICY.replace("    version: 2.2.0\n", "    version: 2.2.0\n    enabledCleanup: true\n", 1)


def cluster(engine: str, prune: str) -> str:
    """Return the KAECluster with an engine that prunes or not."""
    repository = "    repository: {url: https://git.example.com/fleet.git, revision: main}\n"
    own = f"    {engine}: {{prune: {prune}}}\n" if engine != "none" else ""
    return f"{fleet.EAST}spec:\n  gitops:\n    engine: {engine}\n{repository if own else ''}{own}"


def made(folder: Path, engine: str, prune: str) -> Path:
    """A project with a policy whose installers clean up, committed with its output."""
    fleet.small(folder)
    (folder / "policies/rest.yaml").unlink()
    (folder / "policies/west.yaml").unlink()
    project.write(folder, {"policies/tls.yaml": POLICY, "policies/east.yaml": cluster(engine, prune)})
    assert in_process.kae(folder, "compile").code == 0
    revisions.commit(folder)
    return folder


@pytest.fixture(params=ENGINES)
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A project whose engine does not prune, and the engine's name."""
    yield made(tmp_path, request.param, "false"), ENGINES[request.param]


def deleted(folder: Path) -> tuple[str, str]:
    """Delete the policy, and return what `kae compile` and then `kae diff` say."""
    (folder / "policies/tls.yaml").unlink()
    accepted = ("--accept", "removes-drivers:east", "--accept", "removes-device-plugins:east")
    refused = in_process.kae(folder, "compile").err
    answer = in_process.kae(folder, "compile", *accepted)
    assert answer.code == 0
    diff = in_process.kae(folder, "diff")
    return refused + answer.out + answer.err, diff.out + diff.err


def test_without_pruning_what_leaves_the_output_stays_and_goes_on(kept: tuple[Path, str]) -> None:
    folder, engine = kept

    compiled, shown = deleted(folder)

    stays = f"it stays in the cluster until somebody deletes it, as prune is off for {engine}"
    assert f"Its last DaemonSet leaves the output, and {stays}. What is said of nodes comes true then." in compiled
    assert f"what is deleted leaves the output: {stays}" in compiled
    assert f"  leaves the output, and {stays}: DaemonSet kae-operator/kae-driver-tls\n" in shown
    assert "1 node of policy tls keeps DaemonSets kae-driver-tls and kae-device-plugin-tls in cluster east, " in shown
    for false in ("pruned by", "1 deleted", "keeps driver", "loses", "driver-removed", "deleted, with what"):
        assert false not in shown


def test_without_pruning_a_policy_of_another_name_has_two_installers_on_a_node(kept: tuple[Path, str]) -> None:
    folder, _ = kept
    project.write(folder, {"policies/tls.yaml": POLICY.replace("name: tls", "name: web", 1)})
    compiled = in_process.kae(folder, "compile")

    shown = in_process.kae(folder, "diff").out

    assert compiled.code == 0
    assert "until then the nodes have the pods of both policies." in compiled.err
    assert "removes the driver before" not in compiled.err
    assert "delete them by hand; until then two driver installers are there." in shown
    assert "enabledCleanup" not in shown[shown.index("effect:") : shown.index("objects:")]
    assert "DaemonSet kae-driver-tls: 1 deleted" not in shown
    assert "DaemonSet kae-driver-web: 1 created" in shown


def test_an_engine_that_prunes_is_named(tmp_path: Path) -> None:
    compiled, shown = deleted(made(tmp_path, "flux", "true"))

    assert "Its last DaemonSet leaves the output, and Flux deletes it.\n" in compiled
    assert "  pruned by Flux: DaemonSet kae-operator/kae-driver-tls\n" in shown
    assert "DaemonSet kae-driver-tls: 1 deleted" in shown


def test_without_an_engine_a_person_deletes(tmp_path: Path) -> None:
    compiled, shown = deleted(made(tmp_path, "none", ""))

    assert "until somebody deletes it, as gitops.engine names no engine." in compiled
    assert "Cluster east has no engine (gitops.engine: none): what is told of objects that leave the output" in shown
    assert "GitOps engine deletes" not in compiled + shown
    assert "pruned" not in shown


def test_pruning_that_is_switched_off_by_the_same_commit_counts_as_on(tmp_path: Path) -> None:
    folder = made(tmp_path, "argocd", "true")
    project.write(folder, {"policies/east.yaml": cluster("argocd", "false")})

    compiled, shown = deleted(folder)

    assert "and Argo CD deletes it.\n" in compiled
    assert "pruned by Argo CD: DaemonSet kae-operator/kae-driver-tls\n" in shown


def test_a_cluster_that_goes_without_an_engine_is_told_of_no_engine(tmp_path: Path) -> None:
    folder = made(tmp_path, "none", "")
    for path in (folder / "policies/east.yaml", folder / "policies/tls.yaml", folder / "inventory/east.json"):
        path.unlink()

    shown = in_process.kae(folder, "diff").out

    assert "Cluster east has no engine" in shown
    assert "ApplicationSet" not in shown
