"""A stand-in API server that is read from: real HTTP, and what the real one answers to gets, lists and watches.

What there is, what it refuses and how it fails, a test says by its state, also while it serves.
"""

import contextlib
import copy
import http.server
import json
import re
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib import parse

Answer = tuple[int, Any]

KINDS: Mapping[str, Mapping[str, tuple[str, bool]]] = {
    "v1": {
        "ConfigMap": ("configmaps", True),
        "Event": ("events", True),
        "Namespace": ("namespaces", False),
        "Node": ("nodes", False),
        "Pod": ("pods", True),
        "ServiceAccount": ("serviceaccounts", True),
    },
    "admissionregistration.k8s.io/v1": {
        "ValidatingAdmissionPolicy": ("validatingadmissionpolicies", False),
        "ValidatingAdmissionPolicyBinding": ("validatingadmissionpolicybindings", False),
    },
    "apiextensions.k8s.io/v1": {"CustomResourceDefinition": ("customresourcedefinitions", False)},
    "apps/v1": {
        "ControllerRevision": ("controllerrevisions", True),
        "DaemonSet": ("daemonsets", True),
        "Deployment": ("deployments", True),
    },
    "coordination.k8s.io/v1": {"Lease": ("leases", True)},
    "nfd.k8s-sigs.io/v1alpha1": {"NodeFeatureRule": ("nodefeaturerules", False)},
    "rbac.authorization.k8s.io/v1": {
        "ClusterRole": ("clusterroles", False),
        "ClusterRoleBinding": ("clusterrolebindings", False),
        "Role": ("roles", True),
        "RoleBinding": ("rolebindings", True),
    },
}
"""Plural, and whether it is namespaced, of every kind that it knows."""

_PATH = re.compile(r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+/[^/]+))(?:/(?P<rest>.*))?")
_PART = re.compile(r"(?P<key>[^ ,]+) in \((?P<values>[^)]*)\)|(?P<name>[^ ,=]+)=(?P<value>[^,]*)")
_REASONS = {401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 410: "Expired", 429: "TooManyRequests"}


@dataclass(kw_only=True)
class State:
    """What there is, and what goes wrong."""

    objects: dict[tuple[str, str, str, str], dict[str, Any]] = field(default_factory=dict)
    """By apiVersion, kind, namespace and name."""
    events: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    """What happened to nodes: the version, the type, and the node's metadata."""
    version: int = 100
    """The resourceVersion that was given last."""
    compacted: int = 0
    """What is older is forgotten."""
    token: str = ""
    """The only one that is known; empty: everybody is."""
    forbidden: set[str] = field(default_factory=set)
    """What nobody may do, such as "list nodes"."""
    answers: dict[str, list[tuple[int, str, dict[str, str]]]] = field(default_factory=dict)
    """By path, what is answered once each, before anything else: a status, a text and headers."""
    unknown: set[str] = field(default_factory=set)
    """Groups with their versions that it does not know, although `KINDS` has them."""
    requests: list[str] = field(default_factory=list)
    """Method and path of everything that was asked, with its query."""
    when_asked: Callable[[str], None] | None = None
    """Told the path of everything that is asked, before it is answered."""
    deaf: bool = False
    """It never answers."""
    cut: bool = False
    """Watches break off in the middle of the next event."""
    condition: threading.Condition = field(default_factory=threading.Condition)


