"""Hold back a snapshot that loses too much: labels vanish by mistake more often than machines do."""

from collections.abc import Sequence

from compiler.inventory import snapshot
from watcher import pending_changes


def objection(old: Sequence[snapshot.Node], new: Sequence[snapshot.Node], max_percent: int) -> str:
    """Return why a person must agree before the new nodes replace the old ones; empty when no one has to."""
    if not old:
        return ""
    if not new:
        return f"There are no nodes any more, and there were {len(old)}."
    remaining = {node.name: node for node in new}
    changed = [(node, remaining.get(node.name)) for node in old if node != remaining.get(node.name)]
    lost = sum(now is None for _, now in changed)
    if lost * 100 > max_percent * len(old):
        return f"{lost} of {len(old)} nodes are gone, more than {max_percent} %."
    lost_devices = sum(_lost(node, now) for node, now in changed)
    # Counting them all takes a while in a large cluster, and would delay every small change.
    had = sum(sum(pending_changes.devices_of(node).values()) for node in old) if lost_devices else 0
    if lost_devices * 100 > max_percent * had:
        return f"{lost_devices} of {had} devices are gone, more than {max_percent} %."
    return ""


def _lost(old: snapshot.Node, new: snapshot.Node | None) -> int:
    now = pending_changes.devices_of(new) if new is not None else {}
    return sum(max(0, count - now.get(kind, 0)) for kind, count in pending_changes.devices_of(old).items())
