"""A stand-in API server: real HTTP, and the answers of the real one for Leases, evictions and DaemonSets.

What it refuses, and how it fails, a test says by its attributes, also while it serves.
"""

import contextlib
import copy
import http.server
import json
import re
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib import parse

Answer = tuple[int, dict[str, Any]]

_LEASES = re.compile(r"/apis/coordination\.k8s\.io/v1/namespaces/([^/]+)/leases(?:/([^/]+))?")
_EVICTION = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)/eviction")
_DAEMON_SET = re.compile(r"/apis/apps/v1/namespaces/([^/]+)/daemonsets/([^/]+)")

_REASONS = {403: "Forbidden", 404: "NotFound", 409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}


@dataclass(kw_only=True)
class State:
    """What there is, and what it refuses; keys are namespace/name."""

    leases: dict[str, dict[str, Any]] = field(default_factory=dict)
    daemon_sets: dict[str, dict[str, Any]] = field(default_factory=dict)
    pods: set[str] = field(default_factory=set)
    budgets: dict[str, str] = field(default_factory=dict)
    """Pods, and the budget that forbids the eviction of each."""
    forbidden: set[str] = field(default_factory=set)
    """Objects that the caller may not touch, such as leases/default/a and pods/default/b."""
    broken: dict[str, Answer] = field(default_factory=dict)
    """Objects, and what is answered for each in place of anything else."""
    token: str = ""
    """The only one that is known; empty: everybody is."""
    evicted: list[str] = field(default_factory=list)
    when_evicted: Callable[[str], None] | None = None
    requests: list[str] = field(default_factory=list)
    """Method and path of everything that was asked."""
    when_asked: Callable[[str], None] | None = None
    """Told the method of everything that is asked, before it is carried out."""
    deaf: bool = False
    """It carries out what it is told, and never answers."""
    garbled: str = ""
    """A text that it says in place of every answer, as a proxy on the way would."""
    version: int = 100
    """The resourceVersion that was given last."""
    lock: threading.Lock = field(default_factory=threading.Lock)


class ApiServer:
    """A server on an address of the machine itself; after `down` nobody answers there until `up`."""

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        """Serves at once."""
        self.state = State()
        self.kubeconfig = folder / "kubeconfig"
        self.authority: Path | None = _certificate(folder) if tls else None
        self._released = threading.Event()
        self._server = self._serve(0)
        self.port: int = self._server.server_address[1]
        self.write_kubeconfig(self.authority)

    @property
    def address(self) -> str:
        """Its URL."""
        return f"{'https' if self.authority else 'http'}://127.0.0.1:{self.port}"

    def write_kubeconfig(self, authority: Path | None, **user: str) -> None:
        """Names this server to clients, with fields of the user such as tokenFile."""
        cluster = {"server": self.address} | ({"certificate-authority": str(authority)} if authority else {})
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "test", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "current-context": "test",
        }
        self.kubeconfig.write_text(json.dumps(document))

    def lease(self, name: str, namespace: str = "kae-operator") -> dict[str, Any]:
        """The Lease's spec as it is now."""
        with self.state.lock:
            return copy.deepcopy(self.state.leases[f"{namespace}/{name}"]["spec"])

    def put_lease(self, name: str, namespace: str = "kae-operator", **spec: object) -> None:
        """Changes or makes a Lease as somebody else would; a field of None goes."""
        with self.state.lock:
            found = self.state.leases.setdefault(f"{namespace}/{name}", _lease(namespace, name))
            merged = found["spec"] | spec
            found["spec"] = {key: value for key, value in merged.items() if value is not None}
            _touch(self.state, found)

    def down(self) -> None:
        """Ends, and drops whoever is connected."""
        self._released.set()
        self._server.shutdown()
        self._server.drop()
        self._server.server_close()

    def up(self) -> None:
        """Serves again at the same address, with everything that it knew."""
        self._server = self._serve(self.port)

    def _serve(self, port: int) -> "_Server":
        self._released = threading.Event()
        server = _Server(("127.0.0.1", port), _handler(self.state, self._released))
        if self.authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.authority, self.authority.with_suffix(".key"))
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
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
def serving(folder: Path, *, tls: bool = False) -> Iterator[ApiServer]:
    """A server until the end of the test."""
    server = ApiServer(folder, tls=tls)
    try:
        yield server
    finally:
        server.down()


