"""The inventory's file in real repositories: what is pushed, what is held back, and what never is."""

from pathlib import Path

import pytest

from runtime import errors
from tests.watcher import remotes
from watcher.git import git, git_errors, repository

PATH, PUSHED = remotes.PATH, remotes.PUSHED


def test_a_fetch_gives_the_tip_and_the_bytes(remote: remotes.Remote, tmp_path: Path) -> None:
    tip = remote.commit("main", {PATH: b"old\n"})

    fetched = remote.ours().fetch()

    assert fetched == repository.Fetched(base="branch", commit=tip, content=b"old\n", held=None)


def test_a_file_that_is_not_there_is_told_from_an_empty_one(remote: remotes.Remote, tmp_path: Path) -> None:
    repo = remote.ours()

    missing = repo.fetch().content
    remote.commit("main", {PATH: b""})

    assert (missing, repo.fetch().content) == (None, b"")


def test_a_commit_changes_the_one_file_on_top_of_the_tip(remote: remotes.Remote, tmp_path: Path) -> None:
    old = remote.commit("main", {PATH: b"old\n"})

    commit = remotes.publish(remote.ours(), b"new\n", "1 node joined\n\nrack2-01\n")

    assert commit == remote.tip()
    assert remote.parents("main") == [old]
    assert remote.changed("main") == PUSHED
    assert remote.read("main", PATH) == b"new\n"
    author = "kae-watcher <kae-watcher@localhost>"
    assert remote("log", "-1", "--format=%an <%ae>|%cn <%ce>|%B") == f"{author}|{author}|1 node joined\n\nrack2-01"


def test_equal_bytes_make_no_commit_whatever_else_moved(remote: remotes.Remote, tmp_path: Path) -> None:
    repo = remote.ours()
    remotes.publish(repo, b"same\n")
    tip = remote.commit("main", {"other.txt": b"moved\n"})

    commit = remotes.publish(repo, b"same\n")

    assert commit is None
    assert remote.tip() == tip


@pytest.mark.parametrize("first", ["publish", "hold"])
def test_an_empty_repository_gets_a_root_commit(tmp_path: Path, first: str) -> None:
    remote = remotes.Remote(tmp_path / "empty.git", empty=True)
    repo = remote.ours()
    fetched = repo.fetch()
    if first == "hold":
        repo.hold(b"nothing\n", "held")
        # As a git host does that takes the first branch that it gets for the default one.
        remote("symbolic-ref", "HEAD", "refs/heads/kae/held-east")

    remotes.publish(repo, b"new\n")

    assert fetched == repository.Fetched(base="nothing", commit=None, content=None, held=None)
    assert remote.parents("main") == []
    assert remote("ls-tree", "-r", "--name-only", "main") == PATH
    remote.assert_sound()


def test_a_missing_branch_is_begun_from_the_default_one(remote: remotes.Remote, tmp_path: Path) -> None:
    repo = remote.ours(branch="inventory")
    fetched = repo.fetch()

    remotes.publish(repo, b"new\n")

    assert (fetched.base, fetched.commit) == ("default", remote.tip("main"))
    assert remote.parents("inventory") == [remote.tip("main")]
    assert remote.changed("inventory") == PUSHED


def test_a_branch_deleted_after_its_merge_comes_back_without_a_commit(remote: remotes.Remote, tmp_path: Path) -> None:
    tip = remote.commit("main", {PATH: b"merged\n"})

    commit = remotes.publish(remote.ours(branch="inventory"), b"merged\n")

    assert commit is None
    assert remote.branches() == {"inventory": tip, "main": tip}


def test_a_branch_without_a_default_one_begins_with_a_root_commit(remote: remotes.Remote, tmp_path: Path) -> None:
    remote("symbolic-ref", "HEAD", "refs/heads/trunk")

    remotes.publish(remote.ours(branch="inventory"), b"new\n")

    assert remote.parents("inventory") == []


def test_a_file_that_is_to_stay_is_left_alone(remote: remotes.Remote, tmp_path: Path) -> None:
    tip = remote.tip()

    commit = remote.ours().publish(lambda _: None)

    assert commit is None
    assert remote.tip() == tip


def test_a_hook_that_refuses_is_quoted_and_tried_again_later(remote: remotes.Remote, tmp_path: Path) -> None:
    tip = remote.tip()
    remote.set_hook("pre-receive", "echo 'GitHost: \033[31mfrozen\033[0m until Monday.' >&2", "exit 1")
    repo = remote.ours()

    with pytest.raises(git_errors.Refused) as refusal:
        remotes.publish(repo, b"new\n")
    (remote.path / "hooks/pre-receive").unlink()
    remotes.publish(repo, b"new\n")

    words = "pre-receive hook declined; GitHost: [31mfrozen [0m until Monday"
    assert str(refusal.value) == f"The repository '{remote.url}' refuses the push: {words}."
    assert remote.parents("main") == [tip]
    assert repo.races == 0


