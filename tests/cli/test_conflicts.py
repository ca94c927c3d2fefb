"""`kae compile` ends a merge conflict in output/; what either branch had deployed goes only where it is accepted."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import in_process, project
from tests.cli.answers import refused, told, warned
from tests.property.merges import pairs

pytestmark = pytest.mark.long

HEAD = "apiVersion: device.openfuyao.com/v1alpha1\n"
EAST = f'{HEAD}kind: KAECluster\nmetadata:\n  name: east\nspec:\n  kubernetesVersion: "1.31"\n'
INDEX = "output/east/index.json"
KUSTOMIZATION = "output/east/kustomization.yaml"
DRIVER = "output/east/driver/daemonset-kae-driver-vm.yaml"


def policy(name: str) -> str:
    """Return a policy for the nodes of a pool."""
    return f"""\
{HEAD}kind: KAEPolicy
metadata:
  name: {name}
spec:
  nodeSelector:
    matchLabels:
      pool: {name}
  driver:
    version: 2.2.0
  devicePlugin:
    version: 1.4.1
"""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of `clone`; not to be changed."""
    folder = tmp_path_factory.mktemp("begun")
    texts = {"policies/east.yaml": EAST, **{f"policies/{name}.yaml": policy(name) for name in ("tls", "vm")}}
    texts[".gitignore"] = ".kae_cache/\n"
    project.write(folder, texts)
    assert in_process.kae(folder, "compile").code == 0
    pairs.git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder)
    pairs.git(folder, "branch", "topic")
    return folder


@pytest.fixture
def clone(begun: Path, tmp_path: Path) -> Path:
    """A repository with a compiled cluster and the policies tls and vm, on the branch main; topic is as far."""
    return shutil.copytree(begun, tmp_path / "clone")


def commit(clone: Path) -> None:
    """Commit everything."""
    pairs.git(clone, "add", "--all")
    pairs.git(clone, "commit", "--quiet", "--message", "Change")


def change(clone: Path, branch: str, edit: Callable[[Path], object], *accepted: str) -> None:
    """Edit the documents on a branch, compile and commit."""
    pairs.git(clone, "switch", "--quiet", branch)
    edit(clone / "policies")
    answer = in_process.kae(clone, "compile", *(f"--accept={scope}" for scope in accepted))
    assert answer.code == 0, answer.err
    commit(clone)


def adding(name: str) -> Callable[[Path], object]:
    """Return an edit that adds a policy."""
    return lambda policies: (policies / f"{name}.yaml").write_text(policy(name))


def removing(name: str) -> Callable[[Path], object]:
    """Return an edit that removes a policy."""
    return lambda policies: (policies / f"{name}.yaml").unlink()


def label(policies: Path) -> None:
    """Change every DaemonSet."""
    cluster = policies / "east.yaml"
    mirror = "{from: cr.openfuyao.cn, to: mirror.example.com}"
    cluster.write_text(f"{cluster.read_text()}  images:\n    mirrors: [{mirror}]\n")


def join(clone: Path, *command: str) -> str:
    """Merge or rebase on the branch topic, and return the paths in conflict."""
    pairs.git(clone, "switch", "--quiet", "topic")
    pairs.git(clone, *command, check=False)
    return pairs.git(clone, "diff", "--name-only", "--diff-filter=U")


def ended(clone: Path) -> None:
    """Compile and end the merge; the check is clean, and the output as from scratch."""
    answer = in_process.kae(clone, "compile")
    assert answer.code == 0, answer.err
    pairs.git(clone, "add", "--all")
    pairs.git(clone, "commit", "--quiet", "--no-edit")
    assert in_process.kae(clone, "compile", "--check").code == 0
    assert in_process.kae(clone, "compile", "--no-cache", "--output-dir", "fresh").code == 0
    assert project.tree(clone / "fresh") == project.tree(clone / "output")


