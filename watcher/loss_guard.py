"""Refuse a snapshot that loses too much: labels vanish by mistake more often than machines do.

What nodes lost in the last 24 hours counts with what they lose now, or many small losses would pass as none. It is
remembered in the messages of the watcher's own commits. A commit by anybody else, or by an acceptance, is a person's
judgement of the file: what was lost before it counts no more.
"""

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from compiler import devices
from compiler.inventory import reduction, snapshot

_OWN, _LOST = "Kae-Watcher:", "Kae-Lost:"
_ITEM = re.compile(r"[^=;\s]+(=[0-9]{1,6})?")
_COUNTS = tuple(f"{kind.resource}.{sort}" for kind in devices.KINDS for sort in ("pf", "vf"))

Nodes = Mapping[str, snapshot.Node]
Losses = Mapping[str, frozenset[str]]
"""What each node lost: keys of labels, a kind of device as `key=number` that it had; nothing: the node is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many nodes may lose something within 24 hours: the larger one holds."""

    percent: int
    nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a snapshot loses."""

    losses: Losses
    """What nodes lose by it that the repository shows; empty: it loses nothing."""
    count: int = 0
    """The number of nodes that lost something within 24 hours, and have not got it back."""
    total: int = 0
    refused: bool = False

    @property
    def code(self) -> str:
        """Return a word for exactly these losses, by which people accept them."""
        lines = sorted(f"{name} {' '.join(sorted(items))}" for name, items in self.losses.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]

    @property
    def sentence(self) -> str:
        """Return who lost what."""
        named = [f"{name} ({listed(items, 2) or 'gone'})" for name, items in self.losses.items()]
        return f"{self.count} of {self.total} nodes lost something within 24 hours; now {listed(named, 5)}."

    @property
    def trailer(self) -> str:
        """Return the lines of a commit message by which these losses are remembered."""
        groups: dict[frozenset[str], list[str]] = {}
        for name, items in sorted(self.losses.items()):
            groups.setdefault(items, []).append(name)
        lines = [f"{_LOST} {' '.join(names)}; {' '.join(sorted(items))}".rstrip() for items, names in groups.items()]
        return "\n".join((f"{_OWN} nodes that lose something by this commit: {len(self.losses)}", *lines))


def judge(old: Nodes, new: Nodes, limits: Limits, messages: Callable[[], Iterable[str]]) -> Judgement:
    """Judge the nodes that would replace the old ones; `messages` are those of the last day's commits, newest first."""
    losses = {name: items for name, node in old.items() if (items := lost(node, new.get(name))) is not None}
    if not losses:
        return Judgement(losses={})
    before = _remembered(messages())
    missing = {
        name for name, items in before.items() if any(_is_missing(item, new.get(name)) for item in items or [""])
    }
    count, total = len(losses.keys() | missing), len(old.keys() | missing)
    most = max(limits.nodes, total * limits.percent // 100)
    return Judgement(losses=losses, count=count, total=total, refused=count > most or not new)


def lost(old: snapshot.Node | None, new: snapshot.Node | None) -> frozenset[str] | None:
    """Return what a node lost: itself, labels or devices; None when it lost nothing."""
    if old is None or old is new:
        return None
    if new is None:
        return frozenset()
    had, has = _belongings(old), _belongings(new)
    items = frozenset(key if count == 1 else f"{key}={count}" for key, count in had.items() if has.get(key, 0) < count)
    return items or None


def _belongings(node: snapshot.Node) -> dict[str, int]:
    """Return the keys of a node's labels; where a label counts devices (those of NFD), with their number."""
    labels = {**node.labels, **node.profile.labels}
    found = dict.fromkeys(labels, 1) | devices_of(node)
    if node.profile.discovered:
        found[reduction.NFD_ANNOTATION] = 1
    if node.hostname is not None:
        found[snapshot.HOSTNAME] = 1
    return found


def devices_of(node: snapshot.Node) -> dict[str, int]:
    """Return the number of devices by the labels of NFD that count them."""
    labels = node.profile.labels
    return {key: int(labels[key]) for key in _COUNTS if labels.get(key, "").isdecimal()}


def _remembered(messages: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for message in messages:
        lines = message.strip().splitlines()
        if not any(line.startswith(_OWN) for line in lines):
            break
        for line in lines:
            if line.startswith(_LOST):
                names, _, items = line.removeprefix(_LOST).partition(";")
                for name in names.split():
                    found.setdefault(name, set()).update(filter(_ITEM.fullmatch, items.split()))
    return found


def _is_missing(item: str, node: snapshot.Node | None) -> bool:
    if node is None or not item:
        return node is None
    key, _, count = item.partition("=")
    return _belongings(node).get(key, 0) < int(count or 1)


def listed(words: Collection[str], most: int) -> str:
    """Return so many words for a sentence, and the number of the others."""
    more = len(words) - most
    return ", ".join(sorted(words)[:most]) + (f" and {more} more" if more > 0 else "")