def test_a_protected_branch_refuses_by_its_own_words(remote: remotes.Remote, tmp_path: Path) -> None:
    refusal = "GitLab: You are not allowed to push code to protected branches on this project."
    remote.set_hook("update", f"echo '{refusal}' >&2", "exit 1")

    with pytest.raises(git_errors.Refused, match="You are not allowed to push code to protected branches"):
        remotes.publish(remote.ours(), b"new\n")


def test_a_branch_below_which_ours_would_stand_is_no_race(remote: remotes.Remote, tmp_path: Path) -> None:
    remote("update-ref", "refs/heads/kae", remote.tip())

    with pytest.raises(git_errors.Refused):
        remote.ours().hold(b"held\n", "held")


def test_a_commit_that_is_held_back_stands_on_its_own_branch(remote: remotes.Remote, tmp_path: Path) -> None:
    tip = remote.commit("main", {PATH: b"old\n"})
    repo = remote.ours()

    held = repo.hold(b"fewer\n", "5 nodes left")

    assert remote.branches() == {"main": tip, "kae/held-east": held}
    assert remote.parents("kae/held-east") == [tip]
    assert remote.changed("kae/held-east") == PUSHED
    assert repo.fetch().held == held


@pytest.mark.parametrize("again", [False, True], ids=["same process", "next process"])
def test_what_is_held_back_already_is_not_pushed_again(remote: remotes.Remote, tmp_path: Path, again: bool) -> None:
    repo = remote.ours()
    held = repo.hold(b"fewer\n", "held")

    repeated = (remote.ours() if again else repo).hold(b"fewer\n", "held")

    assert repeated is None
    assert remote.tip("kae/held-east") == held


@pytest.mark.parametrize("change", ["bytes", "base"])
def test_a_held_branch_is_replaced_when_it_is_out_of_date(remote: remotes.Remote, tmp_path: Path, change: str) -> None:
    repo = remote.ours()
    repo.hold(b"fewer\n", "held")
    if change == "base":
        remote.commit("main", {"other.txt": b"moved\n"})

    held = repo.hold(b"fewer\n" if change == "base" else b"fewer still\n", "held")

    assert remote.tip("kae/held-east") == held
    assert remote.parents("kae/held-east") == [remote.tip("main")]


def test_a_held_branch_that_a_person_merges_is_agreement(remote: remotes.Remote, tmp_path: Path) -> None:
    repo = remote.ours()
    held = repo.hold(b"fewer\n", "held")
    remote("update-ref", "refs/heads/main", remote.tip("kae/held-east"))

    commit = remotes.publish(repo, b"fewer\n")
    removed = repo.unhold()

    assert (commit, removed) == (None, True)
    assert remote.branches() == {"main": held}


def test_a_held_branch_is_deleted_also_by_a_process_that_has_fetched_nothing(
    remote: remotes.Remote, tmp_path: Path
) -> None:
    remote.ours().hold(b"fewer\n", "held")

    removed = remote.ours(scratch=tmp_path / "another").unhold()

    assert removed is True
    assert set(remote.branches()) == {"main"}


def test_a_held_branch_of_another_cluster_is_left_alone(remote: remotes.Remote, tmp_path: Path) -> None:
    remote.ours(cluster="west").hold(b"fewer\n", "held")

    removed = remote.ours().unhold()

    assert removed is False
    assert "kae/held-west" in remote.branches()


def test_a_held_branch_that_a_person_deletes_meanwhile_is_not_missed(
    remote: remotes.Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = remote.ours()
    repo.hold(b"fewer\n", "held")
    remotes.before("push", lambda: remote("update-ref", "-d", "refs/heads/kae/held-east"), monkeypatch)

    removed = repo.unhold()

    assert removed is False


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(
            ("branch", name)
            for name in ("", "-x", "a..b", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a b")
        ),
        *(("path", path) for path in ("", "/a", "../a", "a/../b", "a//b", ".git/config", "a/.GIT/b")),
        *(("url", url) for url in ("--upload-pack=touch /tmp/x", "https://host/a\nb", "https://[a/b")),
    ],
)
def test_names_that_git_does_not_take_are_a_wrong_config(field: str, value: str) -> None:
    values = {"url": "https://git.example.com/a.git", "branch": "main", "path": PATH, field: value}
    author = git.Author(name="a", email="a@example.com")

    with pytest.raises(errors.ConfigError, match=r"is no name for a branch|is no path|URL is none"):
        repository.Target(**values, cluster="east", author=author)


@pytest.mark.parametrize("branch", ["main", "a/b", "release-1.2", "x.y_z"])
def test_names_that_git_takes_are_taken(branch: str) -> None:
    assert remotes.target("git@git.example.com:a/b.git", branch=branch).branch == branch
