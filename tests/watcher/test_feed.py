"""Where nodes come from, against a cluster of values: no HTTP, and no clock but the test's."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from compiler import connection, documents, errors, inventory, live, watch
from watcher import cli, feed

INTERVAL_S = 600.0
ERROR = connection.Unreachable("the API server at https://east:6443 cannot be asked: Connection refused.")
GONE = connection.Gone("the API server at https://east:6443 did not watch nodes (410): Expired.", status=410)
WITHIN_S = 10
"""For what another thread does at once."""

Step = list[watch.Event] | Exception


class Clock:
    """Seconds that only a test lets pass."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def raw(name: str, **labels: str) -> dict[str, Any]:
    """A Node as the API server prints it, as far as it is looked at."""
    return {"metadata": {"name": name, "labels": labels, "annotations": {}, "resourceVersion": "7"}, "spec": {}}


def event(kind: str, item: Mapping[str, Any]) -> watch.Event:
    """What is told of it: its metadata."""
    return watch.Event(kind, {"metadata": item["metadata"]})


@dataclass
class Watch:
    """A watch that tells its events, and then raises, or ends; without a step it waits for its end."""

    step: Step | None
    at_end: list[Callable[[], object]]
    resource_version: str
    closed: threading.Event = field(default_factory=threading.Event)

    def __iter__(self) -> Iterator[watch.Event]:
        if isinstance(self.step, Exception):
            raise self.step
        for told in self.step or ():
            yield told
            self.resource_version = told.object["metadata"].get("resourceVersion", self.resource_version)
        if self.step is None:
            assert self.closed.wait(WITHIN_S), "nobody ends the watch"
        (self.at_end.pop(0) if len(self.at_end) > 1 else self.at_end[0])()

    def close(self) -> None:
        self.closed.set()


