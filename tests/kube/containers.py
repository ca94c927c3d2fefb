"""The stand-in API server with containers: they have logs, and answer commands over a websocket as `exec` does."""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib import parse

from tests.kube import apiserver, objects

_PATH = re.compile(r"/api/v1/namespaces/[^/]+/pods/(?P<pod>[^/]+)/(?P<what>log|exec)")
_ACCEPT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, 1.3


@dataclass(kw_only=True)
class Containers:
    """What the containers of a server say; a test may change it while the server runs."""

    logs: dict[tuple[str, str, bool], str] = field(default_factory=dict)
    """By pod, container, and whether it is the previous one; a container without one is still waiting to start."""
    answers: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    """The output and the exit code of any command, by pod and container."""
    forbidden: set[str] = field(default_factory=set)
    """log, exec, version."""
    deaf: set[str] = field(default_factory=set)
    """Pods whose node never answers."""
    unreached: set[str] = field(default_factory=set)
    """Pods whose node the API server cannot reach, which it says after half a minute
    (LocationStreamer of staging/src/k8s.io/apiserver)."""
    commands: list[tuple[str, ...]] = field(default_factory=list)
    """Every command, with its pod in front."""


class Handler(apiserver.Handler):
    """Also answers for containers."""

    def do_GET(self) -> None:  # noqa: N802 - http.server looks for this name
        url = parse.urlsplit(self.path)
        match = _PATH.fullmatch(url.path)
        containers: Containers = self.api.containers
        if url.path == "/version":
            self._version(containers)
            return
        if match is None:
            self._answer()
            return
        self.api.state.requests.append(f"GET {self.path}")
        query = parse.parse_qs(url.query)
        if match["pod"] in containers.deaf:
            self.released.wait()
            self.close_connection = True
        elif match["pod"] in containers.unreached:
            said = 'Get "https://192.0.2.1:10250/": dial tcp 192.0.2.1:10250: i/o timeout'
            self._say(500, json.dumps(objects.refusal(500, said)[1]), {})
        elif match["what"] in containers.forbidden:
            # Without the verb and the resource, as the API server's second look at an exec (ensureAuthorizedForVerb of
            # pkg/registry/core/pod/rest/subresources.go) leaves them out where RBAC has no reason.
            self._say(403, json.dumps(objects.refusal(403, f'pods "{match["pod"]}" is forbidden: ')[1]), {})
        elif match["what"] == "log":
            self._log(containers, match["pod"], query)
        else:
            self._exec(containers, match["pod"], query)

    def _version(self, containers: Containers) -> None:
        if "version" in containers.forbidden:
            self._say(403, json.dumps(objects.refusal(403, "forbidden path")[1]), {})
        else:
            self._say(200, json.dumps({"gitVersion": "v1.31.0"}), {})

    def _log(self, containers: Containers, pod: str, query: dict[str, list[str]]) -> None:
        found = containers.logs.get((pod, query["container"][0], "previous" in query))
        if found is None:
            said = f'container "{query["container"][0]}" in pod "{pod}" is waiting to start: ImagePullBackOff'
            self._say(400, json.dumps(objects.refusal(400, said)[1]), {})
        else:
            self._say(200, found, {"Content-Type": "text/plain"})

    def _exec(self, containers: Containers, pod: str, query: dict[str, list[str]]) -> None:
        containers.commands.append((pod, *query["command"]))
        output, code = containers.answers[pod, query["container"][0]]
        key = hashlib.sha1(f"{self.headers['Sec-WebSocket-Key']}{_ACCEPT}".encode()).digest()  # noqa: S324 - RFC 6455
        self.send_response(101)
        for name, value in {
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Accept": base64.b64encode(key).decode(),
            "Sec-WebSocket-Protocol": "v4.channel.k8s.io",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        causes = {"reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]}}
        status: dict[str, Any] = {"status": "Failure", **causes} if code else {"status": "Success"}
        for channel, content in ((1, output.encode()), (3, json.dumps(status).encode())):
            for start in range(0, len(content), 60_000):
                self._frame(0x82, bytes([channel]) + content[start : start + 60_000])
        self._frame(0x88, b"\x03\xe8")  # the normal closure, 1000
        self.close_connection = True

    def _frame(self, kind: int, content: bytes) -> None:
        size = bytes([len(content)]) if len(content) < 126 else b"\x7e" + len(content).to_bytes(2)
        self.wfile.write(bytes([kind]) + size + content)
        self.wfile.flush()


class ApiServer(apiserver.ApiServer):
    """A server with containers."""

    handler = Handler

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.containers = Containers()
        super().__init__(*arguments, **options)
