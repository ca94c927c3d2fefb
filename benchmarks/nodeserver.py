"""A stand-in API server in a process of its own: nodes as large as real ones, over real HTTP, that never rest.

It serves the requests of the watcher: pages of nodes, one node, and a watch of their metadata. A pipe carries each
`Order` to it, and the time at which the order was done back.
"""

import http.server
import json
import random
import socketserver
import threading
import time
from dataclasses import dataclass, field
from multiprocessing import connection
from typing import Any, NamedTuple
from urllib import parse

from benchmarks import fleets

NODES = "/api/v1/nodes"
TURN = "example.com/turn"
"""The label that changes."""

_FIRST = 1000
_BEAT_S = 300
"""The seconds between two status reports of an unchanged node (the kubelet's nodeStatusReportFrequency)."""

_IMAGES = 50
"""The most images that a kubelet reports (nodeStatusMaxImages)."""

_MANAGERS = ("kubelet", "kube-controller-manager", "nfd-master", "kubeadm", "cilium-operator")


class Order(NamedTuple):
    """`relabel` a node, `rate` of changes of labels a second on nodes by chance, `count` what was served, or `end`."""

    verb: str
    number: int = 0


class Counts(NamedTuple):
    """The counts of the requests and changes so far."""

    lists: int
    gets: int
    events: int
    changes: int
    """The number of changed labels."""
    listing: bool
    """True while a client reads a list."""
    longest_list_s: float


class _Row(NamedTuple):
    head: bytes
    """The metadata, without the parts that change."""
    tail: bytes
    """Everything after the metadata."""


