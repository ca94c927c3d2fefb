"""The stand-in API server for the watcher: it fails as a test asks, and keeps every state that the nodes were in."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib import parse

from tests.kube import apiserver, objects

NODES = "/api/v1/nodes"

_BOOKMARK_S = 0.2

Node = Mapping[str, Any]
State = Mapping[str, Node]


@dataclass(kw_only=True)
class Mood:
    """The failures of requests that a test asks for, also while the server runs."""

    page_s: float = 0
    """The seconds that every page of a list takes."""
    cut_pages: int = 0
    """The number of pages that end in the middle."""
    stale_pages: int = 0
    """The number of times that a list's version is gone before its rest is requested."""
    refusals: list[int] = field(default_factory=list)
    """The statuses with which the next requests are refused."""
    blank: bool = False
    """Lists are complete and empty."""


class Api(apiserver.ApiServer):
    """The nodes of a cluster, and the server that reports them."""

    def __init__(self, folder: Path) -> None:
        """Start to serve; `kubeconfig` in the folder names the server."""
        self.mood = Mood()
        self.states: dict[int, State] = {100: {}}
        """All nodes after each version."""
        self.lists = 0
        """The number of lists that were begun."""
        self.told: dict[str, int] = {}
        """The newest version of each node that a list returned."""
        self.handler = _Handler
        super().__init__(folder)
        self.state.bookmark_s = _BOOKMARK_S

    @property
    def condition(self) -> threading.Condition:
        """The lock of all state, notified at each change."""
        return self.state.condition

    @property
    def nodes(self) -> State:
        return self.states[self.state.version]

    def put(self, *items: Node) -> int:
        """Create or replace nodes; return the version."""
        with self.condition:
            for item in items:
                nodes = self.nodes
                version = super().put({"apiVersion": "v1", "kind": "Node", **item})
                name = item["metadata"]["name"]
                self.states[version] = {**nodes, name: self.get("v1", "Node", name)}
            return self.state.version

    def remove(self, name: str) -> None:
        with self.condition:
            nodes = self.nodes
            self.delete("v1", "Node", name)
            self.states[self.state.version] = {other: node for other, node in nodes.items() if other != name}

    def forget(self, *, late: bool = False) -> None:
        """Compact: no list and no watch goes on; late: watches begin, and end with an error."""
        with self.condition:
            nodes = self.nodes
            super().forget(late=late)
            self.states[self.state.version] = nodes

    def note(self, *nodes: Node) -> None:
        """Note that these nodes went out to a client."""
        with self.condition:
            for metadata in (node["metadata"] for node in nodes):
                told = max(self.told.get(metadata["name"], 0), int(metadata["resourceVersion"]))
                self.told[metadata["name"]] = told
            self.condition.notify_all()


class _Handler(apiserver.Handler):
    api: Api

    def _answer(self) -> None:
        target, mood = parse.urlsplit(self.path), self.api.mood
        query = dict(parse.parse_qsl(target.query))
        if mood.refusals:
            self._refuse(mood.refusals.pop(0))
        elif target.path == NODES and query.get("watch") != "true":
            self._list(query)
        else:
            super()._answer()

    do_GET = _answer  # noqa: N815 - http.server looks for this name

    def _list(self, query: Mapping[str, str]) -> None:
        api, mood = self.api, self.api.mood
        with api.condition:
            version, start = api.state.version, 0
            api.lists += "continue" not in query
            if "continue" in query:
                version, start = map(int, query["continue"].split("@"))
                if mood.stale_pages or version < api.state.compacted:
                    mood.stale_pages = max(0, mood.stale_pages - 1)
                    return self._refuse(410)
            # All pages of a list show the version of the first.
            nodes = {} if mood.blank and not start else api.states[version]
        time.sleep(mood.page_s)
        items = [nodes[name] for name in sorted(nodes)]
        end = start + int(query["limit"])
        rest = {"continue": f"{version}@{end}"} if end < len(items) else {}
        metadata = {"resourceVersion": str(version), **rest}
        text = json.dumps({"kind": "NodeList", "metadata": metadata, "items": items[start:end]})
        cut = mood.cut_pages > 0
        mood.cut_pages -= cut
        self._say(200, text, {}, cut=cut)
        if not rest:
            api.note(*nodes.values())
        return None

    def _refuse(self, status: int) -> None:
        _, body = objects.refusal(status, "as the test asks")
        self._say(status, json.dumps(body), {"Retry-After": "0"} if status == 429 else {})


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Api]:
    api = Api(folder)
    try:
        yield api
    finally:
        api.down()
