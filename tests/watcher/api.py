"""A stand-in API server for nodes that fails as it is told: real HTTP; lists by page, each of one moment; watches.

Every state that the nodes were ever in is kept, so that a test can say what a watcher may have seen.
"""

import contextlib
import copy
import http.server
import json
import select
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib import parse

from tests.kube import transport
from tests.watcher import settings

NODES = "/api/v1/nodes"

_BOOKMARK_S = 0.2

Node = Mapping[str, Any]
State = Mapping[str, Node]


@dataclass(kw_only=True)
class Mood:
    """The failures that a test asks for, also while the server runs."""

    page_s: float = 0
    """How long every page of a list takes."""
    cut_pages: int = 0
    """So many pages break off in the middle."""
    stale_pages: int = 0
    """So many times the rest of a list is forgotten before it is asked for."""
    refusals: list[int] = field(default_factory=list)
    """With these statuses the next requests are refused."""
    refused_gets: int = 0
    """So many single nodes are not told of."""
    blank: bool = False
    """Lists are whole, and there is nothing in them."""
    hung: bool = False
    """Watches that are open say nothing any more, and never end."""
    cut_events: int = 0
    """So many events break off in the middle, and their watches with them."""
    late_410: bool = False
    """That a state is forgotten is told in the watch, not at its begin."""


