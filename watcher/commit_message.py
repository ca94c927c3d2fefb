"""The commit message: the changes between two inventories, in plain words."""

from collections.abc import Callable, Iterator, Sequence

from compiler.inventory import snapshot
from watcher import loss_guard

_NAMED = 20
"""The number of nodes named for each sort of change."""

_SORTS: tuple[tuple[str, Callable[[snapshot.Node], object]], ...] = (
    ("kernel", lambda node: node.profile.kernel_version),
    ("kubelet", lambda node: node.profile.kubelet_version),
    ("operating system", lambda node: node.profile.os_image),
    ("architecture", lambda node: node.profile.architecture),
    ("devices", loss_guard.devices_of),
    ("taints", lambda node: node.profile.taints),
    ("labels", lambda node: (dict(node.profile.labels), dict(node.labels), node.hostname, node.profile.discovered)),
)
"""The sorts of change. Labels of NFD follow the others, so they count only when nothing else changed."""


def message(template: str, cluster: str, old: loss_guard.Nodes, new: loss_guard.Nodes, trailer: str) -> str:
    """Return the commit message: the template's text, below it the names of the nodes, and last the trailer."""
    changes = tuple(_changes(old, new))
    words = ", ".join(text for text, _ in changes) or "written anew"
    subject = template.replace("{cluster}", cluster).replace("{summary}", words)
    body = "\n".join(f"{text}: {_listed(names)}" for text, names in changes)
    return "\n\n".join(filter(None, (subject, body, trailer))) + "\n"


def _changes(before: loss_guard.Nodes, after: loss_guard.Nodes) -> Iterator[tuple[str, list[str]]]:
    joined = [name for name in after if name not in before]
    left = [name for name in before if name not in after]
    if joined:
        yield f"{_nodes(joined)} joined", joined
    if left:
        yield f"{_nodes(left)} left", left
    common = [(before[name], node) for name, node in after.items() if name in before and before[name] != node]
    sorts: dict[str, list[str]] = {}
    for was, now in common:
        changed = [word for word, of in _SORTS if of(was) != of(now)]
        for word in changed if changed == ["labels"] else [word for word in changed if word != "labels"]:
            sorts.setdefault(word, []).append(now.name)
    for word, names in sorts.items():
        yield f"{word} changed on {_nodes(names)}", names


def _nodes(names: Sequence[str]) -> str:
    return "1 node" if len(names) == 1 else f"{len(names)} nodes"


def _listed(names: Sequence[str]) -> str:
    shown = sorted(names)[:_NAMED]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