@pytest.fixture(scope="module")
def grown(begun: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository of `both`; not to be changed."""
    folder = shutil.copytree(begun, tmp_path_factory.mktemp("grown") / "clone")
    change(folder, "main", adding("mail"))
    change(folder, "topic", adding("queue"))
    return folder


@pytest.fixture
def both(grown: Path, tmp_path: Path) -> Path:
    """A repository of two branches that each add a policy."""
    return shutil.copytree(grown, tmp_path / "clone")


@pytest.fixture
def conflicting(both: Path) -> Path:
    """A merge of two branches that each add a policy, with conflicts in index.json and kustomization.yaml."""
    assert INDEX in join(both, "merge", "main")
    return both


def test_a_check_names_the_conflict_and_a_compile_ends_it(conflicting: Path) -> None:
    checked = in_process.kae(conflicting, "compile", "--check")

    assert checked.code == 4
    assert "east: a merge left files of the output in conflict\n" in checked.out
    ended(conflicting)


def test_the_cache_answers_for_no_file_in_conflict(clone: Path) -> None:
    path = clone / KUSTOMIZATION
    text = path.read_text()
    assert told(clone, "compile").startswith("east: unchanged\n")
    path.write_text(text.replace("resources:\n", "<<<<<<< HEAD\nresources:\n=======\nresources:\n>>>>>>> main\n"))

    assert "east: a merge left files of the output in conflict\n" in in_process.kae(clone, "compile", "--check").out
    told(clone, "compile")
    assert path.read_text() == text


def test_marks_that_were_committed_end_as_well(conflicting: Path) -> None:
    commit(conflicting)

    told(conflicting, "compile")
    commit(conflicting)

    assert in_process.kae(conflicting, "compile", "--check").code == 0


def test_lines_that_a_person_kept_of_both_branches_end_as_well(conflicting: Path) -> None:
    for name in (INDEX, KUSTOMIZATION, "output/east/images.txt"):
        path = conflicting / name
        path.write_text(re.sub(r"^(<<<<<<<|\|\|\|\|\|\|\||=======|>>>>>>>).*\n", "", path.read_text(), flags=re.M))

    ended(conflicting)


@pytest.mark.parametrize("command", ["merge", "rebase"])
@pytest.mark.parametrize("lost", ["mail", "queue"])
def test_a_driver_of_either_branch_that_joined_documents_lack_is_asked_for(command: str, lost: str, both: Path) -> None:
    assert INDEX in join(both, command, "main")
    (both / f"policies/{lost}.yaml").unlink()
    before = project.tree(both / "output")

    assert f"--accept removes-drivers:east/{lost}`" in refused(1, both, "compile")
    assert project.tree(both / "output") == before


@pytest.mark.parametrize("branches", [("main", "topic"), ("topic", "main")])
@pytest.mark.parametrize(("other", "conflict"), [(adding("web"), INDEX), (label, DRIVER)], ids=["index", "driver"])
def test_what_one_branch_removed_and_accepted_goes_and_is_not_asked_for_again(
    branches: tuple[str, str], other: Callable[[Path], object], conflict: str, clone: Path
) -> None:
    change(clone, branches[0], removing("vm"), "removes-drivers", "removes-device-plugins")
    change(clone, branches[1], other)
    assert f"{conflict}\n" in join(clone, "merge", "main")

    ended(clone)

    assert not (clone / DRIVER).exists()


GONE = ("removes-drivers:west", "removes-device-plugins:west")


@pytest.fixture
def removing_west(clone: Path) -> Path:
    """A merge of a branch without cluster west into one that has changed it."""
    (clone / "policies/west.yaml").write_text(EAST.replace("east", "west"))
    assert in_process.kae(clone, "compile").code == 0
    commit(clone)
    pairs.git(clone, "branch", "--quiet", "--force", "topic", "main")
    change(clone, "topic", adding("mail"))
    change(clone, "main", removing("west"), *GONE)
    assert "output/west/kustomization.yaml\n" in join(clone, "merge", "main")
    return clone


def test_a_kustomization_of_a_cluster_that_one_branch_removed_stops_no_command(removing_west: Path) -> None:
    pairs.git(removing_west, "rm", "--quiet", "output/west/index.json")

    assert warned(removing_west, "plan") == ""
    told(removing_west, "compile")
    assert not (removing_west / "output/west/kustomization.yaml").exists()


def test_a_kustomization_of_a_cluster_that_one_branch_removed_goes(removing_west: Path) -> None:
    asked = in_process.kae(removing_west, "compile")
    told(removing_west, "compile", *(f"--accept={scope}" for scope in GONE))
    commit(removing_west)

    # The index of topic has them all, and nothing tells them from a policy that topic has added.
    assert "removes-drivers:west/mail" in asked.err
    assert not (removing_west / "output/west").exists()
    assert in_process.kae(removing_west, "compile", "--check").code == 0


def test_a_file_of_a_person_beside_a_conflict_stays(conflicting: Path) -> None:
    (conflicting / "output/east/driver/own.yaml").write_text("own\n")

    answer = in_process.kae(conflicting, "compile")

    assert "output/east/driver/own.yaml: warning[foreign-file]" in answer.err
    assert (conflicting / "output/east/driver/own.yaml").read_text() == "own\n"


@pytest.mark.parametrize(
    ("path", "settings", "removes"),
    [
        ("output/site/cm.yaml", "extra: [output/site]\n", False),
        ("output/notes/n.md", "", False),
        ("output/n.md", "", False),
        ("output/n.md", "", True),
        ("output/east/driver/own.yaml", "", True),
    ],
    ids=["declared", "in a folder", "alone", "alone, removed", "in a cluster, removed"],
)
def test_a_file_of_a_person_in_conflict_stays(path: str, settings: str, removes: bool, clone: Path) -> None:
    def edit(text: str) -> Callable[[Path], object]:
        return lambda _: project.write(clone, {path: text})

    project.write(clone, {"kae.yaml": settings} if settings else {})
    change(clone, "main", edit("first\n"))
    pairs.git(clone, "branch", "--quiet", "--force", "topic", "main")
    change(clone, "main", (lambda _: (clone / path).unlink()) if removes else edit("main\n"))
    change(clone, "topic", edit("topic\n"))
    assert join(clone, "merge", "main") == f"{path}\n"
    left = (clone / path).read_text()

    answer = warned(clone, "compile", "--no-cache")

    assert "topic\n" in left
    assert (clone / path).read_text() == left
    assert settings or "warning[foreign-file]" in answer


def test_a_daemon_set_that_both_branches_record_and_nobody_has_is_missed(conflicting: Path) -> None:
    (conflicting / DRIVER).unlink()
    (conflicting / "policies/vm.yaml").unlink()

    assert f"error[output-unreadable]: '{DRIVER}'" in refused(1, conflicting, "compile")


def test_an_index_that_was_cut_off_is_restored_by_the_command_that_the_compile_shows(clone: Path) -> None:
    path = clone / INDEX
    path.write_text(path.read_text()[:-40])
    (clone / "policies/vm.yaml").unlink()

    said = refused(1, clone, "compile")

    assert "'output/east/index.json' is damaged, so nobody can tell what this compile takes away." in said
    (shown,) = re.findall(r"by `git (.*?)`", said)
    pairs.git(clone, *shown.split())
    assert "error[removes-drivers]" in refused(1, clone, "compile")


def test_a_check_names_line_ends_that_git_has_changed(clone: Path) -> None:
    wanted = project.tree(clone / "output")
    pairs.git(clone, "config", "core.autocrlf", "true")
    pairs.git(clone, "rm", "--quiet", "-r", "--cached", "output")
    pairs.git(clone, "reset", "--quiet", "--hard")
    for path in (clone / "output").rglob("*.*"):
        path.unlink()
    pairs.git(clone, "checkout", "--quiet", "--", "output")

    checked = in_process.kae(clone, "compile", "--check")

    said = "east: the output has the line ends of Windows, as git writes with core.autocrlf\n"
    assert (checked.code, checked.out.partition("\n")[0] + "\n") == (4, said)
    assert in_process.kae(clone, "compile").code == 0
    assert project.tree(clone / "output") == wanted