def _handler(state: State, released: threading.Event) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            with state.lock:
                state.requests.append(f"{self.command} {self.path}")
                if state.when_asked is not None:
                    state.when_asked(self.command)
                status, answer = _carried_out(state, self.command, self.path, body, self.headers.get("Authorization"))
                deaf, text = state.deaf, state.garbled or json.dumps(answer)
            if deaf:
                released.wait()
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if state.garbled else "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - so http.server finds them

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: the test reads `requests`."""

    return Handler


def _carried_out(state: State, method: str, path: str, body: dict[str, Any], authorization: str | None) -> Answer:
    if state.token and (authorization or "").lower() != f"bearer {state.token}".lower():
        return _status(401, "Unauthorized", reason="Unauthorized")
    for kind, pattern, act in (
        ("leases", _LEASES, _on_lease),
        ("pods", _EVICTION, _on_eviction),
        ("daemonsets", _DAEMON_SET, _on_daemon_set),
    ):
        match = pattern.fullmatch(path)
        if match is not None:
            name = parse.unquote(match[2] or body["metadata"]["name"])
            key = f"{match[1]}/{name}"
            if f"{kind}/{key}" in state.broken:
                return state.broken[f"{kind}/{key}"]
            if f"{kind}/{key}" in state.forbidden:
                return _status(403, f'{kind} "{name}" is forbidden: User "kae-driver" cannot do that')
            return act(state, method, key, body)
    return _status(404, "the server could not find the requested resource")


def _on_lease(state: State, method: str, key: str, body: dict[str, Any]) -> Answer:
    name = key.partition("/")[2]
    known = state.leases.get(key)
    if method == "POST":
        if known is not None:
            return _status(409, f'leases.coordination.k8s.io "{name}" already exists', reason="AlreadyExists")
        state.leases[key] = _lease(key.partition("/")[0], name) | {"spec": body["spec"]}
        return 201, _touch(state, state.leases[key])
    if known is None:
        return _status(404, f'leases.coordination.k8s.io "{name}" not found')
    if method == "PUT":
        if body["metadata"].get("resourceVersion", "") not in ("", known["metadata"]["resourceVersion"]):
            said = "the object has been modified; please apply your changes to the latest version and try again"
            return _status(409, f'Operation cannot be fulfilled on leases.coordination.k8s.io "{name}": {said}')
        known |= {"spec": body["spec"], "metadata": body["metadata"] | {"uid": known["metadata"]["uid"]}}
        _touch(state, known)
    return 200, copy.deepcopy(known)


def _on_eviction(state: State, _: str, key: str, body: dict[str, Any]) -> Answer:
    name = key.partition("/")[2]
    if (body["apiVersion"], body["kind"], body["metadata"]["name"]) != ("policy/v1", "Eviction", name):
        return _status(400, f"this is no eviction of {name}", reason="BadRequest")
    if key not in state.pods:
        return _status(404, f'pods "{name}" not found')
    if key in state.budgets:
        budget = state.budgets[key]
        said = f"The disruption budget {budget} needs 2 healthy pods and has 2 currently"
        causes = [{"reason": "DisruptionBudget", "message": said}]
        refused = _status(429, "Cannot evict pod as it would violate the pod's disruption budget.")
        return 429, refused[1] | {"details": {"causes": causes}}
    state.evicted.append(key)
    if state.when_evicted is not None:
        state.when_evicted(key)
    return 201, {"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}


def _on_daemon_set(state: State, _: str, key: str, __: dict[str, Any]) -> Answer:
    name = key.partition("/")[2]
    if key not in state.daemon_sets:
        return _status(404, f'daemonsets.apps "{name}" not found')
    return 200, {"kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": name} | state.daemon_sets[key]}


def _status(code: int, message: str, reason: str = "") -> Answer:
    reason = reason or _REASONS[code]
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
    return code, body | {"reason": reason, "code": code}


def _lease(namespace: str, name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "resourceVersion": ""}
    return {"kind": "Lease", "apiVersion": "coordination.k8s.io/v1", "metadata": metadata, "spec": {}}


def _touch(state: State, found: dict[str, Any]) -> dict[str, Any]:
    state.version += 1
    found["metadata"]["resourceVersion"] = str(state.version)
    return copy.deepcopy(found)


def _certificate(folder: Path) -> Path:
    """A certificate that is its own authority, for the address of the machine itself."""
    path = folder / "server.crt"
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    names = ["-subj", "/CN=kae-test", "-addext", "subjectAltName=IP:127.0.0.1"]
    usage = ["-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    files = ["-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run([*command, *names, *usage, *files], check=True, capture_output=True, timeout=30)
    return path
