"""Servers of repositories: git's CGI program behind a web server, and sshd.

A test sets by attributes how a server fails, also while it serves. All listen on loopback, if nobody says otherwise.
"""

import base64
import contextlib
import functools
import http.server
import os
import pwd
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib import parse

from tests import tools
from tests.watcher import remotes

_WAIT_S = 20


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _running(command: Sequence[str], environment: Mapping[str, str], port: int) -> Iterator[None]:
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        deadline_s = time.monotonic() + _WAIT_S
        while process.poll() is None and not _listens(port):
            assert time.monotonic() < deadline_s, f"{command[0]} does not listen"
            time.sleep(0.02)
        if process.poll() is not None:
            assert process.stderr is not None
            raise AssertionError(f"{command[0]} has ended: {process.stderr.read().decode()}")
        yield
    finally:
        # With the children that have its streams.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@dataclass(kw_only=True)
class Rules:
    """Whom a web server lets in, and how it fails."""

    authorizations: frozenset[str] = frozenset()
    """Values of the header that are let in; none: everybody is."""
    deaf: bool = False
    """It takes requests and never answers."""
    requests: list[str] = field(default_factory=list)
    """Method and path of each one."""
    headers: list[Mapping[str, str]] = field(default_factory=list)
    """The headers of each one."""
    redirect: tuple[int, str] | None = None
    """The status, and the server to which every request is sent on."""
    pages: Mapping[str, bytes] = field(default_factory=dict)
    """The only answers, by path, of a server without a program."""

    def demand_basic(self, user: str, password: str) -> None:
        word = base64.b64encode(f"{user}:{password}".encode()).decode()
        self.authorizations = frozenset({f"Basic {word}"})

    def demand_bearer(self, token: str) -> None:
        self.authorizations = frozenset({f"Bearer {token}"})


class Web:
    """A web server over a folder of repositories."""

    def __init__(self, root: Path, context: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> None:
        self.rules = Rules()
        self._released = threading.Event()
        rules, released = self.rules, self._released

        class Handler(_Handler):
            def serve(self) -> None:
                rules.requests.append(f"{self.command} {self.path}")
                rules.headers.append(dict(self.headers))
                if rules.redirect is not None:
                    self.say(rules.redirect[0], [("Location", f"{rules.redirect[1]}{self.path}")], b"")
                elif rules.pages:
                    page = rules.pages.get(self.path.partition("?")[0])
                    self.say(404 if page is None else 200, [("Content-Type", "text/plain")], page or b"")
                elif rules.deaf:
                    released.wait()
                    self.close_connection = True
                elif rules.authorizations and self.headers.get("Authorization") not in rules.authorizations:
                    self.say(401, [("WWW-Authenticate", 'Basic realm="git"')], b"who are you?")
                else:
                    self.say(*_backend(root, self))

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def get_request(self) -> tuple[socket.socket, object]:
                connection, address = super().get_request()
                if context is not None:
                    connection = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
                return connection, address

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that goes away, or whose certificate is refused, is no news."""

        self._server = Server((address, 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        self.url = f"http{'s' if context else ''}://{address}:{self._server.server_address[1]}"

    def close(self) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _WAIT_S

    def do_GET(self) -> None:
        self.body = b""
        self.serve()

    def do_POST(self) -> None:
        self.body = b"".join(self._chunks())
        self.serve()

    def serve(self) -> None:
        raise NotImplementedError

    def say(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are silent."""

    def _chunks(self) -> Iterator[bytes]:
        if self.headers.get("Transfer-Encoding") != "chunked":
            yield self.rfile.read(int(self.headers.get("Content-Length", 0)))
            return
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()


def _backend(root: Path, request: _Handler) -> tuple[int, list[tuple[str, str]], bytes]:
    split = parse.urlsplit(request.path)
    environment = {
        **remotes.ENVIRONMENT,
        "GIT_PROJECT_ROOT": str(root),
        "GIT_HTTP_EXPORT_ALL": "1",
        "REQUEST_METHOD": request.command,
        "PATH_INFO": parse.unquote(split.path),
        "QUERY_STRING": split.query,
        "CONTENT_TYPE": request.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(request.body)),
        "HTTP_CONTENT_ENCODING": request.headers.get("Content-Encoding", ""),
        "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
    }
    said = subprocess.run(
        ["git", "http-backend"],
        input=request.body,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        timeout=60,
        check=False,
    ).stdout
    head, _, body = said.partition(b"\r\n\r\n")
    headers = [tuple(line.split(": ", 1)) for line in head.decode().split("\r\n")]
    status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
    return status, [(name, value) for name, value in headers if name != "Status"], body


