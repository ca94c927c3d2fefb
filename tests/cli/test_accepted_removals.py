"""ci/compile.sh lets a removal pass only where a commit since the last compiled one accepts it in a trailer."""

from pathlib import Path

import pytest

from tests import in_process
from tests.cli.jobs import World, inventory

pytestmark = pytest.mark.long

SCOPES = ("removes-device-plugins:default/kae", "removes-drivers:default/kae")
TRAILERS = "\n".join(f"Kae-Accept: {scope}" for scope in SCOPES)
POLICY = "policies/policy.yaml"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """A fleet of one node whose main line is compiled; not to be changed."""
    return World(tmp_path_factory.mktemp("accepted"), repository_root).begin(inventory=inventory("kp-01"))


def remove_policy(world: World, clone: Path, message: str) -> None:
    """Commit the removal of the policy, and nothing in output/."""
    (clone / POLICY).unlink()
    world.commit(clone, message)


def restrict_pods(clone: Path) -> None:
    """Make a change that takes nothing away, and changes output/."""
    path = clone / "policies/cluster.yaml"
    path.write_text(f"{path.read_text(encoding='utf-8')}  psa:\n    enabled: true\n", encoding="utf-8")


def compiled(world: World, clone: Path, code: int = 0) -> str:
    """Push the main line, run the job, which ends with a code, and return what it reports."""
    world.git(clone, "push", "--quiet", "origin", "HEAD:main")
    return world.ended(code, clone, "ci/compile.sh", "main").stderr


def test_without_a_trailer_the_job_fails_and_shows_what_lets_the_removal_pass(world: World, clone: Path) -> None:
    remove_policy(world, clone, "Remove the policy")

    said = compiled(world, clone, 1)
    refused = world.subjects()
    world.git(clone, "checkout", "--quiet", "main")
    for line in said.splitlines()[-2:]:
        world.run(clone, "bash", "-c", line)
    compiled(world, clone)

    assert "error[removes-drivers]" in said
    lines = (f"  git commit --allow-empty -m 'Accept a removal' -m 'Kae-Accept: {scope}'\n" for scope in SCOPES)
    assert said.endswith("To accept a removal here, push a commit that ends with its trailer:\n" + "".join(lines))
    assert refused == ["Begin", "Remove the policy"]
    assert world.subjects()[-1] == "Compile default"


def test_the_output_may_be_in_a_folder_of_another_name(world: World, clone: Path) -> None:
    (clone / "kae.yaml").write_text("{output: deploy}  # what Argo CD applies\n", encoding="utf-8")
    world.git(clone, "mv", "output", "deploy")
    restrict_pods(clone)
    world.commit(clone, "Rename the folder, restrict pods")

    compiled(world, clone)

    assert world.subjects()[-1] == "Compile default"
    assert world.git(world.bare, "ls-tree", "--name-only", "main", "output") == ""


def test_the_commit_that_removes_may_accept_it(world: World, clone: Path) -> None:
    remove_policy(world, clone, f"Remove the policy\n\n{TRAILERS.replace('/kae', '').lower()}")

    said = compiled(world, clone)

    assert "Kae-Accept" not in said
    assert world.subjects() == ["Begin", "Remove the policy", "Compile default"]
    assert "daemonset-kae-driver-kae" not in world.text("output/default/kustomization.yaml")


def test_each_removal_needs_its_own_trailer(world: World, clone: Path) -> None:
    remove_policy(world, clone, f"Remove the policy\n\nKae-Accept: {SCOPES[0]}")

    said = compiled(world, clone, 1)

    assert [f"-m 'Kae-Accept: {scope}'" in said for scope in SCOPES] == [False, True]


def test_a_trailer_on_a_branch_older_than_the_last_compile_counts_once_merged(world: World, clone: Path) -> None:
    world.git(clone, "switch", "--quiet", "--create", "removal")
    remove_policy(world, clone, f"Remove the policy\n\n{TRAILERS}")
    world.git(clone, "switch", "--quiet", "main")
    restrict_pods(clone)
    world.commit(clone, "Restrict pods")
    compiled(world, clone)
    world.git(clone, "pull", "--quiet", "origin", "main")
    world.git(clone, "checkout", "--quiet", "-B", "main", "origin/main")
    world.git(clone, "merge", "--quiet", "--no-ff", "--message", "Merge the removal", "removal")

    compiled(world, clone)


def test_a_squash_keeps_a_trailer_only_at_its_end(world: World, clone: Path) -> None:
    world.git(clone, "switch", "--quiet", "--create", "removal")
    remove_policy(world, clone, f"Remove the policy\n\n{TRAILERS}")
    world.git(clone, "switch", "--quiet", "main")
    world.git(clone, "merge", "--quiet", "--squash", "removal")
    world.git(clone, "commit", "--quiet", "--no-edit")

    said = compiled(world, clone, 1)
    world.git(clone, "checkout", "--quiet", "main")
    world.git(clone, "commit", "--quiet", "--amend", "--message", f"Remove the policy (#1)\n\n{TRAILERS}")
    world.git(clone, "push", "--quiet", "--force", "origin", "main")
    compiled(world, clone)

    assert "has 'Kae-Accept:' outside of its last paragraph; this is no trailer, and ignored." in said


def test_a_trailer_from_before_the_last_compiled_commit_does_not_count(world: World, clone: Path) -> None:
    restrict_pods(clone)
    world.commit(clone, f"Restrict pods\n\n{TRAILERS}")
    compiled(world, clone)
    world.git(clone, "checkout", "--quiet", "-B", "main", "origin/main")
    remove_policy(world, clone, "Remove the policy")

    said = compiled(world, clone, 1)

    assert f"-m 'Kae-Accept: {SCOPES[0]}'" in said


def test_a_trailer_of_the_commit_that_changed_output_does_not_count_either(world: World, clone: Path) -> None:
    restrict_pods(clone)
    in_process.kae(clone, "compile")
    world.commit(clone, f"Restrict pods, compiled\n\n{TRAILERS}")
    remove_policy(world, clone, "Remove the policy")

    compiled(world, clone, 1)


def test_a_shallow_clone_finds_trailers_in_older_commits(world: World, clone: Path) -> None:
    remove_policy(world, clone, f"Remove the policy\n\n{TRAILERS}")
    for subject in ("One", "Two", "Three"):
        world.git(clone, "commit", "--quiet", "--allow-empty", "--message", subject)
    world.git(clone, "push", "--quiet", "origin", "main")
    world.git(world.folder, "clone", "--quiet", "--depth=1", f"file://{world.bare}", "shallow")

    world.ended(0, world.folder / "shallow", "ci/compile.sh", "main")


def test_trailers_that_are_wrong_are_named_and_the_removal_stays_refused(world: World, clone: Path) -> None:
    values = ("removes-driver:default/kae", "$(touch broken) `touch broken` '; touch broken # *", "--help")
    remove_policy(world, clone, "Remove the policy\n\n" + "\n".join(f"Kae-Accept: {value}" for value in values))

    said = compiled(world, clone, 1)

    for value in values:
        assert f"says 'Kae-Accept: {value}', which is ignored: argument --accept: " in said
    assert said.count("is no code that can be accepted") == 3
    assert "usage:" not in said
    assert "error[removes-drivers]" in said
    assert not (clone / "broken").exists()


def test_a_trailer_that_is_wrong_stops_no_other_change(world: World, clone: Path) -> None:
    restrict_pods(clone)
    world.commit(clone, "Restrict pods\n\nKae-Accept: everything")

    assert "says 'Kae-Accept: everything', which is ignored" in compiled(world, clone)
