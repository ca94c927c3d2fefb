"""What happens to the nodes of a live cluster, as the API server tells it: metadata only."""

import contextlib
import http
import json
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from compiler.kube import client

NODES = "/api/v1/nodes"

WATCH_S = 120
"""For how long the server is asked to go on."""

MARGIN_S = 10
"""Who hears nothing for so much longer knows that nobody is there any more: the server ends a watch in time."""

_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


class Event(NamedTuple):
    """What happened to an object: ADDED, MODIFIED or DELETED; BOOKMARK says only that time has gone on."""

    type: str
    object: Mapping[str, Any]


class Watch:
    """What happens to Nodes, as an iterator of `Event`.

    It ends when the server ends the watch, which is usual, and when another thread closes it. It raises
    `connection.Gone` where the state that it shall go on from is forgotten, `connection.Unreachable` where the
    connection breaks, and `connection.Refused` otherwise. It can be iterated once.
    """

    def __init__(self, way: client.Connection, resource_version: str, timeout_s: int) -> None:
        self.resource_version = resource_version
        """The state up to which everything was handed out, and the next event was asked for."""
        self._connection = way
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._answer: Any = None

    def close(self) -> None:
        """Ends it, also while another thread waits for the next event; a second time it does nothing."""
        with self._lock:
            self._closed.set()
            if self._answer is not None:
                # It may have ended in this moment.
                with contextlib.suppress(OSError, ValueError, RuntimeError):
                    self._answer.shutdown()

    def __iter__(self) -> Iterator[Event]:
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self.resource_version,
            "timeoutSeconds": str(self._timeout_s),
        }
        question = client.Question(wish="watch nodes", path=NODES, query=query, accept=_METADATA)
        try:
            for line in self._lines(question):
                event = self._event(line)
                yield event
                metadata = event.object.get("metadata") or {}
                self.resource_version = metadata.get("resourceVersion") or self.resource_version
        except client.Unreachable:
            # To break the connection is how it is closed.
            if not self._closed.is_set():
                raise

    def _lines(self, question: client.Question) -> Iterator[bytes]:
        if self._closed.is_set():
            return
        with self._connection.opened(question, self._timeout_s + MARGIN_S) as answer:
            if answer.status >= http.HTTPStatus.BAD_REQUEST:
                raise self._connection.refusal(question.wish, answer.read(), answer.status)
            with self._lock:
                self._answer = answer
            try:
                yield from self._split(answer)
            finally:
                with self._lock:
                    self._answer = None

    def _split(self, answer: Any) -> Iterator[bytes]:
        rest = b""
        chunks = iter(answer.stream(None, decode_content=True))
        while not self._closed.is_set():
            part = next(chunks, None)
            if part is None:
                break
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if self._closed.is_set():
                    return
                yield line
        if rest and not self._closed.is_set():
            host = self._connection.host
            raise client.Unreachable(f"the API server at {host} broke off in the middle of an event.")

    def _event(self, line: bytes) -> Event:
        body = client.parsed(line) or {}
        kind, item = body.get("type"), body.get("object")
        if not isinstance(kind, str) or not isinstance(item, dict):
            raise client.Unreachable(f"what answers at {self._connection.host} does not tell events.")
        if kind == "ERROR":
            raise self._connection.refusal("go on to watch nodes", json.dumps(item).encode(), _status(item))
        return Event(kind, item)


def _status(item: Mapping[str, Any]) -> int:
    code = item.get("code")
    return code if isinstance(code, int) else http.HTTPStatus.INTERNAL_SERVER_ERROR