class ApiServer:
    """A server on an address of the machine itself; after `down` nobody answers there until `up`."""

    def __init__(self, folder: Path) -> None:
        """Serves at once."""
        self.state = State()
        self.kubeconfig = folder / "kubeconfig"
        self._server = self._serve(0)
        self.port: int = self._server.server_address[1]
        self.write_kubeconfig()

    @property
    def address(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    def write_kubeconfig(self, **user: str) -> None:
        """Names this server to clients, with fields of the user such as tokenFile."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.address}}, {"name": "bare", "cluster": {}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "test"}},
                {"name": "bare", "context": {"cluster": "bare"}},
            ],
            "current-context": "test",
        }
        self.kubeconfig.write_text(json.dumps(document))

    def put(self, *objects: Mapping[str, Any]) -> None:
        """Makes objects, or changes them to this."""
        with self.state.condition:
            for item in objects:
                made = copy.deepcopy(dict(item))
                known = self.state.objects.get(_key(made))
                self.state.objects[_key(made)] = made
                self._happened("MODIFIED" if known else "ADDED", made)

    def delete(self, api_version: str, kind: str, name: str, namespace: str = "") -> None:
        """Removes an object."""
        with self.state.condition:
            self._happened("DELETED", self.state.objects.pop((api_version, kind, namespace, name)))

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        """An object, to be changed and put."""
        with self.state.condition:
            return copy.deepcopy(self.state.objects[(api_version, kind, namespace, name)])

    def tick(self) -> None:
        """Time goes on without anything that happens to a node, of which bookmarks tell."""
        with self.state.condition:
            self.state.version += 1
            self.state.events.append((self.state.version, "BOOKMARK", {"metadata": {}}))
            self.state.condition.notify_all()

    def forget(self) -> None:
        """Compacts: nobody can go on from what was."""
        with self.state.condition:
            self.state.version += 1
            self.state.compacted = self.state.version

    def down(self) -> None:
        """Ends, and drops whoever is connected."""
        self._released.set()
        with self.state.condition:
            self.state.condition.notify_all()
        self._server.shutdown()
        self._server.drop()
        self._server.server_close()

    def up(self) -> None:
        """Serves again at the same address, with everything that it knew."""
        self._server = self._serve(self.port)

    def _happened(self, kind: str, item: dict[str, Any]) -> None:
        state = self.state
        state.version += 1
        item["metadata"]["resourceVersion"] = str(state.version)
        if item["kind"] == "Node":
            state.events.append((state.version, kind, copy.deepcopy(_metadata(item))))
        state.condition.notify_all()

    def _serve(self, port: int) -> "_Server":
        self._released = threading.Event()
        server = _Server(("127.0.0.1", port), _handler(self.state, self._released))
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[http.server.BaseHTTPRequestHandler]) -> None:
        super().__init__(address, handler)
        self._open: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes in the middle of an answer is no error here."""

    def drop(self) -> None:
        """Ends all connections."""
        for request in tuple(self._open):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[ApiServer]:
    """A server until the end of the test."""
    server = ApiServer(folder)
    try:
        yield server
    finally:
        server.down()


def _handler(state: State, released: threading.Event) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            target = parse.urlsplit(self.path)
            query = dict(parse.parse_qsl(target.query))
            with state.condition:
                state.requests.append(f"GET {parse.unquote(self.path)}")
            if state.when_asked is not None:
                state.when_asked(target.path)
            if state.deaf:
                released.wait()
                self.close_connection = True
                return
            with state.condition:
                prepared = state.answers.get(target.path)
                if prepared:
                    status, text, headers = prepared.pop(0)
                    self._say(status, text, headers)
                    return
                status, body = _answered(state, target.path, query, dict(self.headers))
            if status == 200 and query.get("watch") == "true":
                self._watch(query)
            else:
                self._say(status, body if isinstance(body, str) else json.dumps(body), {})

        def _say(self, status: int, text: str, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in {"Content-Type": "application/json", **headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def _watch(self, query: Mapping[str, str]) -> None:
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.flush()
            seen, deadline_s = int(query["resourceVersion"]), time.monotonic() + int(query["timeoutSeconds"])
            while not released.is_set() and time.monotonic() < deadline_s:
                with state.condition:
                    found = [event for event in state.events if event[0] > seen]
                    if not found:
                        state.condition.wait(0.05)
                for version, kind, item in found:
                    seen = version
                    self._tell({"type": kind, "object": item | {"metadata": _versioned(item, version)}})
            if not released.is_set():
                self.wfile.write(b"0\r\n\r\n")

        def _tell(self, event: Mapping[str, Any]) -> None:
            line = json.dumps(event).encode() + b"\n"
            if state.cut:
                line = line[: len(line) // 2]
            # Parts of events, as they arrive from afar.
            for part in (line[:20], line[20:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
                self.wfile.flush()
            if state.cut:
                raise ConnectionError

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: the test reads `requests`."""

    return Handler


def _answered(state: State, path: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
    if state.token and headers.get("Authorization", "").lower() != f"bearer {state.token}".lower():
        return _status(401, "Unauthorized")
    match = _PATH.fullmatch(path)
    api_version = (match["core"] or match["group"]) if match else ""
    if match is None or api_version not in KINDS or api_version in state.unknown:
        return 404, "404 page not found\n"
    if not match["rest"]:
        found = [{"kind": k, "name": n, "namespaced": s} for k, (n, s) in KINDS[api_version].items()]
        return 200, {"kind": "APIResourceList", "resources": [*found, {"kind": "Scale", "name": "x/y", "namespaced": True}]}
    parts = [parse.unquote(part) for part in match["rest"].split("/")]
    namespace = parts[1] if parts[0] == "namespaces" and len(parts) > 2 else ""
    plural, *name = parts[2:] if namespace else parts
    kind = next(kind for kind, (known, _) in KINDS[api_version].items() if known == plural)
    verb = "get" if name else "watch" if query.get("watch") == "true" else "list"
    if f"{verb} {plural}" in state.forbidden:
        group = api_version.rpartition("/")[0]
        said = f'{plural} is forbidden: User "somebody" cannot {verb} resource "{plural}" in API group "{group}"'
        return _status(403, said)
    if verb == "get":
        item = state.objects.get((api_version, kind, namespace, name[0]))
        return (200, item) if item else _status(404, f'{plural} "{name[0]}" not found')
    if verb == "watch":
        if int(query["resourceVersion"]) < state.compacted:
            return _status(410, "too old resource version")
        return 200, None
    chosen = [
        item
        for key, item in sorted(state.objects.items())
        if key[:2] == (api_version, kind) and namespace in ("", key[2]) and _matches(item, query)
    ]
    return _listed(state, chosen, query, as_metadata="PartialObjectMetadataList" in headers.get("Accept", ""))


def _listed(state: State, items: list[dict[str, Any]], query: Mapping[str, str], *, as_metadata: bool) -> Answer:
    start, version = 0, state.version
    if "continue" in query:
        start, version = map(int, query["continue"].split("@"))
        if version < state.compacted:
            return _status(410, "The provided continue parameter is too old")
    end = start + int(query.get("limit") or len(items) or 1)
    metadata = {"resourceVersion": str(version)} | ({"continue": f"{end}@{version}"} if end < len(items) else {})
    shown = [_metadata(item) if as_metadata else item for item in items[start:end]]
    return 200, {"kind": "List", "metadata": metadata, "items": shown}


def _matches(item: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    labels = item["metadata"].get("labels") or {}
    chosen = all(
        labels.get(part["key"] or part["name"]) in (part["values"] or part["value"]).replace(" ", "").split(",")
        for part in _PART.finditer(query.get("labelSelector", ""))
    )
    fields = (part["name"].split(".") + [part["value"]] for part in _PART.finditer(query.get("fieldSelector", "")))
    return chosen and all(_field(item, names) == value for *names, value in fields)


def _field(item: Any, names: list[str]) -> Any:
    for name in names:
        item = item.get(name, {})
    return item


def _metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def _versioned(item: Mapping[str, Any], version: int) -> dict[str, Any]:
    return {**item["metadata"], "resourceVersion": str(version)}


def _status(code: int, message: str) -> Answer:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return code, body | {"reason": _REASONS[code], "code": code}


def _key(item: Mapping[str, Any]) -> tuple[str, str, str, str]:
    metadata = item["metadata"]
    return item["apiVersion"], item["kind"], metadata.get("namespace", ""), metadata["name"]
