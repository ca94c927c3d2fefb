"""The nodes as they are, the nodes as the repository has them, and the differences that have settled."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from compiler import devices
from compiler.inventory import snapshot

_LONGEST = 10
"""A node that never settles is committed anyway after this many debounce times."""


@dataclass(frozen=True, slots=True)
class _Change:
    first_s: float
    last_s: float


class PendingChanges:
    """Nodes by name. Times are seconds of one monotonic clock.

    A loss waits longer than a gain: a NodeFeature that is deleted and created again, a rule that is pruned for a moment
    and a node that boots all remove labels for seconds or minutes.
    """

    def __init__(self, quiet_s: float, removal_quiet_s: float) -> None:
        """Begin without nodes, and with an empty repository."""
        self._quiet_s = quiet_s
        self._removal_quiet_s = removal_quiet_s
        self._current: dict[str, snapshot.Node] = {}
        self._published: Mapping[str, snapshot.Node] = {}
        self._changes: dict[str, _Change] = {}

    @property
    def nodes(self) -> int:
        """Return the number of nodes now."""
        return len(self._current)

    @property
    def published(self) -> tuple[snapshot.Node, ...]:
        """Return the nodes in the repository, by name."""
        return tuple(self._published.values())

    @property
    def kept(self) -> int:
        """Return the number of nodes whose loss has not settled, so that the repository keeps their old state."""
        return sum(loses(self._published.get(name), self._current.get(name)) for name in self._changes)

    def publish(self, nodes: Iterable[snapshot.Node], now_s: float) -> None:
        """Take the nodes that the repository has now."""
        self._published = {node.name: node for node in nodes}
        earlier = self._changes
        self._changes = {}
        for name in {*self._published, *self._current}:
            if self._published.get(name) != self._current.get(name):
                self._changes[name] = earlier.get(name, _Change(now_s, now_s))

    def see(self, node: snapshot.Node, now_s: float) -> None:
        """Take the current state of a node."""
        if self._current.get(node.name) != node:
            self._current[node.name] = node
            self._note(node.name, now_s)

    def miss(self, name: str, now_s: float) -> None:
        """Take the removal of a node."""
        if self._current.pop(name, None) is not None:
            self._note(name, now_s)

    def replace(self, nodes: Iterable[snapshot.Node], now_s: float, newer: Collection[str] = ()) -> None:
        """Take a full list; it does not override the newer names, whose state is known better."""
        listed = {node.name: node for node in nodes}
        for name in [name for name in self._current if name not in listed and name not in newer]:
            self.miss(name, now_s)
        for name, node in listed.items():
            if name not in newer:
                self.see(node, now_s)

    def settled(self, now_s: float, *, all_of_it: bool = False) -> tuple[snapshot.Node, ...]:
        """Return the nodes to commit now, by name; a node that has not settled is as in the repository."""
        names = sorted({*self._published, *self._current})
        nodes = (
            self._current.get(name) if all_of_it or self._is_settled(name, now_s) else self._published.get(name)
            for name in names
        )
        return tuple(node for node in nodes if node is not None)

    def due_s(self) -> float | None:
        """Return when the next difference settles; None when there is none."""
        return min(map(self._due_s, self._changes), default=None)

    def _note(self, name: str, now_s: float) -> None:
        if self._current.get(name) == self._published.get(name):
            self._changes.pop(name, None)
        else:
            first_s = self._changes[name].first_s if name in self._changes else now_s
            self._changes[name] = _Change(first_s, now_s)

    def _is_settled(self, name: str, now_s: float) -> bool:
        return name not in self._changes or now_s >= self._due_s(name)

    def _due_s(self, name: str) -> float:
        change = self._changes[name]
        lost = loses(self._published.get(name), self._current.get(name))
        quiet_s = self._removal_quiet_s if lost else self._quiet_s
        return min(change.last_s + quiet_s, change.first_s + _LONGEST * quiet_s)


def loses(old: snapshot.Node | None, new: snapshot.Node | None) -> bool:
    """Return whether a node lost something: itself, some of its devices, or labels of NFD."""
    if old is None:
        return False
    if new is None:
        return True
    was, now = old.profile, new.profile
    if was is now:
        return False
    fewer = any(count > devices_of(new)[kind] for kind, count in devices_of(old).items())
    return fewer or (was.discovered and not now.discovered) or not was.labels.keys() <= now.labels.keys()


def devices_of(node: snapshot.Node) -> dict[str, int]:
    """Return the number of devices of each kind by the labels of NFD, virtual functions included."""
    labels = node.profile.labels
    return {
        kind.name: sum(_count(labels.get(f"{kind.resource}.{sort}")) for sort in ("pf", "vf")) for kind in devices.KINDS
    }


def _count(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0
