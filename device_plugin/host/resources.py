"""What the host has for a resource: devices of the class char, and the files and nodes that containers get with one.

Such a device is a group of device nodes, found by globs that are walked in step. Of each path the matches are taken in
order, and the n-th match of each makes the n-th device. The shortest list ends the walk; with a limit, a list is gone
through so many times. It is how generic-device-plugin (squat) finds devices.

Nodes of PCI functions are walked in step within each function alone: a BMC has a /dev/dri/card0 and no render node, so
the n-th card and the n-th render node may be of two. Only then are they walked in step with nodes that belong to no
function, and with a node that is named with a limit, which is in several devices.

Globs and paths are those of the host, of which only some folders are here: links are followed as there. Of the host's
KAE libraries, it is said what is missing, as a runtime mounts an empty folder in silence.
"""

import fnmatch
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from device_plugin.host import paths
from runtime import device_plugin_config as config
from runtime import pci, readings

_LINKS = 40
"""More links on one way are a circle (path_resolution(7))."""

_SPECIAL = frozenset("*?[")

_LIBRARY = re.compile(r"libwd\.so(\.[0-9]+)*")
_FOLDER = f"{paths.LIBRARIES}/lib"


def matches(where: paths.Paths, glob: str) -> list[str]:
    """Return the paths of the host that match a glob, in the order of their bytes; names with a leading dot do not."""
    found = [""]
    for part in glob.strip("/").split("/"):
        found = [f"{folder}/{name}" for folder in found for name in _names(where, folder, part)]
    there = {path: real(where, path) for path in found}
    return sorted(path for path, place in there.items() if place is not None and where.on_host(place).exists())


def watched(glob: str) -> Iterator[tuple[str, str]]:
    """Yield the folders of /dev in which a change may concern a glob, each with the beginning of the names there."""
    folder = "/dev"
    for part in glob.removeprefix("/dev/").split("/"):
        beginning = part[: next((index for index, letter in enumerate(part) if letter in _SPECIAL), len(part))]
        yield folder, beginning
        if beginning != part:
            return
        folder = f"{folder}/{part}"


def real(where: paths.Paths, path: str) -> str | None:
    """Return where the links on a path of the host lead to, on the host; None in a circle."""
    # Links in /dev are left alone: those of udev are relative (udev(7), SYMLINK), and whoever opens them follows them.
    done, rest, links = "", path.strip("/").split("/"), 0
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        here = where.on_host(f"{done}/{part}")
        if done.startswith("/dev") or not here.is_symlink():
            done = f"{done}/{part}"
            continue
        links += 1
        if links > _LINKS:
            return None
        target = os.readlink(here)  # noqa: PTH115 - the text as it stands
        done, rest = ("" if target.startswith("/") else done), [*target.split("/"), *rest]
    return done or "/"


def _names(where: paths.Paths, folder: str, part: str) -> list[str]:
    if not _SPECIAL.intersection(part):
        return [part]
    place = real(where, folder or "/")
    if place is None:
        return []
    return [name for name in readings.names(where.on_host(place)) if fnmatch.fnmatchcase(name, part) and name[0] != "."]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A device node of the host, and what a container gets of it."""

    path: str
    """On the host."""
    container: str
    permissions: str
    numbers: str = ""
    """Its kind, major and minor number, such as char/239:2; none of what is no device node."""
    served: bool = True
    """False when the kernel has no driver of this major number."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
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
    found = {tuple(path for _, path in nodes): (anchor, nodes) for anchor, nodes in every}
    owners = {anchor: _owner(where, numbers(where, anchor)) for anchor, _ in found.values()}
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
        seen = tuple(node_at(where, part, path, majors) for part, path in nodes)
        groups.append(Group(id=given, nodes=seen, numa_node=numa_node))
    return tuple(groups)


_Nodes = list[tuple[int, str]]
"""Nodes of a device: the index of the path that each matches, and its own path."""
_Column = tuple[int, list[_Nodes]]
"""A limit, and what is found for one path."""


