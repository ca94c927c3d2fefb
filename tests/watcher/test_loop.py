"""The loop between a cluster of values and a repository of values, under a clock that only a test moves."""

import dataclasses
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from compiler.inventory import canonical_form, reduction, snapshot
from compiler.kube import client
from runtime import errors
from runtime import watcher_config as config
from tests.watcher import fleet, remotes, settings
from watcher import loop, nodes
from watcher.git import repository

QUIET_S, REMOVAL_S, INTERVAL_S, COMMIT_S = 10, 600, 600, 300
ERROR = client.Unreachable("the API server at https://east:6443 cannot be reached: Connection refused.")
GONE = client.Gone("the API server at https://east:6443 did not watch nodes (410): Expired.", status=410)


class Clock:
    """Seconds that only a test lets pass."""

    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


class Stop(threading.Event):
    """An end whose waits let the clock's time pass."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self.clock.now_s += timeout or 0
        return self.is_set()


class Source:
    """A cluster's nodes; a watch lasts as long as it is asked to."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.nodes: dict[str, snapshot.Node] = {}
        self.listed: dict[str, snapshot.Node] = {}
        self.lists = 0
        self.failures: list[Exception] = []
        self.deaf = False
        """Whether a watch tells nothing."""

    def put(self, *items: snapshot.Node) -> None:
        self.nodes |= {item.name: item for item in items}

    def lose(self, count: int) -> None:
        """Take away the first nodes of `many`."""
        for number in range(count):
            del self.nodes[f"n{number:03}"]

    def list(self, at_page: Callable[[], None]) -> tuple[snapshot.Node, ...]:
        self._fail()
        at_page()
        self.lists += 1
        self.listed = dict(self.nodes)
        return tuple(self.nodes.values())

    def changed(self, seconds: int) -> set[str]:
        self._fail()
        self.clock.now_s += seconds
        if self.deaf:
            return set()
        names = {
            name
            for name in self.nodes.keys() | self.listed.keys()
            if labels(self.nodes.get(name)) != labels(self.listed.get(name))
        }
        self.listed = dict(self.nodes)
        return names

    def _fail(self) -> None:
        if self.failures:
            raise self.failures.pop(0)


def labels(node: snapshot.Node | None) -> Any:
    return node and (dict(node.labels), dict(node.profile.labels))


@dataclasses.dataclass
class Store:
    """A repository of one file."""

    target: repository.Target = dataclasses.field(default_factory=lambda: remotes.target("file:///x"))
    content: bytes | None = None
    contents: list[bytes] = dataclasses.field(default_factory=list)
    acceptance: bytes | None = None
    messages: list[str] = dataclasses.field(default_factory=list)
    failures: list[Exception] = dataclasses.field(default_factory=list)
    landed: list[Exception] = dataclasses.field(default_factory=list)
    """Failures of pushes that succeeded."""
    note: str = ""
    forgotten: Exception | None = None
    looks: int = 0
    races: int = 0

    def publish(self, decide: Callable[[repository.Found], repository.Change | None]) -> str | None:
        self.looks += 1
        if self.failures:
            raise self.failures.pop(0)
        found = repository.Found(self.content, self.acceptance, self.note, self._history)
        change = decide(found)
        if change is None:
            return None
        self.content, self.acceptance = change.content, None
        self.contents.append(change.content)
        self.messages.insert(0, change.message)
        if self.landed:
            raise self.landed.pop(0)
        return f"commit {len(self.messages)}"

    def _history(self) -> list[str]:
        if self.forgotten:
            raise self.forgotten
        return self.messages

    @property
    def nodes(self) -> dict[str, Any]:
        """The nodes in the file, with their labels."""
        data = json.loads(self.content or b'{"spec":{"nodes":[]}}')
        return {node["name"]: node.get("labels", {}) for node in data["spec"]["nodes"]}


