"""The program between nodes and a real git repository; only the clock is a test's."""

import json
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from compiler.inventory import snapshot
from runtime import errors, state
from tests.watcher import fleet, remotes
from watcher import config, loop, watcher_state
from watcher.git import credentials, git, repository

QUIET_S, REMOVAL_S, INTERVAL_S, COMMIT_S = 10, 600, 3600, 60


class Clock:
    """Seconds that only a test lets pass."""

    now_s = 5000.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A watcher's program, and the repository that it commits to."""

    origin: Path
    scratch: Path
    clock: Clock
    shown: watcher_state.State
    loop: loop.Loop

    def after(self, seconds: float) -> None:
        """Lets time pass, and the program look."""
        self.clock.now_s += seconds
        self.loop.turn()

    def git(self, *words: str) -> str:
        """Run git in the repository and return its output."""
        return subprocess.run(
            ("git", "-C", str(self.origin), *words), check=True, capture_output=True, text=True
        ).stdout.strip()

    def subjects(self, branch: str = "main") -> list[str]:
        """The subjects of a branch's commits, the oldest first; none where there is no branch."""
        if not self.git("branch", "--list", branch):
            return []
        return self.git("log", "--reverse", "--format=%s", branch).splitlines()

    def names(self, branch: str = "main") -> list[str]:
        """The nodes in the inventory on a branch."""
        data: dict[str, Any] = json.loads(self.git("show", f"{branch}:inventory/east.json"))
        return [node["name"] for node in data["spec"]["nodes"]]

    def put(self, content: bytes, cluster: str = "east") -> None:
        """Another one pushes this as the inventory of a cluster."""
        store = repository_of(self.origin, self.scratch / "other", cluster)
        assert store.publish(lambda _: repository.Change(content=content, message="by hand")) is not None


def repository_of(origin: Path, scratch: Path, cluster: str = "east", *, branch: str = "main") -> repository.Repository:
    target = repository.Target(
        url=f"file://{origin}",
        branch=branch,
        path=f"inventory/{cluster}.json",
        cluster=cluster,
        author=git.Author(name="kae-watcher", email="kae@example.com"),
    )
    scratch.mkdir(parents=True, exist_ok=True)
    secrets = credentials.Secrets(repository=scratch / "none", signing=scratch / "none", format=None)
    return repository.Repository(target, scratch, secrets, threading.Event(), repository.Timing(pause_s=0.01))


def settings(**changes: Any) -> config.Config:
    stated: dict[str, Any] = {
        "cluster": "east",
        "repository": config.Repository(url="file:///nowhere"),
        "interval_seconds": INTERVAL_S,
        "quiet_seconds": QUIET_S,
        "removal_quiet_seconds": REMOVAL_S,
        "min_commit_seconds": COMMIT_S,
        "max_loss_percent": 50,
        "author": config.Author(name="kae-watcher", email="kae@example.com"),
        "message_template": "inventory({cluster}): {summary}",
    }
    return config.Config(**stated | changes)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    origin = tmp_path / "origin.git"
    subprocess.run(("git", "init", "--quiet", "--bare", "--initial-branch=main", str(origin)), check=True)
    return started(tmp_path, origin)


def started(folder: Path, origin: Path, *, branch: str = "main", **changes: Any) -> Bench:
    """A watcher that has just started."""
    clock, shown = Clock(), watcher_state.State()
    store = repository_of(origin, folder / "scratch", branch=branch)
    made = loop.Loop(settings(**changes), store, shown, clock)
    return Bench(origin=origin, scratch=folder, clock=clock, shown=shown, loop=made)


def nodes(*names: str) -> list[snapshot.Node]:
    return [fleet.node(name) for name in names]


def test_nothing_is_committed_before_the_nodes_are_listed(bench: Bench) -> None:
    bench.after(10_000)

    assert bench.subjects() == []
    assert bench.shown.reason == "Nothing was listed yet."


