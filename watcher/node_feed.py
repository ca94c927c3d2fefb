"""Where nodes come from: what the API server tells of them, all the time, and beside that a full list every interval.

The watch alone is complete for labels: each event that tells of others is followed by a GET, which is never older than
its event. A list shows what changes without an event of ours, such as taints. While a list is read the watch goes on,
and what it tells meanwhile of a node stands against the list's entry, which may be of before. Of any other node the
labels have not changed since a moment before the list was asked for, or will be told yet.
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
"""The first pause after a failure, and the longest; each is twice the one before. The longest is client-go's: an API
server that is back must not be left alone for as long as it was away."""

_FORGOTTEN_S = 60.0
"""A state that is forgotten sooner than this after the one before is a failure: lists would follow on lists."""

_STEADY_S = 60.0
"""Who has followed the nodes for so long begins with the first pause again."""


class Sink(Protocol):
    """Who hears of nodes, one call at a time."""

    def listed(self, nodes: Sequence[snapshot.Node], newer: Collection[str] = ()) -> None:
        """These are all; but what was said before of nodes with the newer names holds, also that they are gone."""

    def seen(self, node: snapshot.Node) -> None:
        """A node is new, or is not what it was."""

    def missed(self, name: str) -> None:
        """A node is gone."""

    def failed(self, reason: str) -> None:
        """The API server does not answer, or says no; it is asked again."""


class _Listing:
    """A list that is read while the watch goes on."""

    def __init__(self) -> None:
        self.newer: set[str] = set()
        """Of whom the watch has told something since before it was asked for."""
        self.handed_on = False
        self.ended = False
        """Well or not."""
        self.dropped = False
        """Nobody wants it any more."""
        self.failure: errors.WorldError | None = None


class Feed:
    """Follows the nodes of a cluster. What was not read to its end is never handed on."""

    def __init__(
        self,
        cluster: reader.Cluster,
        ignored: Sequence[str],
        interval_s: float,
        sink: Sink,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Asks nobody yet."""
        self._cluster = cluster
        self._reducer = reduction.Reducer(ignored)
        self._interval_s = interval_s
        self._sink = sink
        self._clock = clock
        self._lock = threading.Lock()
        """Of all that follows, and of the reducer and the sink: a list is read beside the watch."""
        self._marks: dict[str, int] = {}
        """What each node's metadata was like, for telling a heartbeat from a change."""
        self._stopped = threading.Event()
        self._watch: node_watch.Watch | None = None
        self._listing: _Listing | None = None

    def run(self) -> None:
        """Lists and watches until it is closed."""
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
                    LOG.info("The state that was gone on from is forgotten; the nodes are listed anew.")
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
        """Ends `run`, also in the middle of a watch."""
        with self._lock:
            self._stopped.set()
            self._end_watch()

    def list(self) -> str:
        """Hands all nodes on, and answers with the state that they are of.

        Raises:
            errors.WorldError: They could not all be had.
        """
        return self._read(_Listing())

    def _follow(self, version: str) -> None:
        """Hands changes on until it is closed, and all nodes every interval.

        Raises:
            errors.WorldError: The watch has failed, or a list beside it.
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
        """The next watch, which ends by itself when a list is due; None where it was closed meanwhile."""
        with self._lock:
            if self._listing is not None and self._listing.ended and not self._listing.handed_on:
                raise self._listing.failure or AssertionError("The list ended by an error that the log names.")
            if self._stopped.is_set():
                return None
            left_s = until_s - self._clock()
            self._watch = self._cluster.watch(version, max(1, min(int(left_s), node_watch.WATCH_S)))
            return self._watch

    def _list_beside(self) -> None:
        """Begins to list, unless the list before is not handed on yet, or has failed, as the next watch will tell."""
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
        """Reads a list to its end, and hands on what is not known better; answers with the state that it is of."""
        nodes, marks, version = [], {}, ""
        for page in self._cluster.pages():
            version = page.resource_version
            with self._lock:
                if listing.dropped:
                    return version
                for item in page.items:
                    nodes.append(self._reducer.node(item))
                    marks[item["metadata"]["name"]] = _mark(item)
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
            item = self._cluster.node(name)
            if item is not None:  # Else its end is told next.
                with self._lock:
                    self._note(name, _mark(item))
                    self._sink.seen(self._reducer.node(item))

    def _note(self, name: str, mark: int | None) -> None:
        """A node is like this now, or gone; the lock is held."""
        if mark is None:
            self._marks.pop(name, None)
        else:
            self._marks[name] = mark
        if self._listing is not None and not self._listing.handed_on:
            self._listing.newer.add(name)

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.close()


def _mark(item: Mapping[str, Any]) -> int:
    """Differs where labels, or what NFD notes of them, differ: heartbeats change neither."""
    metadata = item["metadata"]
    annotations = metadata.get("annotations") or {}
    noted = annotations.get(reduction.NFD_ANNOTATION)
    return hash((frozenset((metadata.get("labels") or {}).items()), noted))
