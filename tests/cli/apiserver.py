"""A stand-in API server that is read from: real HTTP, and what the real one answers to gets, lists and watches.

What there is, what it refuses and how it fails, a test says by its state, also while it serves.
"""

import contextlib
import copy
import http.server
import json
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib import parse

from tests.cli import apistate


class ApiServer:
    """A server on an address of the machine itself; after `down` nobody answers there until `up`."""

    def __init__(self, folder: Path, *, tls: bool = False) -> None:
        """Serves at once."""
        self.state = apistate.State()
        self.kubeconfig = folder / "kubeconfig"
        self.authority: Path | None = _certificate(folder) if tls else None
        self._server = self._serve(0)
        self.port: int = self._server.server_address[1]
        self.write_kubeconfig()

    @property
    def address(self) -> str:
        """Its URL."""
        return f"{'https' if self.authority else 'http'}://127.0.0.1:{self.port}"

    def write_kubeconfig(self, **user: str) -> None:
        """Names this server to clients, with fields of the user such as tokenFile."""
        cluster = {"server": self.address}
        if self.authority is not None:
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

    def put(self, *objects: Mapping[str, Any]) -> None:
        """Makes objects, or changes them to this."""
        with self.state.condition:
            for item in objects:
                made = copy.deepcopy(dict(item))
                known = self.state.objects.get(apistate.key_of(made))
                self.state.objects[apistate.key_of(made)] = made
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
            state.events.append((state.version, kind, copy.deepcopy(apistate.metadata_of(item))))
        state.condition.notify_all()

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


class _Handler(http.server.BaseHTTPRequestHandler):
    state: apistate.State
    released: threading.Event
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        target = parse.urlsplit(self.path)
        query = dict(parse.parse_qsl(target.query))
        with self.state.condition:
            self.state.requests.append(f"GET {parse.unquote(self.path)}")
        if self.state.when_asked is not None:
            self.state.when_asked(target.path)
        if self.state.deaf:
            self.released.wait()
            self.close_connection = True
            return
        with self.state.condition:
            prepared = self.state.answers.get(target.path)
            if prepared:
                status, text, headers = prepared.pop(0)
                self._say(status, text, headers)
                return
            status, body = apistate.answered(self.state, target.path, query, self.headers)
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
        while not self.released.is_set() and time.monotonic() < deadline_s:
            with self.state.condition:
                found = [event for event in self.state.events if event[0] > seen]
                if not found:
                    self.state.condition.wait(0.05)
            for version, kind, item in found:
                seen = version
                self._tell({"type": kind, "object": item | {"metadata": apistate.versioned(item, version)}})
        if not self.released.is_set():
            self.wfile.write(b"0\r\n\r\n")

    def _tell(self, event: Mapping[str, Any]) -> None:
        line = json.dumps(event).encode() + b"\n"
        if self.state.cut:
            line = line[: len(line) // 2]
        # Parts of events, as they arrive from afar.
        for part in (line[:20], line[20:]):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.flush()
        if self.state.cut:
            raise ConnectionError

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the test reads `requests`."""


def _handler(state: apistate.State, released: threading.Event) -> type[http.server.BaseHTTPRequestHandler]:
    return type("Handler", (_Handler,), {"state": state, "released": released})


def _certificate(folder: Path) -> Path:
    """A certificate that is its own authority, for the address of the machine itself."""
    path = folder / "server.crt"
    make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=kae-test"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-addext", "keyUsage=critical,keyCertSign,digitalSignature"]
    files = ["-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run([*make.split(), *names, *files], check=True, capture_output=True, timeout=30)
    return path
