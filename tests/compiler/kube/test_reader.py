"""A live cluster is asked page by page, object by object and event by event."""

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compiler.kube import client, lease_objects, reader
from tests import builders
from tests.kube import apiserver


@pytest.fixture
def server(tmp_path: Path) -> Iterator[apiserver.ApiServer]:
    with apiserver.serving(tmp_path) as running:
        yield running


def cluster_of(server: apiserver.ApiServer) -> reader.Cluster:
    return reader.Cluster(server.kubeconfig)


def fill(server: apiserver.ApiServer, count: int) -> None:
    server.put(*(builders.kubernetes_node(f"node-{number:03}") for number in range(count)))


def version(server: apiserver.ApiServer) -> str:
    return str(server.state.version)


def told(event: reader.Event) -> tuple[str, str]:
    return event.type, event.object["metadata"].get("name", "")


def later(action: Callable[[], None], seconds: float = 0.2) -> threading.Timer:
    timer = threading.Timer(seconds, action)
    timer.start()
    return timer


def test_a_list_comes_in_pages_that_show_one_moment(server: apiserver.ApiServer) -> None:
    fill(server, 7)
    pages = cluster_of(server).pages(3)
    first = next(pages)
    server.put(builders.kubernetes_node("zzz"))

    rest = list(pages)

    assert [len(page.items) for page in (first, *rest)] == [3, 3, 2]
    assert {page.resource_version for page in (first, *rest)} == {"107"}


def test_a_moment_that_is_forgotten_is_told_apart_from_other_refusals(server: apiserver.ApiServer) -> None:
    fill(server, 3)
    pages = cluster_of(server).pages(2)
    next(pages)
    server.forget()

    with pytest.raises(client.Gone, match=r"did not list nodes \(410\)"):
        next(pages)


def test_a_snapshot_begins_again_where_its_moment_is_forgotten(server: apiserver.ApiServer) -> None:
    fill(server, reader.PAGE + 1)
    forgets = iter((server.forget,))

    def names(raw: object) -> str:
        for forget in forgets:
            forget()
        assert isinstance(raw, dict)
        return str(raw["metadata"]["name"])

    taken = cluster_of(server).snapshot(names)

    assert sorted(taken) == [f"node-{number:03}" for number in range(reader.PAGE + 1)]


def test_a_snapshot_is_given_up_when_every_moment_is_forgotten(server: apiserver.ApiServer) -> None:
    fill(server, reader.PAGE + 1)

    with pytest.raises(client.Gone):
        cluster_of(server).snapshot(lambda _: server.forget())


def test_a_cluster_without_nodes_has_one_empty_page(server: apiserver.ApiServer) -> None:
    assert [list(page.items) for page in cluster_of(server).pages()] == [[]]


@pytest.mark.parametrize("text", ['{"metadata": {}}', '{"metadata": {}, "items": [{}]}', '{"items": []}'])
def test_what_is_no_list_is_not_taken_for_an_empty_one(text: str, server: apiserver.ApiServer) -> None:
    server.state.answers["/api/v1/nodes"] = [(200, text, {})]

    with pytest.raises(client.Refused, match="is not a list"):
        list(cluster_of(server).pages())


def test_selectors_choose_and_metadata_is_all_that_is_asked_for(server: apiserver.ApiServer) -> None:
    server.put(builders.kubernetes_node("a", {"pool": "tls"}), builders.kubernetes_node("b", {"pool": "web"}))
    cluster = cluster_of(server)

    (chosen,) = cluster.objects("v1", "Node", labels="pool in (tls, vm)")
    bare = list(cluster.metadata("v1", "Node"))

    assert chosen["metadata"]["name"] == "a"
    assert [set(item) for item in bare] == [{"apiVersion", "kind", "metadata"}] * 2


def test_a_node_is_there_or_gone(server: apiserver.ApiServer) -> None:
    fill(server, 1)
    cluster = cluster_of(server)

    taken, gone = cluster.object("v1", "Node", "node-000"), cluster.object("v1", "Node", "node-999")

    assert taken is not None
    assert taken["metadata"]["name"] == "node-000"
    assert gone is None


@pytest.mark.parametrize(("api_version", "kind"), [("v1", "Widget"), ("example.com/v1", "Widget")])
def test_an_object_of_a_kind_that_the_cluster_does_not_know_is_not_there(
    api_version: str, kind: str, server: apiserver.ApiServer
) -> None:
    cluster = cluster_of(server)

    assert cluster.object(api_version, kind, "a") is None
    assert list(cluster.objects(api_version, kind)) == []