@dataclass
class Cluster:
    """What is listed, one entry a list and the last one for ever, and what each watch tells."""

    lists: list[Sequence[dict[str, Any]] | Exception]
    watches: list[Step | None] = field(default_factory=list)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What a GET answers; empty: what was listed."""
    broken: bool = False
    """Lists break off after their first page."""
    asked: list[str] = field(default_factory=list)
    at_end: list[Callable[[], object]] = field(default_factory=list)
    """Called as a watch ends, one for each, and the last one for ever."""
    watching: threading.Event = field(default_factory=threading.Event)

    def pages(self) -> Iterator[live.Page]:
        self.asked.append("list")
        items = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(items, Exception):
            raise items
        for start in range(0, len(items), 2) or (0,):
            if self.broken and start:
                raise ERROR
            yield live.Page(items=items[start : start + 2], resource_version="50")

    def node(self, name: str) -> Mapping[str, Any] | None:
        self.asked.append(f"get {name}")
        return self.nodes.get(name)

    def watch(self, resource_version: str, timeout_s: int) -> Watch:
        self.asked.append(f"watch {resource_version} {timeout_s}")
        made = Watch(self.watches.pop(0) if self.watches else None, self.at_end, resource_version)
        self.watching.set()
        return made


@dataclass
class Heard:
    """Who hears of nodes, and writes it down."""

    words: list[str] = field(default_factory=list)
    nodes: dict[str, documents.Node] = field(default_factory=dict)
    at_failure: Callable[[], None] = lambda: None

    def listed(self, nodes: Sequence[documents.Node]) -> None:
        self.words.append("listed " + " ".join(node.name for node in nodes))
        self.nodes = {node.name: node for node in nodes}

    def seen(self, node: documents.Node) -> None:
        self.words.append(f"seen {node.name}")
        self.nodes[node.name] = node

    def missed(self, name: str) -> None:
        self.words.append(f"missed {name}")

    def failed(self, reason: str) -> None:
        self.words.append(f"failed {reason}")
        self.at_failure()


@dataclass
class Bench:
    """A feed between a cluster and who hears of it."""

    cluster: Cluster
    heard: Heard = field(default_factory=Heard)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.feed = feed.Feed(cast(live.Cluster, self.cluster), (), INTERVAL_S, self.heard, self.clock)
        self.cluster.at_end.append(self.feed.close)

    def run(self) -> None:
        """Runs until a watch has told everything, unless the test says another end."""
        thread = threading.Thread(target=self.feed.run, daemon=True)
        thread.start()
        thread.join(WITHIN_S)
        assert not thread.is_alive(), self.cluster.asked


def told(*events: watch.Event, nodes: Sequence[dict[str, Any]] = (), listed: Sequence[dict[str, Any]] = ()) -> Bench:
    """A bench on which a list and one watch with these events have been heard."""
    bench = Bench(Cluster([listed], [list(events)], {item["metadata"]["name"]: item for item in nodes}))
    bench.run()
    return bench


def test_all_pages_are_handed_on_at_once() -> None:
    bench = Bench(Cluster([[raw("a"), raw("b"), raw("c")]]))

    version = bench.feed.list()

    assert bench.heard.words == ["listed a b c"]
    assert version == "50"


def test_a_list_that_breaks_off_hands_nothing_on() -> None:
    bench = Bench(Cluster([[raw("a"), raw("b"), raw("c")]], broken=True))

    with pytest.raises(errors.WorldError):
        bench.feed.list()

    assert bench.heard.words == []


def test_labels_that_are_ignored_do_not_arrive() -> None:
    cluster = Cluster([[raw("a", pool="tls", **{"example.com/x": "1"})]])
    heard = Heard()

    feed.Feed(cast(live.Cluster, cluster), ("example.com/*",), INTERVAL_S, heard).list()

    assert heard.nodes["a"].labels == {"pool": "tls"}


def test_the_watch_goes_on_from_the_list_and_for_no_longer_than_the_interval() -> None:
    bench = told()

    assert bench.cluster.asked == ["list", "watch 50 120"]


def test_a_heartbeat_causes_no_get() -> None:
    beat = raw("a", pool="tls")
    beat["metadata"] |= {"resourceVersion": "51", "annotations": {"volumes.example.com/attached": "true"}}

    bench = told(event("MODIFIED", beat), listed=[raw("a", pool="tls")])

    assert bench.cluster.asked == ["list", "watch 50 120"]
    assert bench.heard.words == ["listed a"]


def test_a_node_with_other_labels_is_read_once() -> None:
    relabelled = raw("a", pool="web")

    bench = told(
        event("MODIFIED", relabelled), event("MODIFIED", relabelled), listed=[raw("a", pool="tls")], nodes=[relabelled]
    )

    assert bench.cluster.asked[2:] == ["get a"]
    assert bench.heard.words == ["listed a", "seen a"]
    assert bench.heard.nodes["a"].labels == {"pool": "web"}


def test_a_node_that_nfd_noted_is_read_although_its_labels_are_the_same() -> None:
    noted = raw("a")
    noted["metadata"]["annotations"] = {inventory.NFD_ANNOTATION: "cpu-cpuid.FP"}

    bench = told(event("MODIFIED", noted), listed=[raw("a")], nodes=[noted])

    assert bench.heard.words == ["listed a", "seen a"]
    assert bench.heard.nodes["a"].profile.discovered


def test_what_a_read_shows_already_is_not_read_again() -> None:
    first, second = raw("a", turn="1"), raw("a", turn="2")

    bench = told(event("MODIFIED", first), event("MODIFIED", second), listed=[raw("a")], nodes=[second])

    assert bench.cluster.asked[2:] == ["get a"]


def test_a_new_node_is_read() -> None:
    bench = told(event("ADDED", raw("b")), listed=[raw("a")], nodes=[raw("b")])

    assert bench.heard.words == ["listed a", "seen b"]


def test_a_node_that_is_gone_before_it_is_read_is_not_seen() -> None:
    bench = told(event("ADDED", raw("b")), event("DELETED", raw("b")), listed=[raw("a")])

    assert bench.heard.words == ["listed a", "missed b"]


def test_a_node_that_comes_back_as_it_was_is_seen_again() -> None:
    bench = told(event("DELETED", raw("a")), event("ADDED", raw("a")), listed=[raw("a")], nodes=[raw("a")])

    assert bench.heard.words == ["listed a", "missed a", "seen a"]


def test_a_bookmark_is_nobody_and_the_next_watch_goes_on_from_it() -> None:
    bookmark = watch.Event("BOOKMARK", {"metadata": {"resourceVersion": "90"}})
    bench = Bench(Cluster([[raw("a")]], [[bookmark], None]))
    bench.cluster.at_end.insert(0, bench.clock)
    thread = threading.Thread(target=bench.feed.run, daemon=True)

    thread.start()
    until(lambda: "watch 90 120" in bench.cluster.asked)
    bench.feed.close()
    thread.join(WITHIN_S)

    assert bench.heard.words == ["listed a"]
    assert bench.cluster.asked == ["list", "watch 50 120", "watch 90 120"]


def test_after_the_interval_the_nodes_are_listed_anew() -> None:
    bench = Bench(Cluster([[raw("a")], [raw("b")]], [[], []]))
    bench.cluster.at_end.insert(0, lambda: pass_s(bench, INTERVAL_S))

    bench.run()

    assert bench.heard.words == ["listed a", "listed b"]
    assert bench.cluster.asked == ["list", "watch 50 120", "list", "watch 50 120"]


def test_the_last_watch_before_a_list_ends_with_the_interval() -> None:
    bench = Bench(Cluster([[raw("a")]], [[], []]))
    bench.cluster.at_end.insert(0, lambda: pass_s(bench, INTERVAL_S - 20))

    bench.run()

    assert bench.cluster.asked == ["list", "watch 50 120", "watch 50 20"]


def test_a_state_that_is_forgotten_is_left_for_a_new_list_without_a_complaint() -> None:
    bench = Bench(Cluster([[raw("a")], [raw("b")]], [GONE, []]))

    bench.run()

    assert bench.heard.words == ["listed a", "listed b"]


def test_states_that_are_forgotten_again_and_again_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_AGAIN_S", (0.0, 0.0))
    bench = Bench(Cluster([[raw("a")]], [GONE, GONE, []]))

    bench.run()

    assert bench.heard.words == ["listed a", "listed a", f"failed {GONE}", "listed a"]


def test_a_failure_is_told_and_the_nodes_are_listed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "_AGAIN_S", (0.0, 0.0))
    bench = Bench(Cluster([ERROR, [raw("a")]], [ERROR, []]))

    bench.run()

    assert bench.heard.words == [f"failed {ERROR}", "listed a", f"failed {ERROR}", "listed a"]


def test_pauses_grow_to_a_minute_and_begin_anew_when_the_nodes_were_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(Cluster([*[ERROR] * 8, [raw("a")], ERROR, [raw("a")]], [[], []]))
    bench.cluster.at_end.insert(0, lambda: pass_s(bench, INTERVAL_S))
    pauses: list[float] = []
    monkeypatch.setattr(bench.feed._stop, "wait", pauses.append)

    bench.run()

    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 1]


def test_close_ends_it_in_the_middle_of_a_pause() -> None:
    bench = Bench(Cluster([ERROR]))
    bench.heard.at_failure = bench.feed.close

    bench.run()

    assert bench.heard.words == [f"failed {ERROR}"]


def test_close_ends_it_in_the_middle_of_a_watch() -> None:
    bench = Bench(Cluster([[raw("a")]], [None]))
    thread = threading.Thread(target=bench.feed.run, daemon=True)
    thread.start()
    assert bench.cluster.watching.wait(WITHIN_S)

    bench.feed.close()
    thread.join(WITHIN_S)

    assert not thread.is_alive()
    assert bench.heard.words == ["listed a"]


def test_a_bug_in_the_feed_ends_the_watcher_as_its_picture_would_grow_old() -> None:
    bench = Bench(Cluster([AssertionError("a bug")]))
    stop, fallen = threading.Event(), threading.Event()

    with pytest.raises(AssertionError, match="a bug"):
        cli._follow(bench.feed, stop, fallen)

    assert stop.is_set()
    assert fallen.is_set()


def test_a_feed_that_was_told_to_end_has_not_fallen() -> None:
    bench = Bench(Cluster([[raw("a")]], [[]]))
    stop, fallen = threading.Event(), threading.Event()
    stop.set()

    cli._follow(bench.feed, stop, fallen)

    assert not fallen.is_set()


def pass_s(bench: Bench, seconds: float) -> None:
    """Lets time pass."""
    bench.clock.now_s += seconds


def until(holds: Callable[[], bool]) -> None:
    """Waits for what another thread does."""
    pause = threading.Event()
    for _ in range(WITHIN_S * 1000):
        if holds():
            return
        pause.wait(0.001)
    raise AssertionError("it does not come to pass")
