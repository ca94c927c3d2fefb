"""A commit and its checkout have the same documents and the same findings, whatever lies among the documents."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from compiler import errors
from compiler.project import document_files
from compiler.project import repository as repositories
from tests import in_process, project, revisions

ROLLOUT = Path(__file__).parents[3] / "docs/examples/rollout"

Make = Callable[[Path], object]


def link(name: str, target: str) -> Make:
    def make(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(target.replace("ROOT", str(root)))

    return make


def files(*names: str) -> Make:
    return lambda root: project.write(root, dict.fromkeys(names, "# A comment.\n"))


def both(*makers: Make) -> Make:
    return lambda root: [make(root) for make in makers]


def chain(length: int) -> Make:
    steps = [link(f".steps/{number}", str(number + 1)) for number in range(length - 1)]
    return both(files(f".steps/{length - 1}"), *steps, link("policies/a.yaml", "../.steps/0"))


def raw(root: Path, name: bytes) -> None:
    path = os.fsencode(root / "policies") + b"/" + name
    Path(os.fsdecode(path)).write_bytes(b"# A comment.\n")


def instead_of_policies(make: Make) -> Make:
    return both(lambda root: (root / "policies").rename(root / ".policies"), make)


ODD: Mapping[str, Make] = {
    "a folder of the host": link("policies/outer", "/etc"),
    "a file of the host": link("policies/a.yaml", "/etc/hostname"),
    "nothing of the host": link("policies/a.yaml", "/nowhere"),
    "another file of the host": link("policies/readme", "/etc/hostname"),
    "no folder of the host": link("policies/outer", "/nowhere"),
    "a folder beside the project": link("policies/outer", "../../beside"),
    "a file beside the project": link("policies/a.yaml", "../../beside/b.yaml"),
    "a missing file beside the project": link("policies/a.yaml", "../../beside/c.yaml"),
    "a folder beside the repository": link("policies/outer", "../../.."),
    "out and back": link("policies/a.yaml", "../../../repository/out-and-back/inventory/x/a.yaml"),
    "an absolute link into the project": both(files("shared/a.yaml"), link("policies/shared", "ROOT/shared")),
    "the project itself": link("policies/all", ".."),
    "the folder of git": link("policies/git", "../../.git"),
    "a file of git": link("policies/a.yaml", "../../.git/config"),
    "no file": link("policies/a.yaml", "nowhere"),
    "no folder": link("policies/team", "nowhere"),
    "a folder as a document": both(files("policies/team/b.yaml"), link("policies/a.yaml", "team")),
    "a folder with a document's name": files("policies/a.yaml/b.yaml"),
    "a link to itself": link("policies/a.yaml", "a.yaml"),
    "a circle of folders": both(link("policies/a", "b"), link("policies/b", "a")),
    "a circle of parents": both(link("policies/team/up", ".."), files("policies/team/b.yaml")),
    "a file as a folder": both(files("policies/b.yaml"), link("policies/a.yaml", "b.yaml/c.yaml")),
    "a way through nothing": both(files("policies/b.yaml"), link("policies/a.yaml", "nowhere/../b.yaml")),
    "as many links as Linux follows": chain(40),
    "more links than Linux follows": chain(41),
    "a name that cannot be printed": lambda root: raw(root, b"a\nb.yaml"),
    "a name that is no UTF-8": lambda root: raw(root, b"caf\xe9.yaml"),
    "nearly a document": files("policies/a.YAML", "policies/b.yaml~", "policies/readme.md"),
    "hidden names": files("policies/.a.yaml", "policies/.team/b.yaml"),
    "a linked folder twice": both(files("shared/a.yaml"), link("policies/y", "../shared"), link("policies/x", "y")),
    "more folders than any fleet has": files(*(f"policies/{number}/a.yaml" for number in range(12))),
    "no folder of policies": instead_of_policies(lambda _: None),
    "policies as a file": instead_of_policies(files("policies")),
    "policies as a link": instead_of_policies(link("policies", ".policies")),
    "policies as a link to nothing": instead_of_policies(link("policies", "nowhere")),
    "policies as a link to itself": instead_of_policies(link("policies", "policies")),
    "policies outside of the project": instead_of_policies(link("policies", "../beside")),
    "policies outside of the repository": instead_of_policies(link("policies", "/etc")),
    "policies nowhere on the host": instead_of_policies(link("policies", "/nowhere")),
}
"""Makers of what a commit may hold, by what they make: below policies/, where nothing else is said."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a project for everything odd, in a folder named after it, committed."""
    above = tmp_path_factory.mktemp("above")
    project.write(above, {"repository/beside/b.yaml": "# A comment.\n", "outside.yaml": "# A comment.\n"})
    for name, make in ODD.items():
        root = folder_of(above / "repository", name)
        shutil.copytree(ROLLOUT, root)
        (root / "kae.yaml").write_text("findings: {nearly-a-document: error}\n")
        make(root)
    revisions.commit(above / "repository")
    return above / "repository"


def folder_of(repository: Path, name: str) -> Path:
    return repository / re.sub("[^a-zA-Z]", "-", name)


