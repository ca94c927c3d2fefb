"""Follow the nodes of a cluster: a watch all the time, and beside it a full list every interval.

The watch alone is complete for labels: each event with other labels is followed by a GET, which is never older than
the event. A list shows changes that the watch's metadata lacks, such as taints. The watch continues while a list is
read, and a node that it reports meanwhile is newer than the list's entry. The labels of all other nodes have not
changed since before the list was requested, or the watch will still report them.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from compiler import errors
from compiler.inventory import reduction, snapshot
from compiler.kube import client, node_watch, reader

LOG = logging.getLogger(__name__)

_AGAIN_S = (1.0, 30.0)
"""The first and the longest pause after a failure; each is twice the one before. The longest is client-go's: an API
server may be back long before a longer pause ends."""

_FORGOTTEN_S = 60.0
"""A version that the server drops sooner than this after the last one is a failure, else lists follow on lists."""

_STEADY_S = 60.0
"""After a watch of this length the next failure starts with the first pause."""


class Sink(Protocol):
    """The receiver of nodes; it is called by one thread at a time."""

    def listed(self, nodes: Sequence[snapshot.Node], newer: Collection[str] = ()) -> None:
        """Take all nodes; for the newer names earlier calls hold, deletions included."""

    def seen(self, node: snapshot.Node) -> None:
        """Take a new or changed node."""

    def missed(self, name: str) -> None:
        """Take the name of a deleted node."""

    def failed(self, reason: str) -> None:
        """Take the reason of a failed request, which is repeated."""


class _Listing:
    """A list that is read while the watch continues."""

    def __init__(self) -> None:
        self.newer: set[str] = set()
        """The names that the watch reported since before the list was requested."""
        self.handed_on = False
        self.ended = False
        """True after success and after a failure."""
        self.dropped = False
        """True when the list is no longer needed."""
        self.failure: errors.WorldError | None = None


class NodeFeed:
    """Follow the nodes of a cluster; it never hands an incomplete list on."""

    def __init__(
        self,
        cluster: reader.Cluster,
        ignored: Sequence[str],
        interval_s: float,
        sink: Sink,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Store the settings; `run` or `list` sends the first request."""
        self._cluster = cluster
        self._reducer = reduction.Reducer(ignored)
        self._interval_s = interval_s
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        """Guards all that follows, the reducer and the sink, as a list is read beside the watch."""
        self._marks: dict[str, int] = {}
        """A hash of each node's metadata, which tells a change from a heartbeat."""
        self._stopped = threading.Event()
        self._watch: node_watch.Watch | None = None
        self._listing: _Listing | None = None

    def run(self) -> None:
        """List and watch until `close`."""
        pause_s = _AGAIN_S[0]
        forgotten_s = -_FORGOTTEN_S
        while not self._stopped.is_set():
            since_s = math.inf
            try:
                version = self.list()
                since_s = self._clock()
                self._follow(version)
                return
            except client.Gone as error:
                before_s, forgotten_s = forgotten_s, self._clock()
                if forgotten_s - before_s >= _FORGOTTEN_S:
                    LOG.info("The API server no longer has the watched version; the nodes are listed again.")
                    continue
                reason = str(error)
            except errors.WorldError as error:
                reason = str(error)
            if self._clock() - since_s >= _STEADY_S:
                pause_s = _AGAIN_S[0]
            self._sink.failed(reason)
            self._stopped.wait(pause_s)
            pause_s = min(2 * pause_s, _AGAIN_S[1])

    def close(self) -> None:
        """End `run`, even in the middle of a watch."""
        with self._lock:
            self._stopped.set()
            self._end_watch()

    def list(self) -> str:
        """Hand all nodes on, and return their resourceVersion.

        Raises:
            errors.WorldError: The list is incomplete.
        """
        return self._read(_Listing())

    def _follow(self, version: str) -> None:
        """Hand changes on until `close`, and all nodes every interval.

        Raises:
            errors.WorldError: The watch or a list beside it failed.
        """
        next_s = self._clock() + self._interval_s
        try:
            while (current := self._watched(version, next_s)) is not None:
                for event in current:
                    self._heard(event)
                version = current.resource_version
                if self._clock() >= next_s:
                    self._list_beside()
                    next_s = self._clock() + self._interval_s
        finally:
            with self._lock:
                if self._listing is not None:
                    self._listing.dropped = True
                self._listing = self._watch = None

    def _watched(self, version: str, until_s: float) -> node_watch.Watch | None:
        """Return the next watch, which ends when a list is due; None after `close`."""
        with self._lock:
            if self._listing is not None and self._listing.ended and not self._listing.handed_on:
                raise self._listing.failure or AssertionError("The list ended by an error that the log names.")
            if self._stopped.is_set():
                return None
            left_s = until_s - self._clock()
            self._watch = self._cluster.watch(version, max(1, min(int(left_s), node_watch.WATCH_S)))
            return self._watch

    def _list_beside(self) -> None:
        """Start a list, unless the last one is not handed on yet; `_watched` raises the failure of that one."""
        with self._lock:
            if self._listing is not None and not self._listing.handed_on:
                return
            self._listing = _Listing()
            threading.Thread(target=self._read_beside, args=(self._listing,), name="list", daemon=True).start()

    def _read_beside(self, listing: _Listing) -> None:
        try:
            self._read(listing)
        except errors.WorldError as error:
            listing.failure = error
        finally:
            with self._lock:
                listing.ended = True
                if not listing.handed_on and not listing.dropped:
                    self._end_watch()

    def _read(self, listing: _Listing) -> str:
        """Read a list to its end, hand its nodes on, and return its resourceVersion."""
        nodes, marks, version = [], {}, ""
        for page in self._cluster.pages():
            version = page.resource_version
            with self._lock:
                if listing.dropped:
                    return version
                for raw in page.items:
                    nodes.append(self._reducer.node(raw))
                    marks[raw["metadata"]["name"]] = _mark(raw)
        with self._lock:
            if not listing.dropped:
                listing.handed_on = True
                known = {name: self._marks[name] for name in listing.newer if name in self._marks}
                listed = {name: mark for name, mark in marks.items() if name not in listing.newer}
                self._marks = listed | known
                self._sink.listed(nodes, listing.newer)
        return version

    def _heard(self, event: node_watch.Event) -> None:
        name = event.object["metadata"]["name"] if event.type != "BOOKMARK" else ""
        if event.type == "DELETED":
            with self._lock:
                self._note(name, None)
                self._sink.missed(name)
        elif name and self._marks.get(name) != _mark(event.object):
            raw = self._cluster.node(name)
            if raw is not None:  # Else the watch reports its deletion next.
                with self._lock:
                    self._note(name, _mark(raw))
                    self._sink.seen(self._reducer.node(raw))

    def _note(self, name: str, mark: int | None) -> None:
        """Store a node's mark, or its deletion as None; the caller holds the lock."""
        if mark is None:
            self._marks.pop(name, None)
        else:
            self._marks[name] = mark
        if self._listing is not None and not self._listing.handed_on:
            self._listing.newer.add(name)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()


def _mark(raw: Mapping[str, Any]) -> int:
    """Return a hash of the labels and NFD's annotation, neither of which a heartbeat changes."""
    metadata = raw["metadata"]
    annotations = metadata.get("annotations") or {}
    noted = annotations.get(reduction.NFD_ANNOTATION)
    return hash((frozenset((metadata.get("labels") or {}).items()), noted))
