"""Read the logs of pods, and run commands in their containers as `kubectl exec` does."""

import http
import importlib
import json
import threading
import time
from collections.abc import Sequence
from typing import Any
from urllib import parse

import msgspec

from compiler.kube import client, credentials

_POD = "/api/v1/namespaces/{namespace}/pods/{name}"
_LINES = 20_000
"""The lines of a log that are asked for: the API bounds bytes from the beginning, and the end is what matters."""

_POLL_S = 0.5
_STDOUT, _STDERR, _ERROR = 1, 2, 3
"""Channels of v4.channel.k8s.io (staging/src/k8s.io/apimachinery/pkg/util/remotecommand of Kubernetes)."""


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A container of a pod."""

    namespace: str
    pod: str
    name: str


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The most that an answer may have: bytes, and seconds for the whole of it."""

    size: int
    time_s: float


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """The output of a container or of a command."""

    text: str
    is_cut: bool = False
    """True when it was longer than its bounds: of a log the end is here, of a command the beginning."""
    code: int = 0
    """The exit code of a command."""


class Pods:
    """The pods of a cluster. Its methods raise as those of `reader.Cluster` do."""

    def __init__(self, connection: client.Connection) -> None:
        """Store the connection."""
        self._connection = connection

    def log(self, container: Container, bounds: Bounds, *, previous: bool = False) -> Output:
        """Return the end of a container's log, or of that of the container before its last restart."""
        query = {"container": container.name, "tailLines": str(_LINES), "timestamps": "true"}
        request = client.Request(
            action=f"read the {'previous ' if previous else ''}log of {container.pod}/{container.name}",
            path=f"{_POD}/log",
            names={"namespace": container.namespace, "name": container.pod},
            query=query | ({"previous": "true"} if previous else {}),
            accept="*/*",  # text/plain; an error is JSON.
        )
        end_s = time.monotonic() + bounds.time_s
        content, is_cut = b"", False
        with self._connection.opened(request, bounds.time_s) as response:
            # Unlike `stream`, `read1` does not wait for all of a part.
            while part := response.read1(1 << 16, decode_content=True):
                content += part
                if len(content) > bounds.size:
                    content, is_cut = content[-bounds.size :], True
                if time.monotonic() > end_s:
                    raise self._too_slow(request.action, bounds)
        if response.status >= http.HTTPStatus.BAD_REQUEST:
            raise self._connection.refusal(request.action, client.Answer.of(response.status, content))
        # Half a line may hold half a secret, which nothing would recognise.
        return Output(text=(content.partition(b"\n")[2] if is_cut else content).decode(errors="replace"), is_cut=is_cut)

    def run(self, container: Container, command: Sequence[str], bounds: Bounds) -> Output:
        """Return what a command in a container prints to both of its outputs, and its exit code."""
        action = f"run '{' '.join(command)}' in {container.pod}/{container.name}"
        ended: list[Output | Exception] = []
        # Nothing bounds the handshake of a websocket but its end; a thread that waits for ever ends with the program.
        thread = threading.Thread(target=lambda: ended.append(self._ended(container, command, bounds)), daemon=True)
        thread.start()
        thread.join(bounds.time_s + 1)
        if not ended:
            raise self._too_slow(action, bounds)
        if isinstance(ended[0], Output):
            return ended[0]
        raise self._failure(action, ended[0]) from ended[0]

    def _ended(self, container: Container, command: Sequence[str], bounds: Bounds) -> Output | Exception:
        """Return the result of a command, or what kept it from one, for the thread that waits for it."""
        try:
            return self._run(container, command, bounds)
        except Exception as error:
            return error

    def _run(self, container: Container, command: Sequence[str], bounds: Bounds) -> Output:
        library = credentials.library("stream.ws_client")
        words = [("container", container.name), ("stdout", "true"), ("stderr", "true")]
        query = parse.urlencode([*words, *(("command", word) for word in command)])
        request = client.Request(
            action="", path=f"{_POD}/exec?{query}", names={"namespace": container.namespace, "name": container.pod}
        )
        settings, url, headers = self._connection.signed(request)
        shell = library.WSClient(settings, library.get_websocket_url(url), headers, capture_all=False, binary=True)
        try:
            return self._read(shell, bounds)
        finally:
            shell.close()
            shell.sock.shutdown()  # Where the server closed first, `close` leaves the socket open.

    def _read(self, shell: Any, bounds: Bounds) -> Output:
        end_s = time.monotonic() + bounds.time_s
        content = status = b""
        while time.monotonic() < end_s:
            is_open = shell.is_open()
            shell.update(timeout=_POLL_S)
            content += shell.read_channel(_STDOUT) + shell.read_channel(_STDERR)
            status += shell.read_channel(_ERROR)
            if len(content) > bounds.size:
                # The last line may end in the middle of a secret.
                whole = content[: bounds.size].rpartition(b"\n")[0]
                return Output(text=whole.decode(errors="replace"), is_cut=True)
            if not is_open:
                return Output(text=content.decode(errors="replace"), code=_exit_code(status))
        raise TimeoutError

    def _too_slow(self, action: str, bounds: Bounds) -> client.Unreachable:
        return client.Unreachable(
            f"the API server at {self._connection.host} did not {action} within {bounds.time_s:g} seconds."
        )

    def _failure(self, action: str, error: Exception) -> Exception:
        """Return the exception of this package for one of the websocket's; any other is a bug."""
        websocket = importlib.import_module("websocket")
        if isinstance(error, websocket.WebSocketBadStatusException):
            answer = client.Answer.of(error.status_code, error.resp_body or b"")
            return self._connection.refusal(action, answer)
        if isinstance(error, (OSError, websocket.WebSocketException)):
            reason = " ".join(str(error).split()) or type(error).__name__
            return client.Unreachable(f"the API server at {self._connection.host} did not {action}: {reason}.")
        return error


def _exit_code(status: bytes) -> int:
    """Return the exit code in the Status that ends a command (`NonZeroExitCodeReason` of remotecommand); else -1."""
    try:
        found = json.loads(status)
        if found["status"] == "Success":
            return 0
        return int(next(cause["message"] for cause in found["details"]["causes"] if cause["reason"] == "ExitCode"))
    except (ValueError, KeyError, TypeError, StopIteration):
        return -1
