"""The node feed, against a cluster of values: no HTTP, and no clock but the test's."""

import threading
from collections.abc import Sequence
from typing import Any, cast

import pytest

from compiler import errors
from compiler.inventory import reduction
from compiler.kube import node_watch, reader
from tests.watcher import feeds
from watcher import cli, node_feed


def told(
    *events: node_watch.Event, nodes: Sequence[dict[str, Any]] = (), listed: Sequence[dict[str, Any]] = ()
) -> feeds.Bench:
    """A bench on which a list and one watch with these events have been heard."""
    bench = feeds.Bench(feeds.Cluster([listed], [list(events)], {item["metadata"]["name"]: item for item in nodes}))
    bench.run()
    return bench


def test_all_pages_are_handed_on_at_once() -> None:
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a"), feeds.raw("b"), feeds.raw("c")]]))

    version = bench.feed.list()

    assert bench.heard.words == ["listed a b c"]
    assert version == "50"


def test_a_list_that_breaks_off_hands_nothing_on() -> None:
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a"), feeds.raw("b"), feeds.raw("c")]], broken=True))

    with pytest.raises(errors.WorldError):
        bench.feed.list()

    assert bench.heard.words == []


def test_labels_that_are_ignored_do_not_arrive() -> None:
    cluster = feeds.Cluster([[feeds.raw("a", pool="tls", **{"example.com/x": "1"})]])
    heard = feeds.Heard()

    node_feed.NodeFeed(cast(reader.Cluster, cluster), ("example.com/*",), feeds.INTERVAL_S, heard).list()

    assert heard.nodes["a"].labels == {"pool": "tls"}


def test_the_watch_goes_on_from_the_list_and_for_no_longer_than_the_interval() -> None:
    bench = told()

    assert bench.cluster.asked == ["list", "watch 50 120"]


def test_a_heartbeat_causes_no_get() -> None:
    beat = feeds.raw("a", pool="tls")
    beat["metadata"] |= {"resourceVersion": "51", "annotations": {"volumes.example.com/attached": "true"}}

    bench = told(feeds.event("MODIFIED", beat), listed=[feeds.raw("a", pool="tls")])

    assert bench.cluster.asked == ["list", "watch 50 120"]
    assert bench.heard.words == ["listed a"]


def test_a_node_with_other_labels_is_read_once() -> None:
    relabelled = feeds.raw("a", pool="web")

    bench = told(
        feeds.event("MODIFIED", relabelled),
        feeds.event("MODIFIED", relabelled),
        listed=[feeds.raw("a", pool="tls")],
        nodes=[relabelled],
    )

    assert bench.cluster.asked[2:] == ["get a"]
    assert bench.heard.words == ["listed a", "seen a"]
    assert bench.heard.nodes["a"].labels == {"pool": "web"}


def test_a_node_that_nfd_noted_is_read_although_its_labels_are_the_same() -> None:
    noted = feeds.raw("a")
    noted["metadata"]["annotations"] = {reduction.NFD_ANNOTATION: "cpu-cpuid.FP"}

    bench = told(feeds.event("MODIFIED", noted), listed=[feeds.raw("a")], nodes=[noted])

    assert bench.heard.words == ["listed a", "seen a"]
    assert bench.heard.nodes["a"].profile.discovered


def test_what_a_read_shows_already_is_not_read_again() -> None:
    first, second = feeds.raw("a", turn="1"), feeds.raw("a", turn="2")

    bench = told(
        feeds.event("MODIFIED", first), feeds.event("MODIFIED", second), listed=[feeds.raw("a")], nodes=[second]
    )

    assert bench.cluster.asked[2:] == ["get a"]


def test_a_new_node_is_read() -> None:
    bench = told(feeds.event("ADDED", feeds.raw("b")), listed=[feeds.raw("a")], nodes=[feeds.raw("b")])

    assert bench.heard.words == ["listed a", "seen b"]


def test_a_node_that_is_gone_before_it_is_read_is_not_seen() -> None:
    bench = told(feeds.event("ADDED", feeds.raw("b")), feeds.event("DELETED", feeds.raw("b")), listed=[feeds.raw("a")])

    assert bench.heard.words == ["listed a", "missed b"]


