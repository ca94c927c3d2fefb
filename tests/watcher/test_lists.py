"""Full lists that are read beside the watch: nothing waits for them, and they bring nothing back."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from compiler.kube import node_watch
from tests.watcher import feeds
from watcher import node_feed


def test_after_the_interval_the_nodes_are_listed_anew_and_the_watch_goes_on() -> None:
    bookmark = node_watch.Event("BOOKMARK", {"metadata": {"resourceVersion": "90"}})

    bench = beside([feeds.raw("a")], [feeds.raw("a"), feeds.raw("b")], told_before=[bookmark])

    assert bench.heard.words == ["listed a", "listed a b"]
    assert sorted(bench.cluster.asked) == ["list", "list", "watch 50 120", "watch 90 120", "watch 90 120"]


def test_what_happens_while_all_nodes_are_listed_is_seen_at_once() -> None:
    bench = beside(
        before=[feeds.raw("a", turn="1")],
        told=[feeds.event("MODIFIED", feeds.raw("a", turn="2"))],
        nodes=[feeds.raw("a", turn="2")],
        listed=[feeds.raw("a", turn="1"), feeds.raw("b")],
    )

    assert bench.heard.words == ["listed a", "seen a", "listed a b -a"]
    assert {name: node.labels for name, node in bench.heard.nodes.items()} == {"a": {"turn": "2"}, "b": {}}


def test_a_node_that_went_while_all_were_listed_does_not_come_back_and_one_that_came_stays() -> None:
    bench = beside(
        before=[feeds.raw("a"), feeds.raw("gone")],
        told=[feeds.event("DELETED", feeds.raw("gone")), feeds.event("ADDED", feeds.raw("new"))],
        nodes=[feeds.raw("new")],
        listed=[feeds.raw("a"), feeds.raw("gone")],
    )

    assert sorted(bench.heard.nodes) == ["a", "new"]


def test_what_a_list_shows_of_a_node_that_only_beats_is_news() -> None:
    tainted = {**feeds.raw("a"), "spec": {"taints": [{"key": "example.com/gpu", "effect": "NoSchedule"}]}}

    bench = beside(before=[feeds.raw("a")], told=[feeds.event("MODIFIED", feeds.raw("a"))], listed=[tainted])

    assert bench.heard.words == ["listed a", "listed a"]
    assert [taint.key for taint in bench.heard.nodes["a"].profile.taints] == ["example.com/gpu"]


def test_what_was_told_during_a_list_is_told_from_heartbeats_after_it() -> None:
    second = feeds.raw("a", turn="2")

    bench = beside(
        before=[feeds.raw("a", turn="1")],
        told=[feeds.event("MODIFIED", second)],
        nodes=[second],
        listed=[feeds.raw("a", turn="1")],
        told_after=[feeds.event("MODIFIED", second)],
    )

    assert bench.cluster.asked.count("get a") == 1


def test_what_the_watch_tells_after_a_list_is_compared_with_the_list() -> None:
    bench = beside(
        before=[feeds.raw("a", turn="1")],
        listed=[feeds.raw("a", turn="3")],
        nodes=[feeds.raw("a", turn="4")],
        # It is behind the list.
        told_after=[
            feeds.event("MODIFIED", feeds.raw("a", turn="2")),
            feeds.event("MODIFIED", feeds.raw("a", turn="3")),
        ],
    )

    assert bench.heard.words == ["listed a", "listed a", "seen a", "seen a"]
    assert bench.heard.nodes["a"].labels == {"turn": "4"}


def test_a_list_that_takes_longer_than_the_interval_is_not_begun_twice() -> None:
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")]], [[], [], []]))
    ended = threading.Event()
    bench.cluster.at_page = lambda number: number == 1 or ended.wait(feeds.WITHIN_S)
    bench.cluster.at_end = [*[lambda: feeds.pass_s(bench, feeds.INTERVAL_S)] * 2, bench.feed.close]

    bench.run()
    ended.set()

    assert bench.cluster.asked.count("list") == 2


def test_a_list_that_fails_beside_the_watch_ends_it_and_all_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_feed, "_AGAIN_S", (0.0, 0.0))
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")], feeds.ERROR, [feeds.raw("b")]], [[], None, []]))

    def at_page(number: int) -> None:
        if number == 2:
            feeds.until(lambda: len(bench.cluster.asked) == 4)  # With the watch beside it.

    bench.cluster.at_page = at_page
    bench.cluster.at_end = [lambda: feeds.pass_s(bench, feeds.INTERVAL_S), lambda: None, bench.feed.close]

    bench.run()

    assert bench.heard.words == ["listed a", f"failed {feeds.ERROR}", "listed b"]


def test_a_list_is_dropped_when_the_watch_beside_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_feed, "_AGAIN_S", (0.0, 0.0))
    bench = feeds.Bench(
        feeds.Cluster([[feeds.raw("a")], [feeds.raw("old")], [feeds.raw("b")]], [[], [], feeds.ERROR, [], []])
    )
    failed, read = threading.Event(), threading.Event()

    def at_page(number: int) -> None:
        if number == 2:
            assert failed.wait(feeds.WITHIN_S)
            read.set()

    bench.cluster.at_page = at_page
    bench.heard.at_failure = failed.set
    bench.cluster.at_end = [
        lambda: feeds.pass_s(bench, feeds.INTERVAL_S),
        lambda: feeds.until(lambda: bench.cluster.listings == 2),
        lambda: read.wait(feeds.WITHIN_S),
        bench.feed.close,
    ]

    bench.run()

    assert bench.heard.words == ["listed a", f"failed {feeds.ERROR}", "listed b"]


def test_a_bug_in_a_list_beside_the_watch_ends_the_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")], AssertionError("a bug")], [[], None]))
    bench.cluster.at_end.insert(0, lambda: feeds.pass_s(bench, feeds.INTERVAL_S))

    with pytest.raises(AssertionError, match="by an error that the log names"):
        bench.feed.run()


def beside(
    before: Sequence[dict[str, Any]],
    listed: Sequence[dict[str, Any]],
    nodes: Sequence[dict[str, Any]] = (),
    **told: Sequence[node_watch.Event],
) -> feeds.Bench:
    """A bench on which all nodes were listed twice, with what was `told_before`, `told` during and `told_after` it."""
    steps: list[feeds.Step | None] = [list(told.pop(name, ())) for name in ("told_before", "told", "told_after")]
    assert not told
    bench = feeds.Bench(feeds.Cluster([before, listed], steps, {item["metadata"]["name"]: item for item in nodes}))
    heard = threading.Event()
    bench.cluster.at_page = lambda number: number == 1 or heard.wait(feeds.WITHIN_S)

    def finish_list() -> None:
        heard.set()
        feeds.until(lambda: sum(word.startswith("listed") for word in bench.heard.words) == 2)

    bench.cluster.at_end = [lambda: feeds.pass_s(bench, feeds.INTERVAL_S), finish_list, bench.feed.close]
    bench.run()
    return bench
