"""Watch the nodes of a live cluster: events with the nodes' metadata only."""

import http
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from compiler.kube import client

NODES = "/api/v1/nodes"

WATCH_S = 120
"""The duration of a watch, which the server is asked to keep."""

MARGIN_S = 10
"""The server ends a watch in time; one that is silent for so much longer has lost its server."""

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Event(NamedTuple):
    """An ADDED, MODIFIED or DELETED object; a BOOKMARK has a newer resourceVersion and nothing else."""

    type: str
    object: Mapping[str, Any]


class Watch:
    """An iterator of the events after a resourceVersion; it can be iterated once.

    It ends when the server ends the watch, which is usual. It raises `client.Gone` where the server no longer has the
    resourceVersion, `client.Unreachable` where the connection breaks, and `client.Refused` otherwise.
    """

    def __init__(self, connection: client.Connection, resource_version: str, timeout_s: int) -> None:
        self.resource_version = resource_version
        """The version of the last event that the caller has finished with; the next watch starts from it."""
        self._connection = connection
        self._timeout_s = timeout_s

    def __iter__(self) -> Iterator[Event]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(self._timeout_s),
        }
        request = client.Request(action="watch nodes", path=NODES, query=query, accept=_METADATA)
        for line in self._lines(request):
            event = self._event(line)
            yield event
            metadata = event.object.get("metadata") or {}
            self.resource_version = metadata.get("resourceVersion") or self.resource_version

    def _lines(self, request: client.Request) -> Iterator[bytes]:
        with self._connection.opened(request, self._timeout_s + MARGIN_S) as response:
            if response.status >= http.HTTPStatus.BAD_REQUEST:
                refusal = client.Answer.of(response.status, response.read())
                raise self._connection.refusal(request.action, refusal)
            rest = b""
            for part in response.stream(None, decode_content=True):
                *lines, rest = (rest + part).split(b"\n")
                yield from lines
        if rest:
            host = self._connection.host
            raise client.Unreachable(f"the API server at {host} ended the connection in the middle of an event.")

    def _event(self, line: bytes) -> Event:
        body = client.parsed(line)
        kind, node = body.get("type"), body.get("object")
        if not isinstance(kind, str) or not isinstance(node, dict):
            raise client.Unreachable(f"the server at {self._connection.host} does not send watch events.")
        if kind == "ERROR":
            refusal = client.Answer.of(_status(node), json.dumps(node).encode())
            raise self._connection.refusal("continue to watch nodes", refusal)
        metadata = node.get("metadata")
        if not isinstance(metadata, dict) or not isinstance("" if kind == "BOOKMARK" else metadata.get("name"), str):
            raise client.Unreachable(f"the server at {self._connection.host} does not send watch events.")
        return Event(kind, node)


def _status(status: Mapping[str, Any]) -> int:
    code = status.get("code")
    return code if isinstance(code, int) else http.HTTPStatus.INTERNAL_SERVER_ERROR