def test_a_node_that_comes_back_as_it_was_is_seen_again() -> None:
    bench = told(
        feeds.event("DELETED", feeds.raw("a")),
        feeds.event("ADDED", feeds.raw("a")),
        listed=[feeds.raw("a")],
        nodes=[feeds.raw("a")],
    )

    assert bench.heard.words == ["listed a", "missed a", "seen a"]


def test_a_bookmark_is_nobody_and_the_next_watch_goes_on_from_it() -> None:
    bookmark = node_watch.Event("BOOKMARK", {"metadata": {"resourceVersion": "90"}})
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")]], [[bookmark], None]))
    bench.cluster.at_end.insert(0, bench.clock)
    thread = threading.Thread(target=bench.feed.run, daemon=True)

    thread.start()
    feeds.until(lambda: "watch 90 120" in bench.cluster.asked)
    bench.feed.close()
    thread.join(feeds.WITHIN_S)

    assert bench.heard.words == ["listed a"]
    assert bench.cluster.asked == ["list", "watch 50 120", "watch 90 120"]


def test_the_last_watch_before_a_list_ends_with_the_interval() -> None:
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")]], [[], []]))
    bench.cluster.at_end.insert(0, lambda: feeds.pass_s(bench, feeds.INTERVAL_S - 20))

    bench.run()

    assert bench.cluster.asked == ["list", "watch 50 120", "watch 50 20"]


def test_a_state_that_is_forgotten_is_left_for_a_new_list_without_a_complaint() -> None:
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")], [feeds.raw("b")]], [feeds.GONE, []]))

    bench.run()

    assert bench.heard.words == ["listed a", "listed b"]


def test_states_that_are_forgotten_again_and_again_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_feed, "_AGAIN_S", (0.0, 0.0))
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")]], [feeds.GONE, feeds.GONE, []]))

    bench.run()

    assert bench.heard.words == ["listed a", "listed a", f"failed {feeds.GONE}", "listed a"]


def test_a_failure_is_told_and_the_nodes_are_listed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_feed, "_AGAIN_S", (0.0, 0.0))
    bench = feeds.Bench(feeds.Cluster([feeds.ERROR, [feeds.raw("a")]], [feeds.ERROR, []]))

    bench.run()

    assert bench.heard.words == [f"failed {feeds.ERROR}", "listed a", f"failed {feeds.ERROR}", "listed a"]


def test_pauses_grow_to_half_a_minute_and_begin_anew_when_the_nodes_were_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = feeds.Bench(feeds.Cluster([*[feeds.ERROR] * 7, [feeds.raw("a")]], [[], feeds.ERROR, feeds.ERROR, []]))
    bench.cluster.at_end = [lambda: feeds.pass_s(bench, 60), bench.feed.close]
    pauses: list[float] = []
    monkeypatch.setattr(bench.feed._stopped, "wait", pauses.append)

    bench.run()

    assert pauses == [1, 2, 4, 8, 16, 30, 30, 1, 2]


def test_close_ends_it_in_the_middle_of_a_pause() -> None:
    bench = feeds.Bench(feeds.Cluster([feeds.ERROR]))
    bench.heard.at_failure = bench.feed.close

    bench.run()

    assert bench.heard.words == [f"failed {feeds.ERROR}"]


def test_close_ends_it_in_the_middle_of_a_watch() -> None:
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")]], [None]))
    thread = threading.Thread(target=bench.feed.run, daemon=True)
    thread.start()
    assert bench.cluster.watching.wait(feeds.WITHIN_S)

    bench.feed.close()
    thread.join(feeds.WITHIN_S)

    assert not thread.is_alive()
    assert bench.heard.words == ["listed a"]


def test_a_bug_in_the_feed_ends_the_watcher_as_its_picture_would_grow_old() -> None:
    bench = feeds.Bench(feeds.Cluster([AssertionError("a bug")]))
    stop, fallen = threading.Event(), threading.Event()

    with pytest.raises(AssertionError, match="a bug"):
        cli._follow(bench.feed, stop, fallen)

    assert stop.is_set()
    assert fallen.is_set()


def test_a_feed_that_was_told_to_end_has_not_fallen() -> None:
    bench = feeds.Bench(feeds.Cluster([[feeds.raw("a")]], [[]]))
    stop, fallen = threading.Event(), threading.Event()
    stop.set()

    cli._follow(bench.feed, stop, fallen)

    assert not fallen.is_set()
