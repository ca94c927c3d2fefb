"""A feed between a cluster of values and somebody who writes down what he hears: no HTTP, no clock but a test's."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from compiler.inventory import snapshot
from compiler.kube import client, node_watch, reader
from watcher import node_feed

INTERVAL_S = 600.0
ERROR = client.Unreachable("the API server at https://east:6443 cannot be reached: Connection refused.")
GONE = client.Gone("the API server at https://east:6443 did not watch nodes (410): Expired.", status=410)
WITHIN_S = 10
"""For what another thread does at once."""

Step = list[node_watch.Event] | Exception


class Clock:
    """Seconds that only a test lets pass."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def raw(name: str, **labels: str) -> dict[str, Any]:
    """A Node as the API server prints it, as far as it is looked at."""
    return {"metadata": {"name": name, "labels": labels, "annotations": {}, "resourceVersion": "7"}, "spec": {}}


def event(kind: str, item: Mapping[str, Any]) -> node_watch.Event:
    """Return the event of an item, with its metadata alone."""
    return node_watch.Event(kind, {"metadata": item["metadata"]})


@dataclass
class Watch:
    """A watch that tells its events, and then raises, or ends; without a step it waits for its end."""

    step: Step | None
    at_end: list[Callable[[], object]]
    resource_version: str
    closed: threading.Event = field(default_factory=threading.Event)

    def __iter__(self) -> Iterator[node_watch.Event]:
        if isinstance(self.step, Exception):
            raise self.step
        for told in self.step or ():
            yield told
            self.resource_version = told.object["metadata"].get("resourceVersion", self.resource_version)
        if self.step is None:
            assert self.closed.wait(WITHIN_S), "nobody ends the watch"
        (self.at_end.pop(0) if len(self.at_end) > 1 else self.at_end[0])()

    def close(self) -> None:
        self.closed.set()


@dataclass
class Cluster:
    """A cluster's lists, the last of which repeats for ever, and the events of each watch."""

    lists: list[Sequence[dict[str, Any]] | Exception]
    watches: list[Step | None] = field(default_factory=list)
    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The answers to a GET; the listed nodes where empty."""
    broken: bool = False
    """Lists break off after their first page."""
    asked: list[str] = field(default_factory=list)
    at_end: list[Callable[[], object]] = field(default_factory=list)
    """Called as a watch ends, one for each, and the last one for ever."""
    watching: threading.Event = field(default_factory=threading.Event)
    at_page: Callable[[int], object] = lambda number: None
    """Called before a page is told, with the list's number."""
    listings: int = 0

    def pages(self) -> Iterator[reader.Page]:
        self.asked.append("list")
        self.listings += 1
        number = self.listings
        items = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(items, Exception):
            self.at_page(number)
            raise items
        for start in range(0, len(items), 2) or (0,):
            if self.broken and start:
                raise ERROR
            self.at_page(number)
            yield reader.Page(items=items[start : start + 2], resource_version="50")

    def node(self, name: str) -> Mapping[str, Any] | None:
        self.asked.append(f"get {name}")
        return self.nodes.get(name)

    def watch(self, resource_version: str, timeout_s: int) -> Watch:
        self.asked.append(f"watch {resource_version} {timeout_s}")
        made = Watch(self.watches.pop(0) if self.watches else None, self.at_end, resource_version)
        self.watching.set()
        return made


@dataclass
class Heard:
    """A listener of the node feed that records its calls."""

    words: list[str] = field(default_factory=list)
    nodes: dict[str, snapshot.Node] = field(default_factory=dict)
    at_failure: Callable[[], None] = lambda: None

    def listed(self, nodes: Sequence[snapshot.Node], newer: Collection[str] = ()) -> None:
        self.words.append("listed " + " ".join([*(node.name for node in nodes), *sorted(f"-{name}" for name in newer)]))
        known = {name: self.nodes[name] for name in newer if name in self.nodes}
        self.nodes = {node.name: node for node in nodes if node.name not in newer} | known

    def seen(self, node: snapshot.Node) -> None:
        self.words.append(f"seen {node.name}")
        self.nodes[node.name] = node

    def missed(self, name: str) -> None:
        self.words.append(f"missed {name}")
        self.nodes.pop(name, None)

    def failed(self, reason: str) -> None:
        self.words.append(f"failed {reason}")
        self.at_failure()


@dataclass
class Bench:
    """A feed between a cluster and who hears of it."""

    cluster: Cluster
    heard: Heard = field(default_factory=Heard)
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.feed = node_feed.NodeFeed(cast(reader.Cluster, self.cluster), (), INTERVAL_S, self.heard, self.clock)
        self.cluster.at_end.append(self.feed.close)

    def run(self) -> None:
        """Runs until a watch has told everything, unless the test says another end."""
        thread = threading.Thread(target=self.feed.run, daemon=True)
        thread.start()
        thread.join(WITHIN_S)
        assert not thread.is_alive(), self.cluster.asked


def pass_s(bench: Bench, seconds: float) -> None:
    """Lets time pass."""
    bench.clock.now_s += seconds


def until(holds: Callable[[], bool]) -> None:
    """Waits for what another thread does."""
    pause = threading.Event()
    for _ in range(WITHIN_S * 1000):
        if holds():
            return
        pause.wait(0.001)
    raise AssertionError("it does not come to pass")