def _in_step(where: paths.Paths, entry: config.DeviceGroup) -> Iterator[tuple[str, list[tuple[config.GroupPath, str]]]]:
    """Yield the paths of the nodes of each device, and that of the node by which it is known."""
    found = {index: matches(where, path.path) for index, path in enumerate(entry.paths)}
    functions = {name: _function(where, numbers(where, name)) for names in found.values() for name in names}
    owned = _owned(entry, found, functions)
    columns = list(_columns(entry, {index: names for index, names in found.items() if index not in owned}))
    if owned or entry.vendor or entry.driver:
        devices = [
            nodes
            for function in dict.fromkeys(functions[name] for names in owned.values() for name in names)
            if _is_meant(entry, function)
            for nodes in _together(list(_columns(entry, _of(function, owned, functions))))
        ]
        uses = Counter(node for nodes in devices for node in nodes)
        columns.append((min((entry.paths[node[0]].limit // count for node, count in uses.items()), default=1), devices))
    for nodes in _together(columns):
        # Nodes of a limit are in several devices.
        anchor = next((name for index, name in nodes if entry.paths[index].limit == 1), nodes[0][1])
        yield anchor, [(entry.paths[index], name) for index, name in nodes]


def _owned(
    entry: config.DeviceGroup, found: Mapping[int, Sequence[str]], functions: Mapping[str, Path | None]
) -> dict[int, Sequence[str]]:
    """Return the nodes of the paths that are walked within each PCI function, by the index of the path."""
    owned = {index: names for index, names in found.items() if any(functions[name] for name in names)}
    # One node, named with a limit, is what devices share, also those of other functions: the node of a manager.
    shared = {index for index in owned if entry.paths[index].limit > 1 and not _SPECIAL & set(entry.paths[index].path)}
    return {index: names for index, names in owned.items() if index not in shared} or owned


def _of(
    function: Path | None, owned: Mapping[int, Sequence[str]], functions: Mapping[str, Path | None]
) -> dict[int, list[str]]:
    """Return the nodes of a PCI function, by the index of their path."""
    return {index: [name for name in names if functions[name] == function] for index, names in owned.items()}


def _is_meant(entry: config.DeviceGroup, function: Path | None) -> bool:
    """Return whether a group is of the nodes of a PCI function, or with None of those that belong to none."""
    if function is None:
        return not (entry.vendor or entry.driver)
    vendor = not entry.vendor or readings.hexadecimal(function / "vendor") == entry.vendor
    return vendor and (not entry.driver or readings.link_name(function / "driver") == entry.driver)


def _columns(entry: config.DeviceGroup, found: Mapping[int, Sequence[str]]) -> Iterator[_Column]:
    for index, names in found.items():
        if names or not entry.paths[index].optional:
            yield entry.paths[index].limit, [[(index, name)] for name in names]


def _together(columns: Sequence[_Column]) -> Iterator[_Nodes]:
    """Yield the n-th of each column together, in the order of the group's paths."""
    if not columns:
        return
    count = min(max(len(items) for _, items in columns), *(len(items) * limit for limit, items in columns))
    for index in range(count):
        yield sorted(node for _, items in columns for node in items[index % len(items)])


def in_container(wanted: str | None, path: str) -> str:
    """Return the path in a container of what is at a path of the host."""
    if wanted is None:
        return path
    return wanted + path.rpartition("/")[2] if wanted.endswith("/") else wanted


def node_at(
    where: paths.Paths, part: config.GroupPath | config.InjectedNode, path: str, majors: frozenset[str] = frozenset()
) -> Node:
    """Return the node at a path that a part of the config names, and whether a driver of `majors` serves it."""
    found = numbers(where, path)
    return Node(
        path=path,
        container=in_container(part.as_, path),
        permissions=part.permissions,
        numbers=found,
        served=not majors or found.partition(":")[0] in majors,
    )


def numbers(where: paths.Paths, path: str) -> str:
    """Return the kind and the numbers of a device node of the host, such as char/239:2; none of what is none."""
    found = status(where, path)
    if found is None:
        return ""
    kind = "char" if stat.S_ISCHR(found.st_mode) else "block"
    return f"{kind}/{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"


def status(where: paths.Paths, path: str) -> os.stat_result | None:
    """Return the state of a device node of the host, such as its numbers, owner and mode; None of what is none."""
    found = real(where, path)
    try:
        known = where.on_host(found or path).stat()
    except OSError:
        return None
    return known if stat.S_ISCHR(known.st_mode) or stat.S_ISBLK(known.st_mode) else None


def _majors() -> frozenset[str]:
    """Return the major numbers that have a driver, such as char/239 (/proc/devices of proc(5)); none if unknown."""
    found, kind = set(), ""
    for line in (readings.text(Path("/proc/devices")) or "").splitlines():
        if line.endswith(":"):
            kind = "block" if line.startswith("Block") else "char"
        elif line.strip():
            found.add(f"{kind}/{line.split()[0]}")
    return frozenset(found)


def _folders(where: paths.Paths, numbers: str) -> list[Path]:
    """Return the folder of a node's device in sysfs, and those above it; none of what is no device node."""
    # /sys/dev leads from the numbers of a node to its device (Documentation/ABI/testing/sysfs-dev of the kernel).
    link = where.sysfs / "dev" / numbers
    if not numbers or not link.exists():
        return []
    device, top = link.resolve(), where.sysfs.resolve() / "devices"
    return [device, *(parent for parent in device.parents if parent.is_relative_to(top))]


def _function(where: paths.Paths, numbers: str) -> Path | None:
    """Return the folder of the PCI function that a node belongs to."""
    return next((folder for folder in _folders(where, numbers) if pci.ADDRESS.fullmatch(folder.name)), None)


def _owner(where: paths.Paths, numbers: str) -> tuple[str | None, int | None]:
    """Return the address of the PCI function that a node belongs to, and the NUMA node of its device."""
    function, folders = _function(where, numbers), _folders(where, numbers)
    address = function.name if function is not None else None
    numa_nodes = (readings.integer(folder / "numa_node") for folder in folders)
    numa_node = next((number for number in numa_nodes if number is not None), None)
    # -1: the firmware did not say.
    return address, numa_node if numa_node is not None and numa_node >= 0 else None


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A file or folder of the host that a container gets."""

    path: str
    """On the host."""
    container: str
    read_only: bool


class OnHost(msgspec.Struct, frozen=True, kw_only=True):
    """A resource as it was read."""

    lacks: tuple[str, ...] = ()
    """Why no container can start with it, in sentences."""
    devices: tuple[Group, ...] = ()
    nodes: tuple[Node, ...] = ()
    """The device nodes that containers get beside their devices."""
    mounts: tuple[Mount, ...] = ()
    silent: bool = False
    """True when a read of it hangs; the rest is what was read last."""


def read(where: paths.Paths, resource: config.Resource) -> OnHost:
    """Return what is on the host now; files may be on a file system that does not answer."""
    inject = resource.inject
    nodes = [node_at(where, part, path) for part in inject.nodes for path in matches(where, part.path)]
    mounts = [
        Mount(path=path, container=in_container(part.as_, path), read_only=part.read_only)
        for part in inject.mounts
        for path in (matches(where, part.path) if part.checked else [part.path])
    ]
    places = [*(node.container for node in nodes), *(mount.container for mount in mounts)]
    return OnHost(
        lacks=(
            *_missing(where, resource),
            *(f"{node.path} of the host is no device node." for node in nodes if not node.numbers),
            *_crowded([*places, *(file.as_ for file in inject.files)]),
        ),
        devices=walk(where, resource.groups) if isinstance(resource, config.Char) else (),
        nodes=tuple(nodes),
        mounts=tuple(mounts),
    )


def device_globs(resource: config.Resource) -> list[str]:
    """Return every path and glob in /dev that concerns a resource."""
    groups_of = resource.groups if isinstance(resource, config.Char) else ()
    of_devices = [path.path for group in groups_of for path in group.paths]
    required = [path for path in resource.requires if path.startswith("/dev/")]
    return [*of_devices, *required, *(node.path for node in resource.inject.nodes)]


def _missing(where: paths.Paths, resource: config.Resource) -> Iterator[str]:
    nodes = [node.path for node in resource.inject.nodes if not node.optional]
    mounts = [mount.path for mount in resource.inject.mounts if mount.checked and not mount.optional]
    for path in dict.fromkeys((*resource.requires, *nodes, *mounts)):
        if not matches(where, path):
            yield f"{path} of the host is not there."


def _crowded(places: list[str]) -> Iterator[str]:
    for place, count in Counter(places).items():
        if count > 1:
            yield f"{count} paths of the host would be {place} of a container: end 'as' with '/', for a folder of them."


def library_folders(resources: Iterable[config.Resource]) -> list[str]:
    """Return the host's folders of the libraries that containers get."""
    every = (resource.inject.libraries for resource in resources)
    return list(dict.fromkeys(libraries.path or _FOLDER for libraries in every if libraries is not None))


def missing_libraries(where: paths.Paths, resources: Iterable[config.Resource]) -> list[str]:
    """Return what the host's folders lack, in sentences; none when nothing, or when containers get no libraries."""
    every = (_lacking_library(where, resource.inject) for resource in resources)
    return list(dict.fromkeys(lack for lack in every if lack is not None))


def _lacking_library(where: paths.Paths, inject: config.Inject) -> str | None:
    if inject.libraries is None:
        return None
    place = inject.libraries.path or _FOLDER
    seen = where.on_host(place)
    if seen.is_symlink() and (seen.readlink().is_absolute() or not seen.exists()):
        # The runtime follows it on the host; here is no more of the host than the folder above.
        return (
            f"'{place}' of the host is a link to '{seen.readlink()}', where the plugin does not see whether KAE's"
            " libraries are: name that folder in devicePlugin.inject.librariesPath."
        )
    mounted = (seen if inject.libraries.path else seen.parent).resolve()
    if not any(_LIBRARY.fullmatch(name) and _is_within(mounted, seen / name) for name in readings.names(seen)):
        return (
            f"'{place}' of the host has no libwd.so, so containers get no KAE libraries: install them there, or name"
            " their folder in devicePlugin.inject.librariesPath."
        )
    generation = inject.openssl.conf if inject.openssl is not None else None
    engine = f"engines-{generation}/kae.so"
    if generation is not None and not _is_within(mounted, seen / engine):
        return f"'{place}/{engine}' of the host is not there, so OpenSSL works in software: install KAE's engine there."
    return None


def _is_within(mounted: Path, file: Path) -> bool:
    """Return whether a path leads to a file below a folder: containers get this folder, and no other of the host."""
    found = file.resolve()
    return found.is_relative_to(mounted) and found.is_file()
