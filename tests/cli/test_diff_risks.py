"""`kae diff`: the risks of a change, what makes one an error, and who accepts it."""

import shutil
from pathlib import Path

import pytest

from tests import in_process, project, revisions
from tests.cli import diffs, fleet
from tests.cli.answers import refused, warned

STEP = "large-step:east/tls"


@pytest.fixture(scope="module")
def stepping(committed_rollout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose next commit changes the driver of all 24 nodes of a policy without waves; nobody changes it."""
    folder = shutil.copytree(committed_rollout, tmp_path_factory.mktemp("stepping") / "fleet")
    diffs.change(folder, "no waves")
    revisions.commit(folder)
    diffs.edit(folder, ("version: 2.2.0", "version: 2.3.0"))
    return folder


@pytest.fixture
def step(stepping: Path, tmp_path: Path) -> Path:
    """The same, which may be changed."""
    return shutil.copytree(stepping, tmp_path / "fleet")


def test_a_risk_is_a_warning_at_the_line_that_causes_it(stepping: Path) -> None:
    answer = warned(stepping, "diff")

    assert "policies/tls.yaml:13:14: warning[large-step]: Policy 'tls' takes the drivers of 24 of its 24 " in answer


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), 0),
        (("--fail-on", "large-step"), 1),
        (("--fail-on", "driver-removed", "--fail-on", "large-step"), 1),
        (("--fail-on", "driver-removed"), 0),
        (("--strict",), 1),
        (("--fail-on", "large-step", "--accept", "large-step"), 0),
        (("--fail-on", "large-step", "--accept", "large-step:east"), 0),
        (("--fail-on", "large-step", "--accept", STEP), 0),
        (("--fail-on", "large-step", "--accept", "large-step:west"), 1),
        (("--fail-on", "large-step", "--accept", "waves-skipped"), 1),
    ],
)
def test_a_risk_ends_with_exit_code_1_if_it_is_an_error_and_nobody_accepts_it(
    stepping: Path, arguments: tuple[str, ...], code: int
) -> None:
    assert in_process.kae(stepping, "diff", *arguments).code == code


@pytest.mark.parametrize(
    ("settings", "arguments", "code", "shown"),
    [
        ("findings: {large-step: error}", (), 1, "error[large-step]"),
        ("findings: {large-step: ignore}", (), 0, "1 large-step"),
        ("findings: {large-step: ignore}", ("--fail-on", "large-step"), 1, "error[large-step]"),
    ],
)
def test_the_project_decides_over_risks_unless_the_command_line_fails_on_them(
    step: Path, settings: str, arguments: tuple[str, ...], code: int, shown: str
) -> None:
    project.write(step, {"kae.yaml": f"{settings}\n"})

    answer = in_process.kae(step, "diff", *arguments)

    assert answer.code == code
    assert shown in answer.err


def test_a_limit_that_a_change_raises_holds_from_the_next_one_on(step: Path) -> None:
    project.write(step, {"kae.yaml": "limits: {stepPercent: 100}\n"})

    assert "limits.stepPercent allows 50 %" in warned(step, "diff")

    diffs.edit(step, ("version: 2.3.0", "version: 2.2.0"))
    revisions.commit(step)
    diffs.edit(step, ("version: 2.2.0", "version: 2.3.0"))
    assert in_process.kae(step, "diff").err == ""


def test_an_accepted_risk_stays_visible(stepping: Path) -> None:
    answer = in_process.kae(stepping, "diff", "--accept", STEP)

    assert f"accepted:\n  {STEP}: Policy 'tls' takes the drivers of 24 of its 24 nodes" in answer.out
    assert answer.err == ""
    (risk,) = diffs.data(stepping, "--accept", STEP)["risks"]
    assert (risk["code"], risk["scope"], risk["accepted"]) == ("large-step", STEP, True)
    assert diffs.data(stepping)["risks"][0]["accepted"] is False


def test_an_accepted_risk_that_the_change_does_not_have_is_told(stepping: Path) -> None:
    answer = in_process.kae(stepping, "diff", "--accept", "crd-pruned:east")

    assert "--accept crd-pruned:east lets nothing pass: the change has no such risk.\n" in answer.err


def test_a_code_that_is_no_risk_cannot_fail_a_diff(stepping: Path) -> None:
    assert "policy-overlap" in refused(2, stepping, "diff", "--fail-on", "policy-overlap")


def test_a_compile_lets_the_trailers_of_risks_be(step: Path) -> None:
    answer = warned(step, "compile", "--accept", STEP, "--accept", "removes-guard:east")

    assert STEP not in answer
    assert "--accept removes-guard:east lets nothing pass" in answer


def test_the_privileges_that_objects_gain_and_lose_are_shown(rollout: Path) -> None:
    diffs.change(rollout, "mirror")

    (first, *_) = diffs.data(rollout)["privileges"]

    told = {"kind": "DaemonSet", "name": "kae-driver-tls--canary", "new": False, "gone": False}
    assert {key: first[key] for key in told} == told
    assert first["gained"] == ["images from registry.example.com"]
    assert first["lost"] == ["images from cr.openfuyao.cn"]


def test_output_that_another_release_has_made_is_told(step: Path) -> None:
    diffs.edit(step, ("version: 2.3.0", "version: 2.2.0"))
    file = "output/east/driver/daemonset-kae-driver-tls.yaml"
    assert in_process.kae(step, "compile").code == 0
    revisions.commit(step)
    assert in_process.kae(step, "diff").out.endswith("no change\n")
    path = step / file
    path.write_text(path.read_text().replace("minReadySeconds: 10", "minReadySeconds: 11") + "# By hand.\n")

    answer = in_process.kae(step, "diff")
    comment = in_process.kae(step, "diff", "-o", "markdown").out

    assert f"{file}: warning[output-unexplained]: The output of cluster 'east' has changes" in answer.err
    assert "No node is affected" not in answer.out
    assert comment.startswith("### What this does to nodes is not known\n")
    assert in_process.kae(step, "diff", "--accept", "output-unexplained:east").err == ""

    assert in_process.kae(step, "compile").code == 0
    for changed in (step / "output").rglob("*.yaml"):
        changed.touch()  # git has not looked at it since.
    assert in_process.kae(step, "diff").err == ""


def test_output_that_its_documents_explain_is_none(step: Path) -> None:
    assert in_process.kae(step, "compile").code == 0
    assert "output-unexplained" not in in_process.kae(step, "diff").err  # It is the first one.
    revisions.commit(step)
    diffs.edit(step, ("version: 2.3.0", "version: 2.4.0"))
    assert in_process.kae(step, "compile").code == 0

    assert "output-unexplained" not in in_process.kae(step, "diff").err


def test_a_project_that_moves_leaves_what_follows_its_folder(step: Path) -> None:
    assert in_process.kae(step, "compile").code == 0
    revisions.commit(step)
    for name in ("policies", "inventory", "output"):
        (step / "fleets/all").mkdir(parents=True, exist_ok=True)
        shutil.move(step / name, step / "fleets/all" / name)

    answer = in_process.kae(step / "fleets/all", "diff")

    said = "warning[output-moved]: The output of cluster 'east' is no longer in output/east of the repository."
    assert said in answer.err
    assert in_process.kae(step / "fleets/all", "diff", "--fail-on", "output-moved").code == 1
    assert "output-moved" not in in_process.kae(step / "fleets/all", "diff", "--accept", "output-moved:east").err
    revisions.commit(step)
    assert "output-moved" in in_process.kae(step / "fleets/all", "diff", "HEAD~1", "--to", "HEAD").err
    assert "output-moved" not in in_process.kae(step / "fleets/all", "diff").err


def test_another_folder_of_outputs_is_one_that_moves(step: Path) -> None:
    assert in_process.kae(step, "compile").code == 0
    revisions.commit(step)
    project.write(step, {"kae.yaml": "output: rendered\n"})
    shutil.move(step / "output", step / "rendered")

    assert (
        "warning[output-moved]: The output of cluster 'east' is no longer in output/east"
        in in_process.kae(step, "diff").err
    )


def test_an_output_that_moves_in_two_commits_is_told_by_both(step: Path) -> None:
    assert in_process.kae(step, "compile").code == 0
    revisions.commit(step)
    project.write(step, {"kae.yaml": "output: rendered\n"})
    assert in_process.kae(step, "compile").code == 0

    first = in_process.kae(step, "diff")

    stays = (
        "The output of cluster 'east' stays in output/east of the repository, and another folder has it from now on."
    )
    assert f"warning[output-moved]: {stays}" in first.err
    assert "No node is affected" not in first.out
    revisions.commit(step)
    assert stays in in_process.kae(step, "diff", "HEAD~1", "--to", "HEAD").err
    assert "output-moved" not in in_process.kae(step, "diff").err
    shutil.rmtree(step / "output")

    for told in (in_process.kae(step, "diff"), _committed_diff(step)):
        assert "output-moved]: The output of cluster 'east' is no longer in output/east of the repository." in told.err
        assert "What applies an output decides what becomes of nodes" in told.out
        assert "No node is affected" not in told.out


def _committed_diff(step: Path) -> in_process.Answer:
    revisions.commit(step)
    return in_process.kae(step, "diff", "HEAD~1", "--to", "HEAD")


def test_the_output_of_another_project_that_goes_is_none_that_moves(step: Path) -> None:
    for name in ("policies", "inventory"):
        shutil.copytree(step / name, step / "fleets/all" / name)
    for folder in (step, step / "fleets/all"):
        assert in_process.kae(folder, "compile").code == 0
    revisions.commit(step)
    shutil.rmtree(step / "fleets/all/output")

    assert "output-moved" not in in_process.kae(step, "diff").err


@pytest.mark.parametrize(
    ("gitops", "hint"),
    [
        ("", "Apply rendered/east from now on."),
        ("engine: argocd", "Have Argo CD follow the new folder, with pruning off until it does."),
        (
            "engine: flux\n    repository: {url: https://git.example.com/fleet.git, revision: main}",
            "Have Flux follow the new folder, with pruning off until it does; bootstrap/ has the path.",
        ),
    ],
)
def test_the_way_out_of_a_moved_output_is_that_of_its_engine(step: Path, gitops: str, hint: str) -> None:
    spec = f"spec:\n  gitops:\n    {gitops}\n" if gitops else ""
    project.write(step, {"policies/cluster.yaml": fleet.EAST + spec})
    assert in_process.kae(step, "compile").code == 0
    revisions.commit(step)
    project.write(step, {"kae.yaml": "output: rendered\n"})
    shutil.move(step / "output", step / "rendered")

    said = in_process.kae(step, "diff").err

    assert f"hint: {hint} To accept it" in said


def test_a_new_cluster_beside_one_of_that_name_elsewhere_is_none_that_moves(step: Path) -> None:
    assert in_process.kae(step, "compile").code == 0
    revisions.commit(step)
    for name in ("policies", "inventory"):
        shutil.copytree(step / name, step / "fleets/all" / name)

    assert "output-moved" not in in_process.kae(step / "fleets/all", "diff").err
