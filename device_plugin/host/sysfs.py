"""Read the devices and their entries from sysfs.

Attributes: Documentation/ABI/testing/sysfs-driver-uacce of the Linux kernel; KAE 1 (kernel 4.19) keeps them in a folder
attrs/. Any file here may vanish between two reads, so every read may return None.
"""

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from device_plugin import served
from device_plugin.host import paths
from runtime import pci, readings

_NEEDED = ("api", "flags", "algorithms", "available_instances")
"""The attributes that libwd needs of an entry; the driver creates them all before it announces the entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A device's entry in the class uacce, through which user space uses it."""

    name: str
    folder: str
    """Below the root of sysfs, such as devices/pci0000:78/0000:78:00.0/0000:79:00.0/uacce/hisi_hpre-2."""
    node: str
    """The device node's path below /dev."""
    node_numbers: str
    """Major and minor number, such as 239:2."""
    node_state: str
    """there, missing, or other: the file at its path is not this device."""
    missing: tuple[str, ...]
    """The attributes that do not exist, as in a half-made entry."""
    api: str | None
    algorithms: tuple[str, ...]
    isolated: int | None
    """1 when the kernel has isolated the device, -1 when it cannot tell, None when it does not support isolation."""
    free_queues: int | None = field(compare=False)
    """Excluded from comparison: it changes with every user of the device."""


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The IOMMU group of a function that is bound to vfio-pci (Documentation/driver-api/vfio.rst of the kernel)."""

    number: str
    node_state: str
    """there, missing, or other, as of an entry."""
    others: tuple[str, ...]
    """The addresses of other functions in it: who opens the group gets all of them."""
    iommu: bool
    """False for a group of vfio's enable_unsafe_noiommu_mode."""
    openable: bool
    """Whether /dev/vfio/vfio is there, without which nobody can use a group."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A PCI function of a served kind."""

    address: str
    kind: served.Kind
    virtual: bool
    driver: str | None
    numa_node: int | None
    vfs: int
    entry: Entry | None
    group: Group | None = None
    """None where its kind is not offered by vfio, or where it is in no group."""
    unreadable: bool = False
    """True when a read of it hangs; the rest is what was read last."""

    @property
    def node(self) -> str | None:
        """Return the device node's path below /dev."""
        if self.kind.vfio:
            return f"vfio/{self.group.number}" if self.group is not None else None
        return self.entry.node if self.entry is not None else None


class Stranger(msgspec.Struct, frozen=True, kw_only=True):
    """A function of a vendor of the kinds with an entry, whose own kind the policy does not serve."""

    address: str
    vendor: str
    device: str
    entry: str


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """The functions of a node, sorted by address."""

    functions: tuple[Function, ...]
    strangers: tuple[Stranger, ...]
    numa_nodes: frozenset[int]
    uacce: bool
    """True when the class uacce exists, hence the module is loaded."""
    silent: tuple[str, ...] = ()
    """The addresses of functions of which nothing is known, as a read of them hangs."""


def read(where: paths.Paths, kinds: Sequence[served.Kind], address: str) -> Function | Stranger | None:
    """Return the function of a vendor of the kinds at an address; None when none is there."""
    seen = pci.read(where.sysfs, [kind.pci for kind in kinds], address)
    if seen is None:
        return None
    for kind in kinds:
        if kind.pci is seen.kind:
            return _function(where, seen, kind)
    if seen.entry is None:
        return None
    vendor = readings.hexadecimal(seen.folder / "vendor") or ""
    return Stranger(address=address, vendor=vendor, device=seen.device, entry=seen.entry.name)


def scan(where: paths.Paths, found: Iterable[Function | Stranger | None], silent: Iterable[str] = ()) -> Scan:
    """Return what was found on a node, with its NUMA nodes and whether the class uacce is there."""
    known = sorted((each for each in found if each is not None), key=lambda each: each.address)
    nodes = [name for name in readings.names(where.sysfs / "devices/system/node") if re.fullmatch(r"node[0-9]+", name)]
    return Scan(
        functions=tuple(each for each in known if isinstance(each, Function)),
        strangers=tuple(each for each in known if isinstance(each, Stranger)),
        numa_nodes=frozenset(int(name.removeprefix("node")) for name in nodes),
        uacce=(where.sysfs / "class/uacce").is_dir(),
        silent=tuple(sorted(silent)),
    )


def is_current(where: paths.Paths, function: Function) -> bool:
    """Return whether the device node still is the function's, by paths in sysfs that no driver can hold up."""
    # Names of entries and numbers of groups are given anew: to other functions, too.
    if function.kind.vfio:
        group = function.group
        return group is not None and os.path.lexists(
            f"{where.sysfs}/kernel/iommu_groups/{group.number}/devices/{function.address}"
        )
    return function.entry is not None and os.path.lexists(f"{where.sysfs}/{function.entry.folder}")


def _function(where: paths.Paths, seen: pci.Function, kind: served.Kind) -> Function | None:
    numa_node = readings.integer(seen.folder / "numa_node")
    function = Function(
        address=seen.address,
        kind=kind,
        virtual=seen.virtual,
        driver=seen.driver,
        # -1: the firmware did not say.
        numa_node=numa_node if numa_node is not None and numa_node >= 0 else None,
        vfs=seen.vfs,
        entry=_entry(where, seen.entry) if seen.entry else None,
        group=_group(where, seen) if kind.vfio else None,
    )
    # It was unplugged during the reads, so the values are worthless.
    return function if seen.folder.exists() else None


def _group(where: paths.Paths, seen: pci.Function) -> Group | None:
    number = readings.link_name(seen.folder / "iommu_group")
    if number is None:
        return None
    # The class vfio: vfio_group_alloc of drivers/vfio/group.c.
    numbers = readings.text(where.sysfs / "class/vfio" / number / "dev") or ""
    folder = seen.folder / "iommu_group/devices"
    # Nobody gets a bridge with its group (Documentation/driver-api/vfio.rst); PCI_CLASS_BRIDGE_PCI of linux/pci_ids.h.
    classes = {name: readings.hexadecimal(folder / name / "class") or "" for name in readings.names(folder)}
    others = (name for name, of in classes.items() if name != seen.address and not of.startswith("0604"))
    return Group(
        number=number,
        node_state=_node_state(where.dev / "vfio" / number, numbers),
        others=tuple(sorted(others)),
        iommu=not (where.sysfs / "class/vfio" / f"noiommu-{number}").exists(),
        openable=(where.dev / "vfio/vfio").is_char_device(),
    )


def _entry(where: paths.Paths, folder: Path) -> Entry:
    event = dict(line.partition("=")[::2] for line in (readings.text(folder / "uevent") or "").splitlines())
    node = event.get("DEVNAME", folder.name)
    numbers = readings.text(folder / "dev") or ""
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
        isolated=readings.number(isolated),
        free_queues=readings.number(attributes["available_instances"]),
    )


def _node_state(node: Path, numbers: str) -> str:
    try:
        status = node.stat()
    except OSError:
        return "missing"
    major_minor = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    return "there" if stat.S_ISCHR(status.st_mode) and major_minor == numbers else "other"


def _attribute(folder: Path, name: str) -> str | None:
    text = readings.text(folder / name)
    return readings.text(folder / "attrs" / name) if text is None else text
