"""ci/compile.sh compiles between pull requests that are merged one after another, and after a conflict."""

from pathlib import Path

import pytest

from tests import in_process
from tests.cli.jobs import World

pytestmark = pytest.mark.long

UP_TO_DATE = (0, "default: unchanged\noutput/ is up to date.\n")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> Path:
    """A fleet of `kae init` with the policies a and b, whose main line is compiled; not to be changed."""
    world = World(tmp_path_factory.mktemp("begun"), repository_root)
    made = world.folder / "made"
    in_process.kae(world.folder, "init", "made")
    text = (made / "policies/policy.yaml").read_text(encoding="utf-8")
    (made / "policies/policy.yaml").unlink()
    for name in ("a", "b"):
        selector = f"spec:\n  nodeSelector:\n    matchLabels:\n      pool: {name}\n"
        policy = text.replace("name: kae\n", f"name: {name}\n").replace("spec:\n", selector)
        (made / f"policies/{name}.yaml").write_text(policy, encoding="utf-8")
    world.publish(made)
    return world.bare


def request(world: World, name: str, *, compiled: bool) -> Path:
    """Return a clone with a pull request that adds a policy to the main line as it is."""
    clone = world.clone(name)
    text = (clone / "policies/a.yaml").read_text(encoding="utf-8")
    policy = text.replace("name: a\n", f"name: {name}\n").replace("pool: a\n", f"pool: {name}\n")
    (clone / f"policies/{name}.yaml").write_text(policy, encoding="utf-8")
    if compiled:
        assert in_process.kae(clone, "compile").code == 0
    world.commit(clone, f"Add {name}")
    return clone


def conflicts(world: World, clone: Path) -> list[str]:
    """Merge the main line into a request, end it by a compile, and return the files that were in conflict."""
    world.git(clone, "fetch", "--quiet", "origin")
    world.run(clone, "git", "merge", "--quiet", "--no-edit", "origin/main")
    paths = world.git(clone, "diff", "--name-only", "--diff-filter=U").splitlines()
    if paths:
        assert in_process.kae(clone, "compile").code == 0
        world.git(clone, "add", "--all")
        world.git(clone, "commit", "--quiet", "--no-edit")
    return paths


def pushed(world: World, clone: Path) -> tuple[int, str]:
    """Push to the main line, run the job, and return its exit code and what it reports."""
    world.git(clone, "push", "--quiet", "origin", "HEAD:main")
    done = world.run(clone, "ci/compile.sh", "main")
    return done.returncode, done.stdout + done.stderr


def assert_compiled(world: World) -> None:
    """The main line has the driver of each policy, and is compiled."""
    clone = world.clone("check")
    assert in_process.kae(clone, "compile", "--check").code == 0
    drivers = sorted(path.name for path in (clone / "output/default/driver").glob("daemonset-*"))
    assert drivers == [f"daemonset-kae-driver-{name}--rest.yaml" for name in "abcd"]


def test_requests_of_documents_alone_are_merged_and_compiled_one_after_another(world: World) -> None:
    first, second = (request(world, name, compiled=False) for name in "cd")

    for clone in (first, second):
        assert conflicts(world, clone) == []
        code, said = pushed(world, clone)
        assert (code, "Pushed" in said) == (0, True), said

    assert_compiled(world)


def test_requests_with_output_conflict_and_a_compile_ends_that(world: World) -> None:
    first, second = (request(world, name, compiled=True) for name in "cd")

    assert conflicts(world, first) == []
    assert pushed(world, first) == UP_TO_DATE
    assert "output/default/index.json" in conflicts(world, second)
    assert pushed(world, second) == UP_TO_DATE

    assert_compiled(world)


def test_a_request_with_output_conflicts_with_what_the_job_has_compiled(world: World) -> None:
    first, second = request(world, "c", compiled=False), request(world, "d", compiled=True)

    assert pushed(world, first)[0] == 0
    assert "output/default/index.json" in conflicts(world, second)
    assert pushed(world, second) == UP_TO_DATE

    assert_compiled(world)


def test_the_job_mends_a_conflict_that_was_committed(world: World, clone: Path) -> None:
    path = clone / "output/default/kustomization.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> main\n", encoding="utf-8")
    world.commit(clone, "Merge it with its marks")

    code, said = pushed(world, clone)

    assert code == 0, said
    assert world.text("output/default/kustomization.yaml") == text.strip()


def test_files_that_gitignore_names_are_committed_where_engines_look(world: World) -> None:
    clone = request(world, "c", compiled=False)
    (clone / ".gitignore").write_text("*.log\n*-kae-driver-c*\n", encoding="utf-8")
    world.commit(clone, "Ignore logs")

    code, said = pushed(world, clone)

    assert code == 0, said
    other = world.clone("b")
    assert in_process.kae(other, "compile", "--check").code == 0
    assert (other / "output/default/driver/daemonset-kae-driver-c--rest.yaml").is_file()
