"""Lists and watches of nodes, from a stand-in API server over HTTP."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compiler import errors, kae
from compiler.inventory import reduction
from compiler.kube import client, reader
from tests import builders
from tests.watcher import api
from watcher import nodes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[api.Api]:
    with api.serving(tmp_path) as made:
        made.state.second_s = 0.1
        yield made


def follow(server: api.Api, *labels: str) -> nodes.Nodes:
    followed = nodes.Nodes(reader.Cluster(server.kubeconfig), reduction.Reducer((), labels))
    followed.list(lambda: None)
    return followed


def node(name: str, **labels: str) -> dict[str, Any]:
    return builders.kubernetes_node(name, {"feature.node.kubernetes.io/system-os_release.ID": "openEuler"} | labels)


def test_a_list_is_all_pages_of_one_moment(server: api.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "PAGE", 2)
    server.put(*(node(name) for name in "abcde"))
    pages: list[None] = []

    listed = nodes.Nodes(reader.Cluster(server.kubeconfig), reduction.Reducer()).list(lambda: pages.append(None))

    assert [item.name for item in listed] == list("abcde")
    assert len(pages) == 3


@pytest.mark.parametrize("mood", ["cut_pages", "stale_pages"])
def test_a_list_that_breaks_off_is_none(server: api.Api, monkeypatch: pytest.MonkeyPatch, mood: str) -> None:
    monkeypatch.setattr(reader, "PAGE", 2)
    server.put(*(node(name) for name in "abc"))
    setattr(server.mood, mood, 1)

    with pytest.raises(errors.WorldError):
        follow(server)


def test_a_watch_tells_the_names_of_nodes_that_came_changed_or_went(server: api.Api) -> None:
    server.put(node("a"), node("b"), node("c"))
    followed = follow(server)
    server.put(node("b", pool="tls"), node("d"))
    server.remove("c")

    assert followed.changed(1) == {"b", "c", "d"}
    assert followed.changed(1) == set()


def test_heartbeats_pool_labels_and_labels_that_are_not_kept_wake_nobody(server: api.Api) -> None:
    names = [f"n{number}" for number in range(50)]
    server.put(*(node(name) for name in names))
    followed = follow(server, "feature.node.kubernetes.io/")
    server.state.requests.clear()
    server.put(*(node(name, **{f"{kae.RECIPE.pool_prefix}tls": "true", "team": "x"}) for name in names))

    assert followed.changed(1) == set()
    assert len(server.state.requests) == 1


def test_a_label_that_is_kept_wakes(server: api.Api) -> None:
    server.put(node("a"))
    followed = follow(server, "team", "example.com/a*")
    server.put(node("a", **{"example.com/ab": "1"}))

    assert followed.changed(1) == {"a"}


def test_a_broken_watch_is_repeated_and_no_change_is_missed(server: api.Api, monkeypatch: pytest.MonkeyPatch) -> None:
    server.put(node("a"), node("b"))
    followed = follow(server)
    server.put(node("a", x="1"), node("b", x="1"))
    real, lines = reader.Watch._event, iter(range(100))

    def event(self: reader.Watch, line: bytes) -> reader.Event:
        if next(lines) == 1:
            raise client.Unreachable("the connection is reset.")
        return real(self, line)

    monkeypatch.setattr(reader.Watch, "_event", event)
    with pytest.raises(client.Unreachable):
        followed.changed(1)

    assert followed.changed(1) == {"a", "b"}


@pytest.mark.parametrize("node", [{}, {"metadata": None}, {"metadata": {"labels": {}}}, {"metadata": {"name": 7}}])
def test_an_event_without_name_is_none(server: api.Api, monkeypatch: pytest.MonkeyPatch, node: dict[str, Any]) -> None:
    followed = follow(server)
    line = json.dumps({"type": "ADDED", "object": node}).encode()
    monkeypatch.setattr(reader.Watch, "_lines", lambda *_: [line])

    with pytest.raises(client.Unreachable, match="does not send watch events"):
        followed.changed(1)


def test_a_version_that_the_server_has_forgotten_is_gone(server: api.Api) -> None:
    server.put(node("a"))
    followed = follow(server)
    server.forget()
    server.put(node("b"))

    with pytest.raises(client.Gone):
        followed.changed(1)
