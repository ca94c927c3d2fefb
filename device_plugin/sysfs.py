"""Read what sysfs says of the devices.

Attributes: Documentation/ABI/testing/sysfs-driver-uacce and sysfs-bus-pci of the Linux kernel; KAE 1 (kernel 4.19)
keeps those of uacce in a folder attrs/. Anything here may vanish between two reads, so every read may answer with None.
"""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from device_plugin import config, places

# KAE 1 calls SEC's entries hisi_sec, KAE 2 hisi_sec2.
_ENTRY = re.compile(r"[a-z][a-z0-9_]*-[0-9]+")

_NEEDED = ("api", "flags", "algorithms", "available_instances")
"""Attributes without which libwd cannot use an entry; the driver makes them all before it announces the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A device's entry in the class uacce, through which user space works with it."""

    name: str
    folder: str
    """Below the root of sysfs, such as devices/pci0000:78/0000:78:00.0/0000:79:00.0/uacce/hisi_hpre-2."""
    node: str
    """The device node's path below /dev."""
    node_numbers: str
    """Major and minor number, such as 239:2."""
    node_state: str
    """there, missing, or other: what is at its place is not this device."""
    missing: tuple[str, ...]
    """Attributes that are not there, as in an entry that is being made."""
    api: str | None
    algorithms: tuple[str, ...]
    isolated: int | None
    """1 when the kernel has isolated the device, -1 when it cannot tell, None where it does not know of isolation."""
    free_queues: int | None = field(compare=False)
    """Changes with every user of the device, so it is no part of what an entry is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A PCI function of a served kind."""

    address: str
    kind: config.Kind
    virtual: bool
    driver: str | None
    numa_node: int | None
    vfs: int
    """How many virtual functions it has now."""
    entry: Entry | None
    state: str | None
    """What the driver's debugfs says of its queue management, where that can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranger:
    """A function of the vendor that has an entry, and is of no kind that the policy serves."""

    address: str
    device: str
    entry: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What is there, sorted by address."""

    functions: tuple[Function, ...]
    strangers: tuple[Stranger, ...]
    numa_nodes: frozenset[int]
    uacce: bool
    """Whether the class uacce is there, hence the module loaded."""


def scan(where: places.Places, vendor: str, kinds: tuple[config.Kind, ...]) -> Scan:
    """Everything of the vendor that the PCI bus shows."""
    functions: list[Function] = []
    strangers: list[Stranger] = []
    for address in sorted(_names(where.sysfs / "bus/pci/devices")):
        found = read(where, vendor, kinds, address)
        if isinstance(found, Function):
            functions.append(found)
        elif isinstance(found, Stranger):
            strangers.append(found)
    return Scan(
        functions=tuple(functions),
        strangers=tuple(strangers),
        numa_nodes=frozenset(_numa_nodes(where.sysfs)),
        uacce=(where.sysfs / "class/uacce").is_dir(),
    )


def read(where: places.Places, vendor: str, kinds: tuple[config.Kind, ...], address: str) -> Function | Stranger | None:
    """The function at an address; None where none of the vendor's devices is."""
    folder = where.sysfs / "bus/pci/devices" / address
    if not places.is_address(address) or _hex(folder / "vendor") != vendor:
        return None
    device = _hex(folder / "device")
    if device is None:
        return None
    for kind in kinds:
        if device in (kind.pf, kind.vf):
            return _function(where, folder, address, kind)
    entry = next(iter(_entries(folder)), None)
    return Stranger(address=address, device=device, entry=entry) if entry else None


def _function(where: places.Places, folder: Path, address: str, kind: config.Kind) -> Function | None:
    entry = next(iter(_entries(folder)), None)
    driver = _link_name(folder / "driver")
    numa_node = _integer(folder / "numa_node")
    function = Function(
        address=address,
        kind=kind,
        virtual=_hex(folder / "device") == kind.vf,
        driver=driver,
        # -1: the firmware did not say.
        numa_node=numa_node if numa_node is not None and numa_node >= 0 else None,
        # While they are made, the links come first and sriov_numvfs last (drivers/pci/iov.c).
        vfs=max(_integer(folder / "sriov_numvfs") or 0, sum(name.startswith("virtfn") for name in _names(folder))),
        entry=_entry(where, folder / "uacce" / entry) if entry else None,
        state=_text(where.sysfs / "kernel/debug" / (driver or kind.module) / address / "qm/status"),
    )
    # Unplugged while it was read: what was read is worth nothing.
    return function if folder.exists() else None


def _entry(where: places.Places, folder: Path) -> Entry:
    event = dict(line.partition("=")[::2] for line in (_text(folder / "uevent") or "").splitlines())
    node = event.get("DEVNAME", folder.name)
    numbers = _text(folder / "dev") or ""
    attributes = {name: _attribute(folder, name) for name in _NEEDED}
    isolated = _attribute(folder, "isolate")
    return Entry(
        name=folder.name,
        folder=os.path.relpath(folder.resolve(), where.sysfs.resolve()),
        node=node,
        node_numbers=numbers,
        node_state=_node_state(where.dev / node, numbers),
        missing=tuple(name for name, value in attributes.items() if value is None) + (() if numbers else ("dev",)),
        api=attributes["api"],
        algorithms=tuple((attributes["algorithms"] or "").split()),
        isolated=_number(isolated),
        free_queues=_number(attributes["available_instances"]),
    )


def _node_state(node: Path, numbers: str) -> str:
    try:
        found = node.stat()
    except OSError:
        return "missing"
    major_minor = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
    return "there" if stat.S_ISCHR(found.st_mode) and major_minor == numbers else "other"


def _entries(folder: Path) -> list[str]:
    return sorted(name for name in _names(folder / "uacce") if _ENTRY.fullmatch(name))


def _attribute(folder: Path, name: str) -> str | None:
    text = _text(folder / name)
    return _text(folder / "attrs" / name) if text is None else text


def _numa_nodes(sysfs: Path) -> Iterator[int]:
    for name in _names(sysfs / "devices/system/node"):
        if re.fullmatch(r"node[0-9]+", name):
            yield int(name.removeprefix("node"))


def _names(folder: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return [path.name for path in folder.iterdir()]
    return []


def _link_name(link: Path) -> str | None:
    with contextlib.suppress(OSError):
        return link.readlink().name
    return None


def _text(path: Path) -> str | None:
    # Not only a missing file: reading an attribute of a device that goes gives ENODEV.
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text("ascii").strip()
    return None


def _hex(path: Path) -> str | None:
    text = _text(path)
    return text.removeprefix("0x") if text else None


def _integer(path: Path) -> int | None:
    return _number(_text(path))


def _number(text: str | None) -> int | None:
    with contextlib.suppress(ValueError, TypeError):
        return int(text or "")
    return None