@dataclass
class _Fleet:
    rows: dict[str, _Row]
    turns: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    """The names of changed nodes in order; the first change has the version after the first."""
    served: dict[str, int] = field(default_factory=lambda: {"lists": 0, "gets": 0, "events": 0})
    list_began_s: float | None = None
    longest_list_s: float = 0.0
    condition: threading.Condition = field(default_factory=threading.Condition)

    @property
    def version(self) -> int:
        return _FIRST + len(self.events)

    def happen(self, name: str, *, relabel: bool) -> None:
        with self.condition:
            self.events.append(name)
            self.versions[name] = self.version
            if relabel:
                self.turns[name] = self.turns.get(name, 0) + 1
            self.condition.notify_all()

    def counts(self) -> Counts:
        return Counts(
            **self.served,
            changes=sum(self.turns.values()),
            listing=self.list_began_s is not None,
            longest_list_s=self.longest_list_s,
        )

    def metadata(self, name: str) -> bytes:
        version, turn = self.versions.get(name, _FIRST), self.turns.get(name, 0)
        return self.rows[name].head.replace(b"@version@", b"%d" % version).replace(b"@turn@", b"%d" % turn)

    def text(self, name: str) -> bytes:
        return b'{"apiVersion":"v1","kind":"Node","metadata":%s,%s}' % (self.metadata(name), self.rows[name].tail)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fleet: _Fleet

    def do_GET(self) -> None:
        target = parse.urlsplit(self.path)
        query = dict(parse.parse_qsl(target.query))
        if query.get("watch") == "true":
            self._watch(int(query["resourceVersion"]), time.monotonic() + int(query["timeoutSeconds"]))
        elif target.path == NODES:
            self._say(self._page(query))
        else:
            self.fleet.served["gets"] += 1
            self._say(self.fleet.text(target.path.rpartition("/")[2]))

    def _page(self, query: dict[str, str]) -> bytes:
        names = list(self.fleet.rows)
        start, _, version = query.get("continue", f"0@{self.fleet.version}").partition("@")
        end = int(start) + int(query["limit"])
        metadata = {"resourceVersion": version} | ({"continue": f"{end}@{version}"} if end < len(names) else {})
        if start == "0":
            self.fleet.served["lists"] += 1
            self.fleet.list_began_s = time.monotonic()
        elif end >= len(names) and self.fleet.list_began_s is not None:
            self.fleet.longest_list_s = max(self.fleet.longest_list_s, time.monotonic() - self.fleet.list_began_s)
            self.fleet.list_began_s = None
        items = b",".join(map(self.fleet.text, names[int(start) : end]))
        return b'{"kind":"NodeList","apiVersion":"v1","metadata":%s,"items":[%s]}' % (
            json.dumps(metadata).encode(),
            items,
        )

    def _watch(self, version: int, deadline_s: float) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        seen = version - _FIRST
        while time.monotonic() < deadline_s:
            with self.fleet.condition:
                if len(self.fleet.events) <= seen:
                    self.fleet.condition.wait(timeout=1)
                names = self.fleet.events[seen:]
                lines = [
                    b'{"type":"MODIFIED","object":{"kind":"PartialObjectMetadata",'
                    b'"apiVersion":"meta.k8s.io/v1","metadata":%s}}\n' % self.fleet.metadata(name)
                    for name in names
                ]
            for line in lines:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            seen += len(names)
            self.fleet.served["events"] += len(names)
        self.wfile.write(b"0\r\n\r\n")

    def _say(self, text: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that leaves in the middle of an answer."""


def serve(orders: "connection.Connection[Any, Any]", count: int) -> None:
    """Serve `count` nodes: first send the port and the bytes of a node, then carry out orders until `end`."""
    fleet = _Fleet(rows=dict(map(_row, fleets.nodes(count))))
    names = list(fleet.rows)
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"fleet": fleet}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    stop, rate = threading.Event(), [0]
    threading.Thread(target=_change, args=(fleet, names, rate, stop), daemon=True).start()
    orders.send((server.server_address[1], len(fleet.text(names[0]))))
    while True:
        verb, number = orders.recv()
        if verb == "end":
            stop.set()
            server.shutdown()
            return
        if verb == "rate":
            rate[0] = number
        elif verb == "relabel":
            fleet.happen(names[number], relabel=True)
        orders.send(fleet.counts() if verb == "count" else time.time())


def _change(fleet: _Fleet, names: list[str], rate: list[int], stop: threading.Event) -> None:
    """Send heartbeats of random nodes, and change labels of random nodes at the requested rate."""
    chance = random.Random(0)  # noqa: S311 - which node it is
    tick_s = 0.05
    beats = changes = 0.0
    while not stop.wait(tick_s):
        beats += tick_s * len(names) / _BEAT_S
        changes += tick_s * rate[0]
        for _ in range(int(beats)):
            fleet.happen(chance.choice(names), relabel=False)
        for _ in range(int(changes)):
            fleet.happen(chance.choice(names), relabel=True)
        beats, changes = beats % 1, changes % 1


def _row(node: dict[str, Any]) -> tuple[str, _Row]:
    metadata, status = node["metadata"], node["status"]
    metadata["labels"][TURN] = "@turn@"
    metadata |= {"resourceVersion": "@version@", "uid": "9f86d081-884c-4d63-a1e2-000000000000"}
    fields: dict[str, Any] = {f"f:{name}": {} for name in (*metadata["labels"], *metadata["annotations"])}
    metadata["managedFields"] = [
        {
            "manager": manager,
            "operation": "Update",
            "apiVersion": "v1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": fields}},
        }
        for manager in _MANAGERS
    ]
    status["images"] = [
        {
            "names": [f"registry.example.com/team/application-{image}{end}" for end in (f"@sha256:{'0' * 64}", ":1.0")],
            "sizeBytes": 123456789,
        }
        for image in range(_IMAGES)
    ]
    status["conditions"] = [
        {**condition, "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for condition in status["conditions"]
    ]
    tail = json.dumps({"spec": node["spec"], "status": status})[1:-1]
    return metadata["name"], _Row(json.dumps(metadata).encode(), tail.encode())
