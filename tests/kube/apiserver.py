"""A stand-in API server over real HTTP, which answers gets, lists, watches, writes and evictions as the real one does.

A test sets its objects, refusals and failures in `ApiServer.state`, also while it serves.
"""

import contextlib
import copy
import http.server
import json
import select
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib import parse

from tests import tools
from tests.kube import objects

_LEASES = "coordination.k8s.io/v1"


class _Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """A threading HTTP server on the loopback address that can drop its connections at any time."""

    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, port: int, handler: Callable[..., http.server.BaseHTTPRequestHandler]) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._connections: set[socket.socket] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that end in the middle of an answer; tests cause them."""

    def drop(self) -> None:
        for connection in tuple(self._connections):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class ApiServer:
    """A server on the loopback address; `down` stops it and `up` starts it again at the same address."""

    handler: "type[Handler] | None" = None
    """A subclass of Handler, for failures of a test's own."""

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        self.state = objects.State()
        self.kubeconfig = folder / "kubeconfig"
        self.authority: Path | None = certificate(folder) if tls else None
        self._server = self._serve(0)
        self.port: int = self._server.server_address[1]
        self.write_kubeconfig()

    @property
    def address(self) -> str:
        return f"{'https' if self.authority else 'http'}://127.0.0.1:{self.port}"

    def write_kubeconfig(self, authority: Path | None = None, **user: str) -> None:
        """Write a kubeconfig for this server, with fields of the user such as tokenFile."""
        cluster = {"server": self.address}
        if authority is not None:
            cluster["certificate-authority"] = str(authority)
        elif self.authority is not None:
            cluster["certificate-authority"] = self.authority.name  # beside the kubeconfig
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}, {"name": "bare", "cluster": {}}],
            "users": [{"name": "test", "user": user}],
            "contexts": [
                {"name": "test", "context": {"cluster": "test", "user": "test"}},
                {"name": "bare", "context": {"cluster": "bare"}},
            ],
            "current-context": "test",
        }
        self.kubeconfig.write_text(json.dumps(document))

    def put(self, *items: Mapping[str, Any]) -> int:
        """Create or replace objects; return the version."""
        with self.state.condition:
            for item in items:
                objects.put(self.state, item)
            return self.state.version

    def put_pods(self, *keys: str) -> None:
        """Create pods, named namespace/name."""
        for namespace, _, name in (key.partition("/") for key in keys):
            self.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name}})

    def put_daemon_set(self, key: str, **metadata: str) -> None:
        """Create a DaemonSet, named namespace/name, with more metadata."""
        namespace, _, name = key.partition("/")
        metadata |= {"namespace": namespace, "name": name}
        self.put({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": metadata})

    def put_lease(self, name: str, namespace: str = "kae-operator", **spec: object) -> None:
        """Create or change a Lease as another client would; None removes a field."""
        with self.state.condition:
            metadata = {"namespace": namespace, "name": name, "uid": f"uid-of-{name}"}
            fresh = {"apiVersion": _LEASES, "kind": "Lease", "metadata": metadata, "spec": {}}
            known = self.state.objects.get((_LEASES, "Lease", namespace, name), fresh)
            merged = known["spec"] | spec
            self.put(known | {"spec": {key: value for key, value in merged.items() if value is not None}})

    def lease(self, name: str, namespace: str = "kae-operator") -> dict[str, Any]:
        spec: dict[str, Any] = self.get(_LEASES, "Lease", name, namespace)["spec"]
        return spec

    def leases(self) -> list[str]:
        """Return the namespace/name of each Lease."""
        with self.state.condition:
            return [f"{key[2]}/{key[3]}" for key in self.state.objects if key[1] == "Lease"]

    def delete(self, api_version: str, kind: str, name: str, namespace: str = "") -> None:
        with self.state.condition:
            objects.happened(self.state, "DELETED", self.state.objects.pop((api_version, kind, namespace, name)))

    def get(self, api_version: str, kind: str, name: str, namespace: str = "") -> dict[str, Any]:
        with self.state.condition:
            return copy.deepcopy(self.state.objects[(api_version, kind, namespace, name)])

    def tick(self) -> None:
        """Let the version grow without a change of a node, as bookmarks report it."""
        with self.state.condition:
            self.state.version += 1
            self.state.events.append((self.state.version, "BOOKMARK", {"metadata": {}}))
            self.state.condition.notify_all()

    def forget(self, *, late: bool = False) -> None:
        """Compact: versions before now are no longer available; late: watches of them begin, and end with an error."""
        with self.state.condition:
            self.state.late_410 = late
            self.state.version += 1
            self.state.compacted = self.state.version
            self.state.condition.notify_all()

    def down(self) -> None:
        """Stop, and drop all connections."""
        self._released.set()
        with self.state.condition:
            self.state.condition.notify_all()
        self._server.shutdown()
        self.drop()
        self._server.server_close()

    def drop(self) -> None:
        """End all connections."""
        self._server.drop()

    def up(self) -> None:
        """Serve again at the same address, with the same objects."""
        self._server = self._serve(self.port)

    def _serve(self, port: int) -> _Server:
        self._released = threading.Event()
        server = _Server(
            port, type("BoundHandler", (self.handler or Handler,), {"api": self, "released": self._released})
        )
        if self.authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self.authority, self.authority.with_suffix(".key"))
            server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server


@contextlib.contextmanager
def serving(folder: Path, *, tls: bool = False) -> Iterator[ApiServer]:
    """Yield a server, and stop it at the end."""
    server = ApiServer(folder, tls=tls)
    try:
        yield server
    finally:
        server.down()


class Handler(http.server.BaseHTTPRequestHandler):
    """Carries out the requests of one connection."""

    api: Any
    """The ApiServer."""
    released: threading.Event
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _answer(self) -> None:
        target, state = parse.urlsplit(self.path), self.api.state
        length = int(self.headers.get("Content-Length") or 0)
        request = objects.Request(
            method=self.command,
            path=target.path,
            query=dict(parse.parse_qsl(target.query)),
            headers=self.headers,
            body=json.loads(self.rfile.read(length)) if length else {},
        )
        with state.condition:
            state.requests.append(f"{self.command} {self.path}")
            if state.when_asked is not None:
                state.when_asked(self.command)
            prepared = state.answers.get(target.path)
            if prepared:
                self._say(*prepared.pop(0))
                return
            status, body = objects.answered(state, request)
            text = state.garbled or (body if isinstance(body, str) else json.dumps(body))
            deaf = state.deaf
        if deaf:
            self.released.wait()
            self.close_connection = True
        elif status == 200 and request.query.get("watch") == "true":
            self._watch(request.query)
        else:
            self._say(status, text, {"Content-Type": "text/plain"} if state.garbled else {})

    do_GET = do_POST = do_PUT = do_DELETE = _answer  # noqa: N815 - http.server looks for these names

    def _say(self, status: int, text: str, headers: Mapping[str, str], *, cut: bool = False) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        content = text.encode()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            raise ConnectionError

    def _watch(self, query: Mapping[str, str]) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        state = self.api.state
        seen, lasts_s = int(query["resourceVersion"]), int(query["timeoutSeconds"]) * state.second_s
        deadline_s = time.monotonic() + lasts_s
        while not self.released.is_set() and time.monotonic() < deadline_s:
            with state.condition:
                if state.version == seen and not state.hung:
                    state.condition.wait(state.bookmark_s or 0.05)
                events = [event for event in state.events if event[0] > seen]
                is_gone, hung, newest = seen < state.compacted, state.hung, state.version
            if hung:
                self._hang()
                return
            if is_gone:
                self._tell({"type": "ERROR", "object": objects.refusal(410, "too old resource version")[1]})
                break
            for version, kind, item in events:
                self._tell({"type": kind, "object": item | {"metadata": objects.versioned(item, version)}})
            if state.bookmark_s and not events:
                self._send({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(newest)}}})
            seen = newest
        if not self.released.is_set():
            self.wfile.write(b"0\r\n\r\n")

    def _hang(self) -> None:
        """Wait until the client ends the connection."""
        self.close_connection = True
        select.select([self.connection], [], [])

    def _tell(self, event: Mapping[str, Any]) -> None:
        cut = self.api.state.cut_events > 0
        self._send(event, cut=cut)
        if cut:
            self.api.state.cut_events -= 1
            raise ConnectionError

    def _send(self, event: Mapping[str, Any], *, cut: bool = False) -> None:
        line = json.dumps(event).encode() + b"\n"
        if cut:
            line = line[: len(line) // 2]
        # Events arrive in parts over a slow network.
        for part in (line[:20], line[20:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing; tests read `requests`."""


def certificate(folder: Path) -> Path:
    """Make a self-signed certificate for the loopback address."""
    path = folder / "server.crt"
    openssl = tools.require("openssl", "openssl")
    make = f"{openssl} req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=kae-test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    files = ["-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run([*make.split(), *names, *files], check=True, capture_output=True, timeout=30)
    return path
