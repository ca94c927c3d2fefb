"""Devices of the class char: groups of device nodes, found by globs that are walked in step.

Of each path the matches are taken in order, and the n-th match of each makes the n-th device. The shortest list ends
the walk; with a limit, a list is gone through so many times. It is how generic-device-plugin (squat) finds devices.
"""

import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from device_plugin import config
from device_plugin.host import paths
from device_plugin.host.recipe import host_files
from runtime import pci, readings


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A device node of the host, and what a container gets of it."""

    path: str
    """On the host."""
    container: str
    permissions: str
    numbers: str = ""
    """Its kind, major and minor number, such as char/239:2; none of what is no device node."""
    served: bool = True
    """False when the kernel has no driver of this major number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A device: its id and its nodes, in the order of the paths."""

    id: str
    """The PCI address of the function that the first path's node belongs to, with the node's name where the function
    has several; else the path of that node."""
    nodes: tuple[Node, ...]
    numa_node: int | None = None

    @property
    def by_address(self) -> bool:
        """Return whether its id is a PCI address, which outlives the numbers in the names of nodes."""
        return pci.ADDRESS.fullmatch(self.id.partition("#")[0]) is not None


def walk(where: paths.Paths, entries: Iterable[config.DeviceGroup]) -> tuple[Group, ...]:
    """Return the devices; nodes that several entries find the same way make one."""
    majors = _majors()
    every = (pair for entry in entries for pair in _in_step(where, entry))
    found = {tuple(node.path for node in nodes): (anchor, nodes) for anchor, nodes in every}
    owners = {anchor: _owner(where, _numbers(where, anchor)) for anchor, _ in found.values()}
    anchors = Counter(address for address, _ in owners.values())
    taken = Counter[str]()
    groups = []
    for anchor, nodes in found.values():
        address, numa_node = owners[anchor]
        base = address or anchor.replace("::", ":")
        if address and anchors[address] > 1:
            # By their order, the id of one that goes would pass to the next, and a pod's link with it.
            base = f"{address}#{anchor.rpartition('/')[2]}"
        # A node may be in several devices.
        given = f"{base}#{taken[base]}" if taken[base] else base
        taken[base] += 1
        seen = tuple(looked_at(where, node, majors) for node in nodes)
        groups.append(Group(id=given, nodes=seen, numa_node=numa_node))
    return tuple(groups)


def _in_step(where: paths.Paths, entry: config.DeviceGroup) -> Iterator[tuple[str, list[Node]]]:
    """Yield the nodes of each device, and the path of the node by which it is known."""
    found = [(path, host_files.matches(where, path.path)) for path in entry.paths]
    there = [(path, names) for path, names in found if names or not path.optional]
    if not there:
        return
    count = min(max(len(names) for _, names in there), *(len(names) * path.limit for path, names in there))
    # Nodes of a limit are in several devices.
    anchor = next((names for path, names in there if path.limit == 1), there[0][1])
    for index in range(count):
        nodes = [_node(path, names[index % len(names)]) for path, names in there]
        yield anchor[index % len(anchor)], nodes


def _node(path: config.GroupPath, name: str) -> Node:
    return Node(path=name, container=in_container(path.as_, name), permissions=path.permissions)


def in_container(wanted: str | None, path: str) -> str:
    """Return the path in a container of what is at a path of the host."""
    if wanted is None:
        return path
    return wanted + path.rpartition("/")[2] if wanted.endswith("/") else wanted


def looked_at(where: paths.Paths, node: Node, majors: frozenset[str] = frozenset()) -> Node:
    """Return a node with its numbers, and with whether a driver of `majors` serves them."""
    numbers = _numbers(where, node.path)
    return Node(
        path=node.path,
        container=node.container,
        permissions=node.permissions,
        numbers=numbers,
        served=not majors or numbers.partition(":")[0] in majors,
    )


def _numbers(where: paths.Paths, path: str) -> str:
    found = host_files.real(where, path)
    try:
        status = where.on_host(found or path).stat()
    except OSError:
        return ""
    kind = "char" if stat.S_ISCHR(status.st_mode) else "block" if stat.S_ISBLK(status.st_mode) else None
    return f"{kind}/{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if kind else ""


def _majors() -> frozenset[str]:
    """Return the major numbers that have a driver, such as char/239 (/proc/devices of proc(5)); none if unknown."""
    found, kind = set(), ""
    for line in (readings.text(Path("/proc/devices")) or "").splitlines():
        if line.endswith(":"):
            kind = "block" if line.startswith("Block") else "char"
        elif line.strip():
            found.add(f"{kind}/{line.split()[0]}")
    return frozenset(found)


def _owner(where: paths.Paths, numbers: str) -> tuple[str | None, int | None]:
    """Return the address of the PCI function that a node belongs to, and the NUMA node of its device.

    /sys/dev leads from the numbers of a node to its device (Documentation/ABI/testing/sysfs-dev of the kernel).
    """
    link = where.sysfs / "dev" / numbers
    if not numbers or not link.exists():
        return None, None
    folders = _upwards(link.resolve(), where.sysfs.resolve() / "devices")
    address = next((folder.name for folder in folders if pci.ADDRESS.fullmatch(folder.name)), None)
    numa_nodes = (readings.integer(folder / "numa_node") for folder in folders)
    numa_node = next((number for number in numa_nodes if number is not None), None)
    # -1: the firmware did not say.
    return address, numa_node if numa_node is not None and numa_node >= 0 else None


def _upwards(folder: Path, top: Path) -> Sequence[Path]:
    return [folder, *(parent for parent in folder.parents if parent.is_relative_to(top))]
