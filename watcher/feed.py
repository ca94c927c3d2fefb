"""Where nodes come from: a full list every interval, and between two of them whatever the API server tells."""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from compiler import connection, documents, errors, inventory, live, watch

LOG = logging.getLogger(__name__)

_LEAST_S = 1.0
"""From one full list to the next; an interval of nothing would be one list after the other."""

_AGAIN_S = (1.0, 60.0)
"""The first pause after a failure, and the longest; each is twice the one before."""

_FORGOTTEN_S = 60.0
"""A state that is forgotten sooner than this after the one before is a failure: lists would follow on lists."""


class Sink(Protocol):
    """Who hears of nodes, in the feed's thread."""

    def listed(self, nodes: Sequence[documents.Node]) -> None:
        """These are all."""

    def seen(self, node: documents.Node) -> None:
        """A node is new, or is not what it was."""

    def missed(self, name: str) -> None:
        """A node is gone."""

    def failed(self, reason: str) -> None:
        """The API server does not answer, or says no; it is asked again."""


class Feed:
    """Follows the nodes of a cluster. What was not read to its end is never handed on."""

    def __init__(
        self,
        cluster: live.Cluster,
        ignored: Sequence[str],
        interval_s: float,
        sink: Sink,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Asks nobody yet."""
        self._cluster = cluster
        self._reducer = inventory.Reducer(ignored)
        self._interval_s = max(_LEAST_S, interval_s)
        self._sink = sink
        self._clock = clock
        self._marks: dict[str, int] = {}
        """What each node's metadata was like, for telling a heartbeat from a change."""
        self._stop = threading.Event()
        self._watch: watch.Watch | None = None

    def run(self) -> None:
        """Lists and watches until it is closed."""
        pause_s = _AGAIN_S[0]
        forgotten_s = -_FORGOTTEN_S
        while not self._stop.is_set():
            try:
                self._follow(self.list())
                pause_s = _AGAIN_S[0]
                continue
            except connection.Gone as error:
                before_s, forgotten_s = forgotten_s, self._clock()
                if forgotten_s - before_s >= _FORGOTTEN_S:
                    LOG.info("The state that was gone on from is forgotten; the nodes are listed anew.")
                    continue
                reason = str(error)
            except errors.WorldError as error:
                reason = str(error)
            self._sink.failed(reason)
            self._stop.wait(pause_s)
            pause_s = min(2 * pause_s, _AGAIN_S[1])

    def close(self) -> None:
        """Ends `run`, also in the middle of a watch."""
        self._stop.set()
        if self._watch is not None:
            self._watch.close()

    def list(self) -> str:
        """Hands all nodes on, and answers with the state that they are of.

        Raises:
            errors.WorldError: They could not all be had.
        """
        nodes, marks, version = [], {}, ""
        for page in self._cluster.pages():
            version = page.resource_version
            for item in page.items:
                nodes.append(self._reducer.node(item))
                marks[item["metadata"]["name"]] = _mark(item)
        self._marks = marks
        self._sink.listed(nodes)
        return version

    def _follow(self, version: str) -> None:
        """Hands changes on, until it is time for the next list."""
        end_s = self._clock() + self._interval_s
        while not self._stop.is_set() and (left_s := end_s - self._clock()) > 0:
            self._watch = self._cluster.watch(version, max(1, min(int(left_s), watch.WATCH_S)))
            if self._stop.is_set():
                return  # `close` came in between, and ended only the watch before.
            for event in self._watch:
                self._heard(event)
            version = self._watch.resource_version

    def _heard(self, event: watch.Event) -> None:
        name = event.object["metadata"]["name"] if event.type != "BOOKMARK" else ""
        if event.type == "DELETED":
            self._marks.pop(name, None)
            self._sink.missed(name)
        elif name and self._marks.get(name) != _mark(event.object):
            item = self._cluster.node(name)
            if item is not None:  # Else its end is told next.
                self._marks[name] = _mark(item)
                self._sink.seen(self._reducer.node(item))


def _mark(item: Mapping[str, Any]) -> int:
    """Differs where labels, or what NFD notes of them, differ: heartbeats change neither."""
    metadata = item["metadata"]
    annotations = metadata.get("annotations") or {}
    noted = annotations.get(inventory.NFD_ANNOTATION)
    return hash((frozenset((metadata.get("labels") or {}).items()), noted))