def test_the_404_of_something_on_the_way_is_not_taken_for_an_object_that_is_gone(server: apiserver.ApiServer) -> None:
    server.state.answers["/api/v1/nodes/a"] = [(404, "no such page", {})]

    with pytest.raises(client.Refused, match=r"did not get nodes a \(404\): no such page\."):
        cluster_of(server).object("v1", "Node", "a")


def test_a_watch_tells_what_happens_after_a_list_until_the_server_ends_it(server: apiserver.ApiServer) -> None:
    fill(server, 2)
    seen = cluster_of(server).watch(version(server), timeout_s=1)
    server.put(builders.kubernetes_node("node-001", {"pool": "tls"}))

    def happen() -> None:
        server.delete("v1", "Node", "node-000")
        server.tick()

    later(happen)

    events = list(seen)

    assert [told(event) for event in events] == [("MODIFIED", "node-001"), ("DELETED", "node-000"), ("BOOKMARK", "")]
    assert all("status" not in event.object for event in events)
    assert seen.resource_version == version(server)


def test_a_watch_goes_on_from_what_was_handed_out_last(server: apiserver.ApiServer) -> None:
    start = version(server)
    fill(server, 3)
    cluster = cluster_of(server)
    first = cluster.watch(start)
    for event in first:
        if told(event) == ("ADDED", "node-001"):
            break

    second = cluster.watch(first.resource_version, timeout_s=1)

    # What was not asked beyond may not have been dealt with: it is told once more.
    assert [told(event) for event in second] == [("ADDED", "node-001"), ("ADDED", "node-002")]


def test_a_watch_from_a_forgotten_state_says_so(server: apiserver.ApiServer) -> None:
    old = version(server)
    server.forget()

    with pytest.raises(client.Gone, match=r"did not watch nodes \(410\): too old resource version\."):
        list(cluster_of(server).watch(old))


def test_a_watch_that_is_told_by_an_event_that_its_state_is_forgotten_says_so_too(server: apiserver.ApiServer) -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version: 1 (2)"}
    line = json.dumps({"type": "ERROR", "object": status})
    server.state.answers["/api/v1/nodes"] = [(200, f"{line}\n", {})]

    with pytest.raises(client.Gone, match="did not continue to watch nodes"):
        list(cluster_of(server).watch("1"))


def test_another_error_in_a_watch_is_a_refusal(server: apiserver.ApiServer) -> None:
    line = json.dumps({"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcd is unwell"}})
    server.state.answers["/api/v1/nodes"] = [(200, f"{line}\n", {})]

    with pytest.raises(client.Refused, match=r"\(500\): etcd is unwell\.") as caught:
        list(cluster_of(server).watch("1"))

    assert (type(caught.value), caught.value.status) == (client.Refused, 500)


@pytest.mark.parametrize("text", ["no event\n", '{"type": "ADDED"}\n', '{"type": "ADDED", "obj'])
def test_what_is_no_event_breaks_a_watch(text: str, server: apiserver.ApiServer) -> None:
    server.state.answers["/api/v1/nodes"] = [(200, text, {})]

    with pytest.raises(client.Unreachable):
        list(cluster_of(server).watch("1"))


def test_a_connection_that_breaks_off_in_the_middle_of_an_event_is_no_end(server: apiserver.ApiServer) -> None:
    server.state.cut_events = 1
    seen = cluster_of(server).watch(version(server))
    server.tick()

    with pytest.raises(client.Unreachable):
        list(seen)


def test_a_server_that_ends_in_the_middle_of_a_watch_can_be_watched_again(server: apiserver.ApiServer) -> None:
    cluster, start = cluster_of(server), version(server)
    seen = cluster.watch(start)
    ending = later(server.down)
    with pytest.raises(client.Unreachable):
        list(seen)
    ending.join()

    server.up()
    fill(server, 1)

    assert [told(event) for event in cluster.watch(start, timeout_s=1)] == [("ADDED", "node-000")]


def test_a_server_that_falls_silent_is_noticed(server: apiserver.ApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MARGIN_S", 0)
    server.state.deaf = True

    with pytest.raises(client.Unreachable, match="does not answer in time"):
        list(cluster_of(server).watch("1", timeout_s=1))


def test_a_lease_without_a_spec_is_free() -> None:
    lease = lease_objects.parse({"metadata": {"name": "kae-driver-tls-1"}})

    assert (lease.holder, lease.duration_s) == ("", 0)
