"""ci/inventories.sh brings the inventories of the watchers' branches to the main line, and nothing else of them."""

import json
from pathlib import Path

import pytest
import yaml

from tests import builders, in_process, project
from tests.cli.jobs import World, inventory

pytestmark = pytest.mark.long

Files = dict[str, str]


def compiled(world: World, name: str = "job", **more: str) -> str:
    """Run the compile job in a new clone; return what it said."""
    done = world.ended(0, world.clone(name), "ci/compile.sh", "main", **more)
    return done.stdout + done.stderr


def test_a_newer_inventory_is_taken_and_an_unchanged_one_is_not(world: World) -> None:
    world.watch("inventory/default", {"inventory/default.json": inventory("kp-01")})
    compiled(world, "first")
    assert json.loads(world.text("output/default/index.json"))["hasNodes"] is True
    world.watch("inventory/default", {"inventory/default.json": inventory("kp-01", "kp-02")})
    compiled(world, "second")

    said = compiled(world, "third")

    assert "nothing to do" in said
    assert world.subjects() == ["Begin", "Compile default", "Compile default"]
    assert world.text("inventory/default.json") == inventory("kp-01", "kp-02").strip()
    world.ended(0, world.clone("checked"), "ci/check.sh")


def test_the_history_of_a_watcher_is_not_fetched_and_that_of_the_main_line_stays_whole(world: World) -> None:
    clone = world.clone("clone")
    world.git(clone, "commit", "--quiet", "--allow-empty", "--message", "More")
    world.git(clone, "push", "--quiet", "origin", "HEAD:main", "HEAD:inventory/default", "HEAD:inventory/west")
    for number in range(3):
        (clone / "inventory" / "default.json").write_text(inventory(f"kp-0{number}"))
        world.commit(clone, "inventory")
    world.git(clone, "push", "--quiet", "origin", "HEAD:inventory/default")
    world.git(world.folder, "clone", "--quiet", "--depth=1", f"file://{world.bare}", "job")
    job = world.folder / "job"

    world.ended(0, job, "ci/compile.sh", "main")

    assert world.text("inventory/default.json") == inventory("kp-02").strip()
    assert world.git(job, "rev-list", "--count", "refs/kae/inventory/default") == "1"
    assert world.git(world.bare, "rev-list", "--format=%s", "--no-commit-header", "main").split("\n") == [
        "Compile default",
        "More",
        "Begin",
    ]
    assert world.git(job, "rev-list", "--count", "HEAD") == "3"


def test_a_branch_that_begins_at_the_main_line_does_not_cut_its_history(world: World) -> None:
    clone = world.clone("clone")
    for number in range(2):
        (clone / "inventory" / "default.json").write_text(inventory(f"kp-0{number}"))
        world.commit(clone, "inventory")
    world.git(clone, "push", "--quiet", "origin", "HEAD:main", "HEAD:inventory/default")
    world.git(world.folder, "clone", "--quiet", "--no-local", str(world.bare), "job")
    job = world.folder / "job"

    world.ended(0, job, "ci/compile.sh", "main")

    assert world.git(job, "rev-parse", "--is-shallow-repository") == "false"
    assert world.git(job, "rev-list", "--count", "HEAD") == "4"


@pytest.mark.long
def test_watchers_may_commit_to_another_repository(world: World) -> None:
    other = world.folder / "inventory.git"
    world.git(world.folder, "init", "--quiet", "--bare", str(other))
    world.watch("inventory/default", {"inventory/default.json": inventory("kp-01")}, remote=other)

    compiled(world, KAE_INVENTORY_REMOTE=str(other))

    assert world.text("inventory/default.json") == inventory("kp-01").strip()


@pytest.mark.long
@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"inventory/default.json": "{"}, "is no inventory of the cluster"),
        ({"inventory/default.json": inventory("kp-01", cluster="west")}, "is no inventory of the cluster"),
        ({"inventory/west.json": inventory("kp-01")}, "has no file inventory/default.json"),
    ],
)
def test_a_branch_can_change_the_inventory_of_its_own_cluster_alone(world: World, files: Files, said: str) -> None:
    before = world.git(world.bare, "rev-parse", "main")
    more = {"policies/evil.yaml": "kind: KAEPolicy", "output/default/x.yaml": "kind: Pod"}
    world.watch("inventory/default", files | more)
    world.watch("inventory/west", {"inventory/west.json": inventory("a", cluster="west")} | more)
    world.watch("inventory/a/b", more)

    told = compiled(world)

    assert said in told
    for name in ("west", "a/b"):
        assert f"The branch inventory/{name} is of no cluster of this project" in told
    assert world.git(world.bare, "rev-parse", "main") == before


def test_a_link_in_the_place_of_an_inventory_is_not_followed(world: World) -> None:
    world.watch("inventory/default", {"inventory/default.json": "/etc/passwd"}, mode="120000")

    assert "has no file inventory/default.json" in compiled(world)


@pytest.mark.long
def test_a_cluster_that_is_compiled_without_an_inventory_gets_that_of_its_branch(world: World, clone: Path) -> None:
    cluster = clone / "policies/cluster.yaml"
    text = cluster.read_text("utf-8")
    (clone / "policies/west.yaml").write_text(text.replace('name: "default"', 'name: "west"'), "utf-8")
    assert in_process.kae(clone, "compile").code == 0
    world.push(clone, "West")
    world.watch("inventory/west", {"inventory/west.json": inventory("kp-01", cluster="west")})

    compiled(world)

    assert world.subjects()[-1] == "Compile west"
    assert world.text("inventory/west.json") == inventory("kp-01", cluster="west").strip()


