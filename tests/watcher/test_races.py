"""Other people and other watchers change the branch at the worst moment."""

import contextlib
import multiprocessing
import threading
from typing import Any

import pytest

from runtime import process
from tests.watcher import remotes
from watcher.git import git, repository

PATH, PUSHED = remotes.PATH, remotes.PUSHED


def test_a_branch_that_appears_meanwhile_is_kept(remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    remotes.before("push", lambda: remote.commit("inventory", {"a.txt": b"first\n"}), monkeypatch)

    repo = remote.ours(branch="inventory")

    remotes.publish(repo, b"new\n")

    assert repo.races == 1
    assert remote.read("inventory", "a.txt") == b"first\n"


def test_the_caller_judges_the_bytes_that_are_replaced(remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    remotes.before("push", lambda: remote.commit("main", {PATH: b"theirs\n"}), monkeypatch)
    judged: list[bytes | None] = []

    def decide(found: repository.Found) -> repository.Change:
        judged.append(found.content)
        return repository.Change(content=b"ours\n", message=f"instead of {found.content!r}")

    repo = remote.ours()
    repo.publish(decide)

    assert (judged, repo.races) == ([None, b"theirs\n"], 1)
    assert remote("log", "-1", "--format=%s") == r"instead of b'theirs\n'"


def test_a_branch_that_goes_back_between_fetch_and_push_stays_there(
    remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = remote.tip()
    repo = remote.ours()
    # Of which git knows the parent, so that a plain push would be no force.
    dropped = remotes.publish(repo, b"dropped\n")
    remotes.before("push", lambda: remote("update-ref", "refs/heads/main", kept), monkeypatch)

    remotes.publish(repo, b"new\n")

    assert remote.parents("main") == [kept]
    assert dropped not in remote.history()


def test_a_branch_that_is_replaced_between_fetch_and_push_is_followed(
    remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = remote.tip()
    remote.commit("main", {PATH: b"old\n"})
    remotes.before("push", lambda: remote.commit("main", {"a.txt": b"rebased\n"}, onto=first), monkeypatch)

    remotes.publish(remote.ours(), b"new\n")

    assert remote.read("main", "a.txt") == b"rebased\n"
    assert len(remote.history()) == 3


def test_races_lost_for_two_minutes_are_a_failure(remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    real, numbers = git.Git.push, iter(range(100))

    def push(self: git.Git, *what: Any) -> None:
        remote.commit("main", {"other.txt": f"{next(numbers)}\n".encode()})
        real(self, *what)

    monkeypatch.setattr(git.Git, "push", push)
    monkeypatch.setattr(repository, "_PATIENCE_S", 0)

    with pytest.raises(git.LostRace, match="was changed by somebody else at the same moment: stale info"):
        remotes.publish(remote.ours(), b"new\n")


def test_a_stop_ends_the_pause_between_two_tries(remote: remotes.Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repository, "_PAUSE_S", (3600.0, 3600.0))
    repo = remote.ours()

    def lose() -> None:
        remote.commit("main", {"other.txt": b"moved\n"})
        threading.Timer(0.3, repo._stop.set).start()

    remotes.before("push", lose, monkeypatch)

    with pytest.raises(process.Cancelled):
        remotes.publish(repo, b"new\n")


def hammer(remote: remotes.Remote, cluster: str, count: int) -> None:
    """Another process's writer."""
    repo = remote.ours(cluster=cluster)
    for number in range(count):
        remotes.publish(repo, f"{number}\n".encode(), f"{cluster} {number}")


@pytest.mark.long
def test_writers_that_meet_all_the_time_lose_nothing(remote: remotes.Remote) -> None:
    count, foreign = 10, 80
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=hammer, args=(remote, name, count)) for name in ("east", "west")]

    for writer in writers:
        writer.start()
    for number in range(foreign):
        # A third one, which writes in the repository itself; fast-import refuses a branch that has moved.
        while True:
            with contextlib.suppress(AssertionError):
                remote.commit("main", {"other.txt": b"%d\n" % number})
                break
    for writer in writers:
        writer.join()

    assert [writer.exitcode for writer in writers] == [0, 0]
    subjects = remote("log", "--reverse", "--format=%s", "main").splitlines()
    assert len(subjects) == 1 + 2 * count + foreign
    for cluster in ("east", "west"):
        own = [subject for subject in subjects if subject.startswith(cluster)]
        assert own == [f"{cluster} {number}" for number in range(count)]
        assert remote.read("main", f"inventory/{cluster}.json") == b"%d\n" % (count - 1)
    # One line of commits, each of which changes one file: nobody's change was undone by another's.
    assert remote("rev-list", "--min-parents=2", "main") == ""
    assert remote("log", "--format=", "--raw", "main").count("\n") == len(subjects)
