"""The commit message: the changes between two inventories, in plain words."""

from collections.abc import Callable, Iterator, Sequence

from compiler.inventory import snapshot
from watcher import loss_guard

_SORTS: tuple[tuple[str, Callable[[snapshot.Node], object]], ...] = (
    ("kernel", lambda node: node.profile.kernel_version),
    ("kubelet", lambda node: node.profile.kubelet_version),
    ("operating system", lambda node: node.profile.os_image),
    ("container runtime", lambda node: node.profile.container_runtime_version),
    ("architecture", lambda node: node.profile.architecture),
    ("devices", loss_guard.devices_of),
    ("driver", loss_guard.driver_of),
    ("taints", lambda node: node.profile.taints),
    ("labels", lambda node: (dict(node.profile.labels), dict(node.labels), node.hostname, node.profile.discovered)),
)
"""The sorts of change. Labels of NFD follow the others, so they count only when nothing else changed."""


def message(template: str, cluster: str, old: loss_guard.Nodes, new: loss_guard.Nodes, trailer: str) -> str:
    """Return the commit message: the template's text, below it the names of the nodes, and last the trailer."""
    changes = tuple(_changes(old, new))
    words = ", ".join(text for text, _ in changes) or "written anew"
    subject = template.replace("{cluster}", cluster).replace("{summary}", words)
    body = "\n".join(f"{text}: {loss_guard.listed(names, 20)}" for text, names in changes)
    return "\n\n".join(filter(None, (subject, body, trailer))) + "\n"


def _changes(before: loss_guard.Nodes, after: loss_guard.Nodes) -> Iterator[tuple[str, list[str]]]:
    joined = [name for name in after if name not in before]
    left = [name for name in before if name not in after]
    if joined:
        yield f"{_nodes(joined)} joined", joined
    if left:
        yield f"{_nodes(left)} left", left
    sorts: dict[str, list[str]] = {}
    for name in (name for name in after if name in before and before[name] != after[name]):
        changed = [word for word, of in _SORTS if of(before[name]) != of(after[name])]
        for word in changed[:-1] if changed[1:] and changed[-1] == "labels" else changed:
            sorts.setdefault(word, []).append(name)
    for word, names in sorts.items():
        yield f"{word} changed on {_nodes(names)}", names


def _nodes(names: Sequence[str]) -> str:
    return "1 node" if len(names) == 1 else f"{len(names)} nodes"