class Bench:
    """A loop, its cluster and its repository."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        waits = {"quietSeconds": QUIET_S, "removalQuietSeconds": REMOVAL_S, "intervalSeconds": INTERVAL_S}
        given = waits | {"minCommitSeconds": COMMIT_S, "maxLossPercent": 10} | changes
        text = settings.config(folder, "file:///x", **given).read_bytes()
        self.clock = Clock()
        self.source, self.store, self.stop = Source(self.clock), Store(), Stop(self.clock)
        self.loop = loop.Loop(
            msgspec.json.decode(text, type=config.Config),
            cast(nodes.Nodes, self.source),
            cast(repository.Repository, self.store),
            self.stop,
            self.clock,
        )

    def go(self, seconds: float) -> None:
        end_s = self.clock.now_s + seconds
        while self.clock.now_s < end_s:
            before_s = self.clock.now_s
            self.loop.turn()
            if self.clock.now_s == before_s:
                self.clock.now_s += 0.01

    @property
    def said(self) -> str:
        return self.loop.state.reason


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def many(count: int, **labels: str) -> list[snapshot.Node]:
    return [fleet.node(f"n{number:03}", labels=labels) for number in range(count)]


def settled(bench: Bench, *items: snapshot.Node) -> Bench:
    bench.source.put(*items)
    bench.go(QUIET_S + COMMIT_S)
    assert list(bench.store.nodes) == [item.name for item in items]
    return bench


def test_new_nodes_are_committed_after_the_quiet_time(bench: Bench) -> None:
    bench.source.put(*many(3))

    bench.go(QUIET_S - 1)
    before = bench.store.content
    bench.go(5)

    assert before is None
    assert list(bench.store.nodes) == ["n000", "n001", "n002"]
    assert bench.store.messages[0].startswith("inventory(east): 3 nodes joined\n")
    assert bench.said == ""


def test_a_changed_label_is_seen_by_the_watch_and_read_by_a_list(bench: Bench) -> None:
    settled(bench, *many(3))
    bench.source.put(fleet.node("n001", labels={"x": "1"}))

    bench.go(3 * QUIET_S)

    assert bench.store.nodes["n001"] == {"x": "1"}
    assert bench.source.lists == 2


def test_nothing_is_committed_between_the_news_of_a_change_and_the_next_list(bench: Bench) -> None:
    settled(bench, *many(3))
    bench.source.put(fleet.node("n001", labels={"x": "seen by a list"}), fleet.node("n002", kernel_version="6.6.0"))
    bench.loop.list()
    bench.go(QUIET_S / 2)
    bench.source.put(fleet.node("n001"))
    bench.go(COMMIT_S + 2 * QUIET_S)

    assert not any(b"seen by a list" in content for content in bench.store.contents)
    assert b"6.6.0" in (bench.store.content or b"")


def test_two_commits_keep_their_distance_and_so_do_lists(bench: Bench) -> None:
    settled(bench, *many(3))
    commits = len(bench.store.messages)
    for number in range(100):
        bench.source.put(fleet.node("n001", labels={"x": str(number)}))
        bench.go(30)

    assert len(bench.store.messages) - commits <= 11
    assert bench.source.lists <= 14


def test_a_change_without_a_label_is_seen_at_the_next_list(bench: Bench) -> None:
    settled(bench, *many(3))
    bench.source.put(fleet.node("n001", kernel_version="6.6.0"))

    bench.go(INTERVAL_S + 2 * QUIET_S)

    assert b"6.6.0" in (bench.store.content or b"")


def test_a_node_that_is_gone_stays_for_the_longer_time(bench: Bench) -> None:
    settled(bench, *many(30))
    del bench.source.nodes["n007"]

    bench.go(REMOVAL_S - QUIET_S)
    kept, shown = bench.loop.state.kept, "n007" in bench.store.nodes
    bench.go(4 * QUIET_S)

    assert (kept, shown) == (1, True)
    assert "n007" not in bench.store.nodes


def test_of_eight_nodes_one_leaves_and_twenty_join(bench: Bench) -> None:
    settled(bench, *many(8))
    del bench.source.nodes["n003"]
    bench.source.put(*(fleet.node(f"new{number:02}") for number in range(20)))

    bench.go(REMOVAL_S + 2 * COMMIT_S)

    assert len(bench.store.nodes) == 27
    assert bench.said == ""


def test_a_label_that_all_nodes_lose_is_refused_while_additions_are_committed(bench: Bench) -> None:
    settled(bench, *many(8, pool="tls"))
    bench.source.put(*many(8))
    bench.go(REMOVAL_S + COMMIT_S)
    bench.source.put(fleet.node("new"))
    bench.go(2 * COMMIT_S)

    assert {name: found.get("pool") for name, found in bench.store.nodes.items()} == {
        **{f"n{number:03}": "tls" for number in range(8)},
        "new": None,
    }
    assert bench.said.startswith(
        "Too much is lost, so it is not committed: 8 of 9 nodes lost something within 24 hours; now n000 (pool), "
    )
    assert "commit the file 'inventory/east.accept' with the word " in bench.said
    assert bench.loop.state.refused == 8


def test_the_word_in_the_file_accepts_that_loss_and_the_memory_begins_anew(bench: Bench) -> None:
    settled(bench, *many(20))
    bench.source.lose(10)
    bench.go(REMOVAL_S + COMMIT_S)
    refused = len(bench.store.nodes)

    bench.store.acceptance = f"{word(bench)}\n".encode()
    bench.go(COMMIT_S + QUIET_S)

    assert (refused, len(bench.store.nodes), bench.said) == (20, 10, "")
    assert not bench.store.acceptance
    assert "\nAccepted: 10 of 20 nodes lost something" in bench.store.messages[0]
    del bench.source.nodes["n010"]
    bench.go(REMOVAL_S + COMMIT_S)
    assert len(bench.store.nodes) == 9


@pytest.mark.parametrize("content", [b"", b"yes", b"*", b"\xff\x00", b"  \n", b"0" * 12])
def test_another_word_accepts_nothing(bench: Bench, content: bytes) -> None:
    settled(bench, *many(20))
    bench.source.lose(10)
    bench.store.acceptance = content

    bench.go(REMOVAL_S + 2 * COMMIT_S)

    assert len(bench.store.nodes) == 20
    assert bench.said.endswith(" What 'inventory/east.accept' accepts now is another loss.")


def test_a_word_of_an_earlier_loss_is_no_standing_permission(bench: Bench) -> None:
    settled(bench, *many(20))
    bench.source.lose(10)
    bench.go(REMOVAL_S + COMMIT_S)
    early = word(bench)
    bench.source.put(*many(20))
    bench.go(COMMIT_S)
    bench.store.acceptance = early.encode()
    bench.source.put(fleet.node("new"))
    bench.go(2 * COMMIT_S)

    assert (bench.said, bench.loop.state.refused) == ("", 0)
    assert "new" in bench.store.nodes
    assert bench.store.acceptance is None


@pytest.mark.parametrize("form", ["\ufeff{}\r\n", "\n\t {} \n\nas agreed"])
def test_a_word_may_stand_between_a_byte_order_mark_and_white_space(bench: Bench, form: str) -> None:
    settled(bench, *many(20))
    bench.source.lose(10)
    bench.go(REMOVAL_S + COMMIT_S)

    bench.store.acceptance = form.format(word(bench)).encode()
    bench.go(COMMIT_S + QUIET_S)

    assert (len(bench.store.nodes), bench.said) == (10, "")


def test_a_word_also_accepts_less_than_it_was_for_but_nothing_else(bench: Bench) -> None:
    settled(bench, *many(20))
    bench.source.lose(10)
    bench.go(REMOVAL_S + COMMIT_S)
    early = word(bench).encode()

    bench.source.put(fleet.node("n000"))
    del bench.source.nodes["n010"]
    bench.go(REMOVAL_S + COMMIT_S)
    bench.store.acceptance = early
    bench.go(2 * COMMIT_S)
    refused = len(bench.store.nodes)
    bench.source.put(fleet.node("n010"), fleet.unlabelled("n001"))
    bench.go(2 * COMMIT_S)

    assert (refused, list(bench.store.nodes)) == (20, ["n000", "n001", *(f"n{number:03}" for number in range(10, 20))])
    assert bench.said == ""


def test_what_stands_in_place_of_the_file_of_acceptance_is_told(bench: Bench) -> None:
    settled(bench, *many(20))
    bench.source.lose(10)
    bench.store.note = "'inventory/east.accept' in the repository is no plain file (mode 040000)."
    bench.source.put(fleet.node("new"))
    bench.go(REMOVAL_S + COMMIT_S)

    assert bench.said.endswith(f" {bench.store.note}")
    assert "new" in bench.store.nodes


def test_without_the_memory_a_loss_is_refused_and_all_else_is_committed(bench: Bench) -> None:
    settled(bench, *many(20))
    del bench.source.nodes["n000"]
    bench.source.put(fleet.node("new"))
    bench.store.forgotten = errors.Failure("The server gives no history.")
    bench.go(REMOVAL_S + COMMIT_S)
    said, names = bench.said, bench.store.nodes.keys()
    bench.store.forgotten = None
    bench.go(COMMIT_S)

    assert said.startswith(
        "Too much is lost, so it is not committed: 1 of 21 nodes lost something now, and what was lost before is"
        " not known. The server gives no history. "
    )
    assert {"n000", "new"} <= names
    assert (bench.said, "n000" in bench.store.nodes) == ("", False)


def test_labels_that_the_config_no_longer_keeps_are_no_loss(bench: Bench, tmp_path: Path) -> None:
    settled(bench, *many(20, **{"billing": "1", "feature.node.kubernetes.io/x": "1"}))
    after = Bench(tmp_path, ignoreLabels=["billing", "feature.node.kubernetes.io/*"])
    after.store, after.loop._store = bench.store, cast(repository.Repository, bench.store)
    reducer = reduction.Reducer(["billing", "feature.node.kubernetes.io/*"])
    after.source.put(*reducer.again(bench.source.nodes.values()))

    after.go(REMOVAL_S + COMMIT_S)

    assert after.said == ""
    assert b"billing" not in (after.store.content or b"")
    assert b"feature.node.kubernetes.io" not in (after.store.content or b"")


def test_while_a_loss_is_refused_the_repository_is_looked_at_once_a_minute(tmp_path: Path) -> None:
    bench = Bench(tmp_path, minCommitSeconds=0)
    settled(bench, *many(20))
    bench.source.nodes.clear()
    bench.go(REMOVAL_S + 100)
    bench.store.looks = 0

    bench.go(300)

    assert bench.said.startswith("Too much is lost")
    assert 4 <= bench.store.looks <= 6


def test_a_push_that_succeeded_and_was_reported_as_failed_takes_no_node_away(bench: Bench) -> None:
    settled(bench, *many(30))
    bench.store.landed = [errors.Failure("The remote end hung up.")]
    bench.source.put(fleet.node("new"))
    while not bench.said:
        bench.go(1)

    bench.source.put(fleet.node("new", labels={"x": "1"}), fleet.node("second"))
    bench.loop.list()
    bench.clock.now_s += QUIET_S
    bench.source.put(fleet.node("new", labels={"x": "2"}))
    bench.loop.list()
    bench.loop.publish()

    assert {"new", "second"} < bench.store.nodes.keys()


def test_a_loss_is_not_committed_while_the_api_server_fails_nor_before_the_next_list(tmp_path: Path) -> None:
    bench = Bench(tmp_path, removalQuietSeconds=120)
    settled(bench, *many(30))
    del bench.source.nodes["n007"]
    bench.loop.list()
    bench.source.failures = [ERROR] * 100_000
    bench.source.put(fleet.node("n007"))
    bench.source.deaf = True
    bench.go(2 * INTERVAL_S)
    said = bench.said
    bench.source.failures.clear()
    bench.go(INTERVAL_S)

    assert said == str(ERROR)
    assert bench.said == ""
    assert all(b'"n007"' in content for content in bench.store.contents)


def test_a_restart_remembers_what_the_commits_say(bench: Bench, tmp_path: Path) -> None:
    settled(bench, *many(100))
    bench.source.lose(9)
    bench.go(REMOVAL_S + COMMIT_S)
    after = Bench(tmp_path)
    after.store, after.loop._store = bench.store, cast(repository.Repository, bench.store)
    after.source.put(*many(100)[18:])
    after.go(REMOVAL_S + COMMIT_S)

    assert len(bench.store.nodes) == 91
    assert after.said.startswith("Too much is lost, so it is not committed: 18 of 100 nodes")


def test_a_damaged_file_stops_commits_until_a_person_mends_it(bench: Bench) -> None:
    settled(bench, *many(3))
    good, bench.store.content = bench.store.content, b"<<<<<<<"
    bench.source.put(fleet.node("new"))
    bench.go(COMMIT_S)
    said, content = bench.said, bench.store.content
    bench.store.content = good
    bench.go(COMMIT_S)

    assert said.startswith("The inventory of east in the repository is none (JSON is malformed")
    assert content == b"<<<<<<<"
    assert (bench.said, "new" in bench.store.nodes) == ("", True)


def test_while_the_api_server_fails_nothing_is_committed_and_the_reason_is_told(bench: Bench) -> None:
    settled(bench, *many(3))
    looks = bench.store.looks
    bench.source.put(fleet.node("new"))
    bench.source.failures = [ERROR] * 20

    bench.go(120)
    said = bench.said
    bench.go(INTERVAL_S)

    assert said == str(ERROR)
    assert looks < bench.store.looks
    assert (bench.said, "new" in bench.store.nodes) == ("", True)
    assert bench.loop.state.failures["nodes"] == 20


def test_a_forgotten_version_is_a_new_list_and_no_failure(bench: Bench) -> None:
    settled(bench, *many(3))
    bench.source.failures = [GONE]

    bench.go(QUIET_S)

    assert (bench.source.lists, bench.loop.state.failures["nodes"]) == (2, 0)


def test_versions_that_are_forgotten_at_once_are_failures(bench: Bench) -> None:
    bench.source.put(*many(3))
    bench.loop.turn()
    bench.source.failures = [GONE]

    bench.loop.turn()

    assert bench.said == str(GONE)


def test_a_repository_that_fails_is_asked_again_later_and_later(bench: Bench) -> None:
    bench.source.put(*many(3))
    bench.store.failures = [errors.Failure("The server is away.")] * 6
    bench.go(100)
    said, looks = bench.said, bench.store.looks
    bench.go(COMMIT_S)

    assert said == "The server is away."
    assert looks <= 5
    assert (bench.said, len(bench.store.nodes)) == ("", 3)


def test_an_unchanged_cluster_still_looks_at_the_repository_each_interval(bench: Bench) -> None:
    settled(bench, *many(3))
    bench.store.looks = 0

    bench.go(3 * INTERVAL_S)

    assert 2 <= bench.store.looks <= 4


def test_what_a_person_commits_is_what_changes_are_judged_by(bench: Bench) -> None:
    settled(bench, *many(30))
    inventory = snapshot.Inventory(cluster=snapshot.ClusterName("east"), file="", nodes=tuple(many(20)))
    for number in range(20, 30):
        del bench.source.nodes[f"n{number:03}"]
    bench.store.content = canonical_form.text(inventory).encode()
    bench.store.messages.insert(0, "inventory by hand\n")

    bench.go(REMOVAL_S + INTERVAL_S)

    assert (bench.said, len(bench.store.nodes)) == ("", 20)


def word(bench: Bench) -> str:
    return bench.said.partition("with the word ")[2].partition(".")[0]
