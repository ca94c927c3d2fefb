"""The nodes as they are, the nodes as the repository has them, and the differences that have settled."""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from compiler.inventory import snapshot
from watcher import loss_guard

_LONGEST = 10
"""A node that never settles is committed anyway after this many quiet times."""


class _Change(msgspec.Struct, frozen=True):
    first_s: float
    last_s: float
    lost: frozenset[str] = frozenset()
    """What the node loses that the repository shows, when the nodes were last listed."""
    lost_s: float = 0
    """When something of this was seen last."""


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
        self.published: Mapping[str, snapshot.Node] = {}
        """The nodes in the repository."""
        self.touched: set[str] = set()
        """Nodes that changed since the last list, so that nothing may be committed before the next one."""
        self._changes: dict[str, _Change] = {}

    @property
    def nodes(self) -> int:
        """Return the number of nodes in the last list."""
        return len(self._current)

    def kept(self, now_s: float) -> int:
        """Return the number of nodes whose loss has not settled, so that the repository keeps their old state."""
        return sum(bool(change.lost) and not self._is_settled(name, now_s) for name, change in self._changes.items())

    def publish(self, nodes: Iterable[snapshot.Node], now_s: float) -> None:
        """Take the nodes that the repository has now."""
        self.published = {node.name: node for node in nodes}
        self._compare(now_s)

    def touch(self, names: Iterable[str], now_s: float) -> None:
        """Take the news that nodes changed; the next list says how."""
        for name in names:
            self.touched.add(name)
            self._note(name, now_s)

    def list(self, nodes: Iterable[snapshot.Node], now_s: float) -> None:
        """Take a full list."""
        earlier, self._current = self._current, {node.name: node for node in nodes}
        for name in earlier.keys() | self._current.keys():
            if name not in self.touched and earlier.get(name) != self._current.get(name):
                self._note(name, now_s)
        self.touched.clear()
        self._compare(now_s)

    def settled(self, now_s: float, *, all_of_it: bool = False) -> dict[str, snapshot.Node]:
        """Return the nodes to commit now, by name; a node that has not settled is as in the repository."""
        names = sorted({*self.published, *self._current})
        found = {
            name: (self._current if all_of_it or self._is_settled(name, now_s) else self.published).get(name)
            for name in names
        }
        return {name: node for name, node in found.items() if node is not None}

    def due_s(self) -> float | None:
        """Return when the next difference settles; None when there is none."""
        return min(map(self._due_s, self._changes), default=None)

    def _compare(self, now_s: float) -> None:
        """Keep the times of the differences that still are, and forget the others."""
        changes = {}
        for name in self.published.keys() | self._current.keys():
            old, new = self.published.get(name), self._current.get(name)
            if old != new:
                change = self._changes.get(name, _Change(now_s, now_s))
                lost = loss_guard.lost(old, new)
                changes[name] = replace(change, lost=lost, lost_s=change.lost_s if lost <= change.lost else now_s)
        self._changes = changes

    def _note(self, name: str, now_s: float) -> None:
        self._changes[name] = replace(self._changes.get(name, _Change(now_s, now_s)), last_s=now_s)

    def _is_settled(self, name: str, now_s: float) -> bool:
        return name not in self._changes or now_s >= self._due_s(name)

    def _due_s(self, name: str) -> float:
        change = self._changes[name]
        quiet_s = self._removal_quiet_s if change.lost else self._quiet_s
        due_s = min(change.last_s + quiet_s, change.first_s + _LONGEST * quiet_s)
        return max(due_s, change.lost_s + quiet_s) if change.lost else due_s
