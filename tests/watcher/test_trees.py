"""Parts of a tree that a commit of the watcher leaves unchanged."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.watcher import remotes
from watcher.git import git_errors

PATH, PUSHED = remotes.PATH, remotes.PUSHED


@pytest.fixture
def remote(tmp_path: Path) -> Iterator[remotes.Remote]:
    """A repository with a commit, in which fsck finds nothing at the end either."""
    yield from remotes.sound(tmp_path)


def test_the_mode_of_the_file_becomes_the_plain_one(remote: remotes.Remote, tmp_path: Path) -> None:
    remote.commit("main", {PATH: b"old\n"}, mode="100755")

    remotes.publish(remote.ours(), b"new\n")

    assert remote.changed("main") == PUSHED


def test_a_tree_that_git_would_tidy_up_stays_as_it_is(remote: remotes.Remote, tmp_path: Path) -> None:
    empty = remote("mktree")
    inner = remote("mktree", stdin=f"040000 tree {empty}\tempty\n160000 commit {'1' * 40}\tmodule\n".encode())
    tree = remote("mktree", "--missing", stdin=f"040000 tree {inner}\tinventory\n".encode())
    remote("update-ref", "refs/heads/main", remote("commit-tree", tree, "-m", "odd"))

    remotes.publish(remote.ours(), b"new\n")

    listed = remote("ls-tree", "main:inventory").splitlines()
    assert [line.partition("\t")[2] for line in listed] == ["east.json", "empty", "module"]
    assert remote.changed("main") == PUSHED


@pytest.mark.parametrize("path", ["inventory", f"{PATH}/east.json"])
def test_what_stands_in_the_way_is_named_and_left(remote: remotes.Remote, tmp_path: Path, path: str) -> None:
    tip = remote.commit("main", {"inventory/west.json": b"", path: b"mine\n"})

    with pytest.raises(git_errors.Obstructed, match=r"^'inventory.*' in the repository is a (file|folder), where a .*"):
        remotes.publish(remote.ours(), b"new\n")

    assert remote.tip() == tip


def test_a_link_is_not_followed(remote: remotes.Remote, tmp_path: Path) -> None:
    remote.commit("main", {PATH: b"../other.txt"}, mode="120000")

    with pytest.raises(git_errors.Obstructed, match="is a link, where a plain file is needed"):
        remote.ours().fetch()
