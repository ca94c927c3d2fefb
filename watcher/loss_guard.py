"""Refuse a snapshot that loses too much: labels vanish by mistake more often than machines do.

What nodes lost in the last 24 hours counts with what they lose now, or many small losses would pass as none. It is
remembered in the messages of the watcher's own commits. A commit by anybody else, or by an acceptance, is a person's
judgement of the file: what was lost before it counts no more.
"""

import functools
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec

from compiler import recipes
from compiler.inventory import reduction, snapshot

_OWN, _LOST = "Kae-Watcher:", "Kae-Lost:"
_NODE = "(node)"
"""What every node has, and one that is gone has lost: no key of a label has brackets."""
_ITEM = re.compile(r"[^=;\s]+(=[0-9]{1,6}>[0-9]{1,6})?")
_is_count = functools.lru_cache(10_000)(recipes.is_count)
_is_of_driver = functools.lru_cache(10_000)(recipes.is_of_driver)

Nodes = Mapping[str, snapshot.Node]
Losses = Mapping[str, frozenset[str]]
"""What each node lost: keys of labels, a kind of device as `key=8>2` (it had 8 and has 2), and the node itself."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What counts as a loss, and how many nodes may lose something within 24 hours: the larger number holds."""

    cluster: str
    percent: int
    nodes: int
    keeps: Callable[[str], bool] = lambda _: True
    """Tells which keys of labels the inventory keeps."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a snapshot loses."""

    cluster: str
    losses: Losses
    """What nodes lose by it that the repository shows; empty: it loses nothing."""
    count: int = 0
    """The number of nodes that lost something within 24 hours, and have not got it back."""
    total: int = 0
    refused: bool = False
    why: str = ""
    """Why it is not known what was lost within 24 hours."""

    @property
    def code(self) -> str:
        """Return a word for exactly these losses, by which people accept them."""
        lines = sorted(f"{name} {' '.join(sorted(items))}" for name, items in self.losses.items())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]

    @property
    def sentence(self) -> str:
        """Return who lost what."""
        share = f"{self.count} of {self.total} nodes lost something"
        if self.why:
            return f"{share} now, and what was lost before is not known. {self.why}"
        worded = {
            name: [item.replace("=", " from ").replace(">", " to ") for item in items]
            for name, items in self.losses.items()
        }
        named = [f"{name} ({'gone' if _NODE in items else listed(items, 2)})" for name, items in worded.items()]
        return f"{share} within 24 hours; now {listed(named, 5)}."

    @property
    def trailer(self) -> str:
        """Return the lines of a commit message by which these losses are remembered."""
        groups: dict[frozenset[str], list[str]] = {}
        for name, items in sorted(self.losses.items()):
            groups.setdefault(items, []).append(name)
        head = f"{_OWN} {self.cluster}; nodes that lose something by this commit: {len(self.losses)}"
        lines = [f"{_LOST} {' '.join(names)}; {' '.join(sorted(items))}".rstrip() for items, names in groups.items()]
        return "\n".join((head, *lines))


def judge(old: Nodes, new: Nodes, rules: Rules, messages: Callable[[], Iterable[str]]) -> Judgement:
    """Judge the nodes that would replace the old ones; `messages` are those of the last day's commits, newest first."""
    losses = {name: items for name, node in old.items() if (items := _counted(lost(node, new.get(name))))}
    if not losses:
        return Judgement(cluster=rules.cluster, losses={})
    before = _remembered(messages(), rules)
    missing = {name for name, items in before.items() if _are_missing(items, new.get(name))}
    count, total = len(losses.keys() | missing), len(old.keys() | missing)
    refused = count > max(rules.nodes, total * rules.percent // 100) or not new
    return Judgement(cluster=rules.cluster, losses=losses, count=count, total=total, refused=refused)


def lost(old: snapshot.Node | None, new: snapshot.Node | None) -> frozenset[str]:
    """Return what a node lost: itself, labels or devices."""
    if old is None or old is new:
        return frozenset()
    had, has = _belongings(old), _belongings(new)
    fewer = {key: (count, has.get(key, 0)) for key, count in had.items() if has.get(key, 0) < count}
    return frozenset(key if count == 1 else f"{key}={count}>{left}" for key, (count, left) in fewer.items())


def _counted(items: frozenset[str]) -> frozenset[str]:
    """Return what counts as lost: the labels of a driver go with every boot, and nothing depends on them."""
    return frozenset(item for item in items if not _is_of_driver(item))


def _belongings(node: snapshot.Node | None) -> dict[str, int]:
    """Return the keys of a node's labels; where a label counts devices (those of NFD), with their number."""
    if node is None:
        return {}
    labels = {_NODE: "", **node.labels, **node.profile.labels}
    found = dict.fromkeys(labels, 1) | devices_of(node)
    if node.profile.discovered:
        found[reduction.NFD_ANNOTATION] = 1
    if node.hostname is not None:
        found[snapshot.HOSTNAME] = 1
    return found


def devices_of(node: snapshot.Node) -> dict[str, int]:
    """Return the number of devices by the labels of NFD that count them."""
    return {key: int(value) for key, value in node.profile.labels.items() if _is_count(key) and value.isdecimal()}


def driver_of(node: snapshot.Node) -> dict[str, str]:
    """Return the labels that say which driver a node has loaded."""
    return {key: value for key, value in node.labels.items() if _is_of_driver(key)}


def _remembered(messages: Iterable[str], rules: Rules) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for message in messages:
        lines = message.strip().splitlines()
        clusters = [line.removeprefix(_OWN).partition(";")[0].strip() for line in lines if line.startswith(_OWN)]
        if not clusters:
            break
        for line in lines if rules.cluster in clusters else ():
            if line.startswith(_LOST):
                names, _, items = line.removeprefix(_LOST).partition(";")
                kept = {item for item in items.split() if _ITEM.fullmatch(item) and rules.keeps(item.partition("=")[0])}
                for name in names.split():
                    found.setdefault(name, set()).update(kept)
    return found


def _are_missing(items: Iterable[str], node: snapshot.Node | None) -> bool:
    has = _belongings(node)
    parts = (re.split("[=>]", item) for item in items)
    return any(has.get(key, 0) < int(counts[0] if counts else 1) for key, *counts in parts)


def listed(words: Collection[str], most: int) -> str:
    """Return so many words for a sentence, and the number of the others."""
    more = len(words) - most
    return ", ".join(sorted(words)[:most]) + (f" and {more} more" if more > 0 else "")