def test_the_first_list_is_committed_after_the_quiet_time(bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b"))

    bench.after(QUIET_S - 1)
    assert bench.subjects() == []
    bench.after(1)
    assert bench.subjects() == ["inventory(east): 2 nodes joined"]
    assert bench.names() == ["a", "b"]
    assert bench.shown.reason == ""


def test_a_change_waits_for_its_minute(bench: Bench) -> None:
    bench.loop.listed(nodes("a"))
    bench.after(QUIET_S)

    bench.loop.seen(fleet.node("b"))
    bench.after(QUIET_S + 1)
    assert len(bench.subjects()) == 1
    bench.after(COMMIT_S)
    assert bench.names() == ["a", "b"]


def test_a_list_says_nothing_of_nodes_of_which_something_newer_was_told(bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b"))
    bench.after(QUIET_S)

    bench.loop.seen(fleet.node("c"))
    bench.loop.missed("b")
    bench.loop.listed(nodes("a", "b"), newer={"b", "c"})
    bench.after(COMMIT_S)
    bench.after(REMOVAL_S)

    assert bench.names() == ["a", "c"]
    assert bench.shown.nodes == 2


def test_a_lost_race_is_counted_and_run_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.loop.listed(nodes("a"))
    remotes.before("push", lambda: bench.put(b"theirs", "west"), monkeypatch)

    bench.after(QUIET_S)

    assert bench.subjects() == ["by hand", "inventory(east): 1 node joined"]
    assert bench.shown.races == 1
    assert bench.git("show", "main:inventory/west.json") == "theirs"


def test_a_branch_that_is_deleted_after_its_merge_comes_back(tmp_path: Path, bench: Bench) -> None:
    bench.loop.listed(nodes("a"))
    bench.after(QUIET_S)
    own = started(tmp_path / "own", bench.origin, branch="inventory")

    own.loop.listed(nodes("a"))
    own.after(QUIET_S)

    assert bench.git("rev-parse", "inventory") == bench.git("rev-parse", "main")


def test_it_rests_until_the_next_change_has_settled_and_never_for_long(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rests: list[float] = []
    stop = threading.Event()
    ended = threading.Event()

    def wait(seconds: float) -> bool:
        if threading.current_thread() is not threading.main_thread():
            return ended.wait(seconds)
        rests.append(seconds)
        bench.clock.now_s += seconds
        if len(bench.subjects()) == 1:
            stop.set()
            ended.set()
        return stop.is_set()

    bench.loop.listed(nodes("a"))
    bench.clock.now_s += QUIET_S - 0.7
    monkeypatch.setattr(stop, "wait", wait)

    bench.loop.run(stop, state.ProgramDir(tmp_path))

    assert rests[:2] == [loop._LOOK_S, pytest.approx(0.7 - loop._LOOK_S)]


def test_between_two_commits_that_are_far_apart_the_repository_is_looked_at_every_interval(
    tmp_path: Path, bench: Bench
) -> None:
    rare = started(tmp_path / "rare", bench.origin, min_commit_seconds=10 * INTERVAL_S)
    rare.loop.listed(nodes("a"))
    rare.after(QUIET_S)
    first_s = rare.shown.success_s

    rare.loop.seen(fleet.node("b"))
    rare.after(INTERVAL_S)

    assert (rare.shown.success_s or 0) > (first_s or 0)
    assert rare.names() == ["a"]
    for _ in range(9):
        rare.after(INTERVAL_S)
    assert rare.names() == ["a", "b"]


def test_no_commit_is_made_of_heartbeats(bench: Bench) -> None:
    bench.loop.listed(nodes("a"))
    bench.after(QUIET_S)

    for _ in range(5):
        bench.loop.listed(nodes("a"))
        bench.after(INTERVAL_S)

    assert len(bench.subjects()) == 1


def test_a_snapshot_that_loses_too_much_waits_on_a_branch_of_its_own(bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b", "c"))
    bench.after(QUIET_S)

    bench.loop.listed(nodes("a"))
    bench.after(REMOVAL_S + 1)

    assert bench.names() == ["a", "b", "c"]
    assert bench.names("kae/held-east") == ["a"]
    assert bench.shown.held == "2 of 3 nodes are gone, more than 50 %."
    assert "Merging this branch is the agreement." in bench.git("log", "-1", "--format=%b", "kae/held-east")


def test_to_merge_the_branch_is_to_agree(bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b", "c"))
    bench.after(QUIET_S)
    bench.loop.listed(nodes("a"))
    bench.after(REMOVAL_S + 1)

    bench.git("update-ref", "refs/heads/main", "kae/held-east")
    bench.after(INTERVAL_S)

    assert bench.names() == ["a"]
    assert bench.shown.held == ""
    assert bench.subjects("kae/held-east") == []


def test_what_is_held_goes_when_the_nodes_come_back(bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b", "c"))
    bench.after(QUIET_S)
    bench.loop.listed(nodes("a"))
    bench.after(REMOVAL_S + 1)

    bench.loop.listed(nodes("a", "b", "c"))
    bench.after(INTERVAL_S)

    assert bench.subjects("kae/held-east") == []
    assert len(bench.subjects()) == 1
    assert bench.shown.held == ""


def test_an_empty_list_never_reaches_the_branch(tmp_path: Path, bench: Bench) -> None:
    bench.loop.listed(nodes("a"))
    bench.after(QUIET_S)
    lenient = started(tmp_path / "again", bench.origin, max_loss_percent=100)

    lenient.loop.listed([])
    lenient.after(1)
    lenient.after(REMOVAL_S)

    assert bench.names() == ["a"]
    assert "There are no nodes any more" in lenient.shown.held


def test_a_watcher_that_starts_again_does_not_take_what_it_has_not_seen_for_gone(tmp_path: Path, bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b", "c"))
    bench.after(QUIET_S)
    again = started(tmp_path / "again", bench.origin)

    again.loop.listed(nodes("a", "b"))
    again.after(1)
    again.after(REMOVAL_S - 2)
    assert bench.names() == ["a", "b", "c"]
    again.after(3)

    assert bench.names() == ["a", "b"]


def test_a_broken_inventory_in_the_repository_is_told_and_left_alone(bench: Bench) -> None:
    bench.put(b"<<<<<<< HEAD\n")

    bench.loop.listed(nodes("a"))
    bench.after(QUIET_S)

    assert "The inventory in the repository is none" in bench.shown.reason
    assert bench.git("show", "main:inventory/east.json") == "<<<<<<< HEAD"


def test_a_repository_that_is_gone_is_told_once_and_reached_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.loop.listed(nodes("a"))
    away = bench.origin.rename(bench.origin.with_name("away"))
    for _ in range(5):
        bench.after(300)
    said = [record for record in caplog.records if "cannot be brought up to date" in record.message]

    away.rename(bench.origin)
    bench.after(300)

    assert len(said) == 1
    assert bench.names() == ["a"]
    assert bench.shown.reason == ""
    assert bench.shown.failures["repository"] == 5


def test_the_file_of_another_cluster_stays_as_it_is(bench: Bench) -> None:
    bench.put(b"west\n", "west")

    bench.loop.listed(nodes("a"))
    bench.after(QUIET_S)
    bench.after(1)

    assert bench.git("show", "main:inventory/west.json") == "west"
    assert bench.names() == ["a"]


def test_a_file_that_only_looks_different_is_written_anew(bench: Bench) -> None:
    bench.loop.listed(nodes("a"))
    bench.loop.publish(all_of_it=True)
    content = json.loads(bench.git("show", "main:inventory/east.json"))
    bench.put(json.dumps(content, indent=2).encode())

    bench.after(INTERVAL_S)

    assert bench.subjects()[-1] == "inventory(east): written anew"


def test_once_nothing_is_waited_for(bench: Bench) -> None:
    bench.loop.listed(nodes("a"))

    assert bench.loop.publish(all_of_it=True)
    assert not bench.loop.publish(all_of_it=True)
    assert bench.names() == ["a"]


def test_a_hook_that_refuses_is_told_with_its_words(bench: Bench) -> None:
    hook = bench.origin / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho 'inventory is frozen' >&2\nexit 1\n")
    hook.chmod(0o755)
    bench.loop.listed(nodes("a"))

    with pytest.raises(errors.Failure, match="inventory is frozen"):
        bench.loop.publish(all_of_it=True)


def test_nothing_is_committed_while_the_nodes_cannot_be_listed(bench: Bench) -> None:
    bench.loop.listed(nodes("a"))
    bench.after(QUIET_S)
    before_s = bench.shown.success_s

    bench.loop.seen(fleet.node("b"))
    bench.loop.failed("Nobody answers.")
    bench.after(INTERVAL_S)
    assert (bench.names(), bench.shown.success_s) == (["a"], before_s)
    bench.loop.listed(nodes("a", "b"))
    bench.after(1)

    assert bench.names() == ["a", "b"]


def test_while_a_snapshot_is_held_the_repository_is_asked_no_oftener_than_commits_are_made(bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b", "c"))
    bench.after(QUIET_S)
    bench.loop.listed(nodes("a"))
    bench.after(REMOVAL_S + 1)

    bench.origin.rename(bench.origin.with_name("away"))
    for _ in range(5):
        bench.after(COMMIT_S / 10)
    unasked = bench.shown.failures["repository"]
    bench.after(COMMIT_S)

    assert (unasked, bench.shown.failures["repository"]) == (0, 1)


def test_what_was_held_before_a_restart_is_held_and_not_pushed_again(tmp_path: Path, bench: Bench) -> None:
    bench.loop.listed(nodes("a", "b", "c"))
    bench.after(QUIET_S)
    bench.loop.listed(nodes("a"))
    bench.after(REMOVAL_S + 1)
    again = started(tmp_path / "again", bench.origin)

    again.loop.listed(nodes("a"))
    again.after(1)
    again.after(REMOVAL_S + 1)

    assert again.shown.held == bench.shown.held
    assert (bench.shown.holds, again.shown.holds) == (1, 0)