@contextlib.contextmanager
def web(root: Path, context: ssl.SSLContext | None = None, address: str = "127.0.0.1") -> Iterator[Web]:
    server = Web(root, context, address)
    try:
        yield server
    finally:
        server.close()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Tests are silent."""


@contextlib.contextmanager
def files(folder: Path, address: str = "127.0.0.1") -> Iterator[str]:
    """Serves the files of a folder until the context ends; gives the URL."""
    with http.server.ThreadingHTTPServer((address, 0), functools.partial(_Quiet, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://{address}:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@dataclass(frozen=True, kw_only=True)
class Authority:
    """A certificate authority with a server's and a client's certificate."""

    folder: Path

    def context(self, *, clients: bool) -> ssl.SSLContext:
        """For a server; with clients it wants their certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.folder / "server.crt", self.folder / "server.key")
        if clients:
            context.load_verify_locations(self.folder / "ca.crt")
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    def read(self, name: str) -> bytes:
        return (self.folder / name).read_bytes()


def authority(folder: Path, address: str = "127.0.0.1") -> Authority:
    """Makes one in a folder of its own; its server's certificate is for this address."""
    folder.mkdir()
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    openssl = ("openssl", "req", "-x509", *key)
    usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
    commands = [[*openssl, "-subj", "/CN=authority", *usage, "-keyout", "ca.key", "-out", "ca.crt"]]
    signed = ("-CA", "ca.crt", "-CAkey", "ca.key", "-addext", "basicConstraints=critical,CA:FALSE")
    for name in ("server", "client"):
        names = ("-addext", f"subjectAltName=IP:{address}")
        commands.append(
            [*openssl, "-subj", f"/CN={name}", *signed, *names, "-keyout", f"{name}.key", "-out", f"{name}.crt"]
        )
    for command in commands:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return Authority(folder=folder)


@dataclass(frozen=True, kw_only=True)
class Sshd:
    """A server for one user, ourselves, by one key."""

    port: int
    key: str
    """The private key that is let in."""
    known_hosts: str
    user: str

    def url(self, path: Path) -> str:
        return f"ssh://{self.user}@127.0.0.1:{self.port}{path}"


@contextlib.contextmanager
def sshd(folder: Path) -> Iterator[Sshd]:
    """OpenSSH's own server, as ourselves, with keys of its own."""
    program = tools.require("sshd", "openssh-server")
    folder.mkdir()
    user = pwd.getpwuid(os.getuid()).pw_name
    if os.getuid() == 0:
        # sshd refuses to start as root without it; its service would have made it.
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    host_key, key = ssh_key(folder / "host"), ssh_key(folder / "key")
    port = free_port()
    configuration = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": str(folder / "host"),
        "AuthorizedKeysFile": str(folder / "key.pub"),
        "PidFile": "none",
        "UsePAM": "no",
        "StrictModes": "no",
        "PasswordAuthentication": "no",
        "PermitRootLogin": "prohibit-password",
        "PrintMotd": "no",
        "AcceptEnv": "GIT_PROTOCOL",
    }
    file = folder / "sshd_config"
    file.write_text("".join(f"{name} {value}\n" for name, value in configuration.items()))
    with _running([program, "-D", "-e", "-f", str(file)], remotes.ENVIRONMENT, port):
        public = host_key.with_suffix(".pub").read_text()
        yield Sshd(port=port, key=key.read_text(), known_hosts=f"[127.0.0.1]:{port} {public}", user=user)


def ssh_key(path: Path) -> Path:
    """A new key, and its public half beside it."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "kae", "-f", str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return path