@pytest.fixture(params=ODD)
def odd(request: pytest.FixtureRequest, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project in a folder of a repository, which holds something odd, committed."""
    monkeypatch.setattr(document_files, "MOST_FOLDERS", 12)
    monkeypatch.setattr("compiler.project.repository._STEPS", 500)
    return folder_of(repository, request.param)


def outcome(find: Callable[[], tuple[object, object]]) -> object:
    try:
        return find()
    except errors.WorldError as error:
        return error.message, error.hint


FOLDERS = ("policies", "inventory")


def on_disk() -> tuple[object, object]:
    files, findings = document_files.find(FOLDERS)
    return [file.name for file in files], sorted(findings, key=lambda finding: finding.span)


def in_git() -> tuple[object, object]:
    with repositories.Repository() as repository:
        files, findings = repository.tree(repository.commit("HEAD"), FOLDERS).documents(FOLDERS)
    return [file.name for file in files], sorted(findings, key=lambda finding: finding.span)


def test_an_odd_tree_has_the_same_documents_and_findings_as_a_commit_and_on_disk(odd: Path) -> None:
    with contextlib.chdir(odd):
        assert outcome(in_git) == outcome(on_disk)


@pytest.mark.long
def test_a_clean_checkout_never_differs_from_its_commit(odd: Path) -> None:
    answer = in_process.kae(odd, "diff", "-o", "json")

    if answer.code == 3:  # The folder of documents itself is wrong, in the commit too.
        assert in_process.kae(odd, "diff", "HEAD", "--to", "HEAD").err.startswith("kae: In 'HEAD', ")
        return
    changes = json.loads(answer.out)
    sides: dict[str, list[object]] = {"from": [], "to": []}
    for fault in changes["doesNotCompile"]:
        sides[fault["side"]].append((fault["cluster"], fault["errors"]))
    assert sides["from"] == sides["to"]
    assert (changes["intent"], changes["clusters"], changes["compilesTo"]) == ([], [], [])


def test_a_link_to_a_folder_of_the_host_is_an_error_between_two_commits_too(tmp_path: Path) -> None:
    shutil.copytree(ROLLOUT, tmp_path, dirs_exist_ok=True)
    revisions.commit(tmp_path)
    (tmp_path / "policies/outer").symlink_to("/etc")
    revisions.commit(tmp_path)

    between, with_checkout = (
        in_process.kae(tmp_path, "diff", *revision) for revision in (("HEAD~1", "--to", "HEAD"), ("HEAD~1",))
    )

    assert (between.code, with_checkout.code) == (1, 1)
    assert "policies/outer: error[link-outside]" in between.out
    assert "policies/outer: error[link-outside]" in with_checkout.out


@pytest.mark.parametrize("make", [link("kae.yaml", "/etc/hostname"), link("kae.yaml", "nowhere"), files("kae.yaml/x")])
def test_a_project_file_that_is_no_file_is_the_same_error_in_a_commit(tmp_path: Path, make: Make) -> None:
    shutil.copytree(ROLLOUT, tmp_path, dirs_exist_ok=True)
    make(tmp_path)
    revisions.commit(tmp_path)
    now = in_process.kae(tmp_path, "plan")
    path = tmp_path / "kae.yaml"
    (shutil.rmtree if path.is_dir() and not path.is_symlink() else Path.unlink)(path)

    earlier = in_process.kae(tmp_path, "diff")

    assert (now.code, earlier.code) == (3, 3)
    assert earlier.err == now.err.replace("kae: ", "kae: In 'HEAD', ")


def test_the_documents_of_a_submodule_are_not_passed_over(tmp_path: Path) -> None:
    shutil.copytree(ROLLOUT, tmp_path, dirs_exist_ok=True)
    commit = revisions.commit(tmp_path)
    revisions.git(tmp_path, "update-index", "--add", "--cacheinfo", f"160000,{commit},policies/team")
    revisions.git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", "Add")

    answer = in_process.kae(tmp_path, "diff")

    assert answer.code == 3
    assert "In 'HEAD', 'policies/team' is in a submodule" in answer.err


def test_a_cluster_with_the_name_of_a_folder_of_people_is_an_error_in_a_commit_too(tmp_path: Path) -> None:
    shutil.copytree(ROLLOUT, tmp_path, dirs_exist_ok=True)
    (tmp_path / "kae.yaml").write_text("extra: [output/east]\n")
    revisions.commit(tmp_path)

    earlier, now = json.loads(in_process.kae(tmp_path, "diff", "-o", "json").out)["doesNotCompile"]

    assert [earlier["side"], now["side"]] == ["from", "to"]
    assert [error["code"] for error in now["errors"]] == ["project-settings"]
    assert earlier["errors"] == now["errors"]


def test_a_file_that_waits_for_more_is_not_waited_for(tmp_path: Path) -> None:
    # As /proc/kmsg, where the folders of a project lead to all of a system.
    os.mkfifo(tmp_path / "waits")

    assert document_files._head(tmp_path / "waits") == b""