def edited(world: World, files: Files) -> None:
    """Commit these files to the main line, with what they compile to."""
    clone = world.clone(f"person-{len(list(world.folder.iterdir()))}")
    project.write(clone, files)
    assert in_process.kae(clone, "compile").code == 0
    world.push(clone, "Edit")


def a_cluster(name: str, branch: str, path: str) -> str:
    """A KAECluster whose watcher commits there."""
    where = {"url": "https://git.test/inventory.git", "branch": branch, "path": path}
    watcher = {"enabled": True, "image": "r.test/watcher:1.0.0", "secretName": "git", "repository": where}
    return json.dumps(builders.raw("KAECluster", name, {"kubernetesVersion": "1.30", "watcher": watcher}))


@pytest.mark.long
def test_the_branch_and_the_folder_are_those_that_the_kaecluster_names(world: World) -> None:
    clusters = (("a.b-c", "nodes/one", "."), ("two", "nodes/two", "deep/er"), ("three", "gone", "inventory"))
    edited(world, {f"policies/{name}.json": a_cluster(name, branch, path) for name, branch, path in clusters})
    world.watch("nodes/one", {"a.b-c.json": inventory("kp-01", cluster="a.b-c")})
    world.watch("nodes/two", {"deep/er/two.json": inventory("kp-02", cluster="two")})
    world.watch("inventory/two", {"inventory/two.json": inventory("stranger", cluster="two")})

    said = compiled(world)

    assert world.text("inventory/a.b-c.json") == inventory("kp-01", cluster="a.b-c").strip()
    assert world.text("inventory/two.json") == inventory("kp-02", cluster="two").strip()
    assert "The branch inventory/two is of no cluster of this project, and ignored." in said
    assert "There is no branch gone, to which the watcher of three commits" in said


def test_a_branch_that_vanishes_leaves_the_inventory(world: World, clone: Path) -> None:
    world.watch("inventory/default", {"inventory/default.json": inventory("kp-01")})
    world.ended(0, clone, "ci/compile.sh", "main")
    world.git(world.bare, "branch", "-D", "inventory/default")
    world.watch("inventory", {"inventory/default.json": inventory("kp-02")})

    again = world.run(clone, "ci/compile.sh", "main")

    assert "nothing to do" in again.stdout
    assert world.text("inventory/default.json") == inventory("kp-01").strip()


@pytest.mark.long
def test_the_file_is_the_one_that_the_project_reads(world: World) -> None:
    edited(world, {"kae.yaml": f"{world.text('kae.yaml')}\ninventory: [nodes]\n", "nodes/.gitkeep": ""})
    world.watch("inventory/default", {"inventory/default.json": inventory("kp-01")})

    compiled(world)

    assert world.text("nodes/default.json") == inventory("kp-01").strip()
    assert json.loads(world.text("output/default/index.json"))["hasNodes"] is True
    assert world.subjects()[-1] == "Compile default"


GH = """case "$2" in
list) grep --count --line-regexp --fixed-strings "$4" open || true ;;
create) ! grep --quiet --line-regexp --fixed-strings "$4" refused || exit 1; echo "$4" >>open; echo "$@" >>created ;;
esac"""
"""A stand-in of GitHub's program: pull requests are lines of a file, and so are branches for which it opens none."""


def requested(world: World, repository_root: Path, *, refused: str = "") -> list[str]:
    """Run the workflow that opens pull requests in a clone; return what it has created so far.

    It fails where GitHub refuses to open one for a branch, such as one without a commit in common.
    """
    world.install(world.folder / "bin/gh", GH)
    workflow = yaml.safe_load((repository_root / "docs/examples/inventory/pull-request.yaml").read_text("utf-8"))
    (script,) = (step["run"] for step in workflow["jobs"]["request"]["steps"] if "run" in step)
    clone = world.folder / "requests"
    if not clone.exists():
        world.clone("requests")
        (clone / "open").touch()
        (clone / "created").touch()
    (clone / "refused").write_text(refused, "utf-8")
    world.git(clone, "pull", "--quiet")
    done = world.run(clone, "bash", "-euo", "pipefail", "-c", script, GITHUB_REF_NAME="main")
    assert done.returncode == bool(refused), done.stderr
    return (clone / "created").read_text("utf-8").splitlines()


@pytest.mark.long
def test_a_branch_that_is_ahead_gets_one_pull_request_and_after_the_merge_none(
    world: World, clone: Path, repository_root: Path
) -> None:
    world.git(clone, "checkout", "--quiet", "-b", "inventory/default")
    world.git(clone, "push", "--quiet", "origin", "inventory/default")
    assert requested(world, repository_root) == []
    (clone / "inventory/default.json").write_text(inventory("kp-01"), "utf-8")
    world.commit(clone, "inventory")
    world.git(clone, "push", "--quiet", "origin", "inventory/default")

    first, second = requested(world, repository_root), requested(world, repository_root)

    assert [line.partition(" --title ")[0] for line in first] == ["pr create --head inventory/default --base main"]
    assert second == first
    world.git(clone, "push", "--quiet", "origin", "HEAD:main")
    (world.folder / "requests/open").write_text("", "utf-8")
    assert requested(world, repository_root) == first


def test_a_branch_without_a_pull_request_does_not_keep_others_from_theirs(
    world: World, clone: Path, repository_root: Path
) -> None:
    for name in ("east", "west"):
        world.git(clone, "checkout", "--quiet", "-b", f"inventory/{name}", "main")
        (clone / f"inventory/{name}.json").write_text(inventory("kp-01", cluster=name), "utf-8")
        world.commit(clone, "inventory")
        world.git(clone, "push", "--quiet", "origin", f"inventory/{name}")

    created = requested(world, repository_root, refused="inventory/east\n")

    assert [line.partition(" --base ")[0] for line in created] == ["pr create --head inventory/west"]