class Api:
    """The nodes, and the server that tells of them; after `down` nobody answers at its address until `up`."""

    def __init__(self, folder: Path) -> None:
        """Serves at once; `kubeconfig` in the folder leads to it."""
        self.mood = Mood()
        self.condition = threading.Condition()
        self.version = 100
        """The resourceVersion that was given last."""
        self.states: dict[int, State] = {self.version: {}}
        """All nodes after each version."""
        self.events: list[tuple[int, str, Node]] = []
        self.compacted = 0
        """What is older is forgotten."""
        self.lists = 0
        """So many were begun."""
        self.told: dict[str, int] = {}
        """The newest version of each node that went out, by a list or alone."""
        self._server = self._serve(0)
        self._port: int = self._server.server_address[1]
        self.kubeconfig = settings.kubeconfig(folder, f"http://127.0.0.1:{self._port}")

    @property
    def nodes(self) -> State:
        """What there is now."""
        return self.states[self.version]

    def put(self, node: Node) -> int:
        """Makes a node, or changes it to this; the version."""
        name = node["metadata"]["name"]
        with self.condition:
            kind = "MODIFIED" if name in self.nodes else "ADDED"
            made = copy.deepcopy(dict(node))
            made["metadata"]["resourceVersion"] = str(self.version + 1)
            return self._happened(kind, made, {**self.nodes, name: made})

    def delete(self, name: str) -> int:
        """Removes a node; the version."""
        with self.condition:
            left = {other: node for other, node in self.nodes.items() if other != name}
            return self._happened("DELETED", self.nodes[name], left)

    def forget(self, *, late: bool) -> None:
        """Compacts: no watch goes on, and no list; late: running watches are told so."""
        with self.condition:
            self.mood.late_410 = late
            self.version += 1
            self.states[self.version] = self.states[self.version - 1]
            self.compacted = self.version
            self.condition.notify_all()

    def down(self) -> None:
        """Stop, and drop all connections."""
        self._server.shutdown()
        self._server.server_close()
        self.drop()

    def up(self) -> None:
        """Serve again at the same address."""
        self._server = self._serve(self._port)

    def drop(self) -> None:
        """End all connections."""
        self._server.drop()

    def _happened(self, kind: str, node: Node, state: State) -> int:
        self.version += 1
        self.states[self.version] = state
        self.events.append((self.version, kind, node))
        self.condition.notify_all()
        return self.version

    def _serve(self, port: int) -> "_Server":
        handler = type("Handler", (_Handler,), {"api": self})
        server = _Server(port, handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server


class _Server(transport.Server):
    daemon_threads = True
    block_on_close = False


class _Handler(http.server.BaseHTTPRequestHandler):
    api: Api
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        target = parse.urlsplit(self.path)
        query = dict(parse.parse_qsl(target.query))
        mood = self.api.mood
        if mood.refusals:
            self._refuse(mood.refusals.pop(0))
        elif target.path != NODES:
            self._node(target.path.removeprefix(f"{NODES}/"))
        elif query.get("watch") == "true":
            self._watch(int(query["resourceVersion"]), float(query["timeoutSeconds"]))
        else:
            self._list(query)

    def _list(self, query: Mapping[str, str]) -> None:
        mood = self.api.mood
        with self.api.condition:
            version, start = self.api.version, 0
            self.api.lists += "continue" not in query
            if "continue" in query:
                version, start = map(int, query["continue"].split("@"))
                if mood.stale_pages or version < self.api.compacted:
                    mood.stale_pages = max(0, mood.stale_pages - 1)
                    return self._refuse(410)
            # A list that has begun goes on with what it is of.
            state = {} if mood.blank and not start else self.api.states[version]
        time.sleep(mood.page_s)
        items = [state[name] for name in sorted(state)]
        end = start + int(query["limit"])
        rest = {"continue": f"{version}@{end}"} if end < len(items) else {}
        metadata = {"resourceVersion": str(version), **rest}
        text = json.dumps({"kind": "NodeList", "metadata": metadata, "items": items[start:end]}).encode()
        if mood.cut_pages:
            mood.cut_pages -= 1
            return self._say(200, text, cut=True)
        self._say(200, text)
        if not rest:
            self._told(*state.values())
        return None

    def _node(self, name: str) -> None:
        with self.api.condition:
            node = self.api.nodes.get(name)
        if self.api.mood.refused_gets:
            self.api.mood.refused_gets -= 1
            return self._refuse(500)
        if node is None:
            return self._refuse(404)
        self._say(200, json.dumps(node).encode())
        self._told(node)
        return None

    def _told(self, *nodes: Node) -> None:
        with self.api.condition:
            for metadata in (node["metadata"] for node in nodes):
                # A list that began before may end after a newer version was told alone.
                newest = max(self.api.told.get(metadata["name"], 0), int(metadata["resourceVersion"]))
                self.api.told[metadata["name"]] = newest
            self.api.condition.notify_all()

    def _watch(self, seen: int, timeout_s: float) -> None:
        api = self.api
        if seen < api.compacted and not api.mood.late_410:
            return self._refuse(410)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            with api.condition:
                if api.version == seen and not api.mood.hung:
                    api.condition.wait(min(left_s, _BOOKMARK_S))
                found = [event for event in api.events if event[0] > seen]
                forgotten, newest = seen < api.compacted, api.version
            if api.mood.hung:
                return self._hang()
            if forgotten:
                self._tell("ERROR", _status(410))
                break
            for version, kind, node in found:
                self._tell(kind, {"metadata": {**node["metadata"], "resourceVersion": str(version)}})
            if not found:
                self._tell("BOOKMARK", {"metadata": {"resourceVersion": str(newest)}})
            seen = newest
        self.wfile.write(b"0\r\n\r\n")
        return None

    def _hang(self) -> None:
        """Wait until the client ends the connection."""
        self.close_connection = True
        select.select([self.connection], [], [])

    def _tell(self, kind: str, item: Node) -> None:
        line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
        cut = kind != "BOOKMARK" and self.api.mood.cut_events > 0
        if cut:
            self.api.mood.cut_events -= 1
            line = line[: len(line) // 2]
        # Events arrive in parts over a slow network.
        for part in (line[:20], line[20:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
        if cut:
            raise ConnectionError

    def _refuse(self, status: int) -> None:
        self._say(status, json.dumps(_status(status)).encode(), {"Retry-After": "0"} if status == 429 else {})

    def _say(self, status: int, text: bytes, headers: Mapping[str, str] | None = None, *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text[: len(text) // 2] if cut else text)
        if cut:
            raise ConnectionError

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Api]:
    """Yield a server, and stop it at the end."""
    api = Api(folder)
    try:
        yield api
    finally:
        api.down()


def _status(code: int) -> dict[str, Any]:
    reason = {404: "NotFound", 410: "Expired"}.get(code, "InternalError")
    return {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "as it was told"}
