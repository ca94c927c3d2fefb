"""Find the PCI functions of kinds of devices, and others of their vendors, in sysfs.

Attributes: Documentation/ABI/testing/sysfs-bus-pci of the Linux kernel. A function may vanish between two reads.

No attribute whose read takes the function's device_lock is read: a driver that is removed holds that lock until its
last user is gone, and whoever reads then cannot even be killed. Such are sriov_numvfs since Linux 5.7
(sriov_numvfs_show of drivers/pci/iov.c) and sriov_vf_total_msix; vendor, device, numa_node and sriov_totalvfs take no
lock (drivers/pci/pci-sysfs.c, iov.c).
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from runtime import readings, shapes

ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([01][0-9a-f])\.([0-7])")
"""Domain, bus, device and function, such as 0000:79:00.0."""

# KAE 1 names SEC's entries hisi_sec-…, KAE 2 hisi_sec2-….
_ENTRY = re.compile(r"[a-z][a-z0-9_]*-[0-9]+")


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A PCI function of a vendor of the kinds."""

    address: str
    folder: Path
    device: str
    kind: shapes.Kind | None
    """None when no kind has this device id."""
    driver: str | None
    virtual: bool
    vfs: int
    """The number of its virtual functions now: of its links virtfn0, virtfn1, ….

    While the kernel makes or removes them, the links come first and go first (sriov_enable of drivers/pci/iov.c).
    """
    entry: Path | None
    """The folder of its entry in the class uacce."""


def addresses(sysfs: Path) -> list[str]:
    """Return the addresses of all PCI functions, of any vendor, in order."""
    return sorted(readings.names(sysfs / "bus/pci/devices"))


def scan(sysfs: Path, kinds: Sequence[shapes.Kind]) -> Iterator[Function]:
    """Yield every function of the kinds' vendors, sorted by address."""
    for address in addresses(sysfs):
        if (function := read(sysfs, kinds, address)) is not None:
            yield function


def read(sysfs: Path, kinds: Sequence[shapes.Kind], address: str) -> Function | None:
    """Return the function at an address; None when none of the kinds' vendors has one there."""
    folder = sysfs / "bus/pci/devices" / address
    if not ADDRESS.fullmatch(address):
        return None
    vendor = readings.hexadecimal(folder / "vendor")
    if vendor is None or vendor not in [kind.vendor for kind in kinds]:
        return None
    device = readings.hexadecimal(folder / "device")
    if device is None:
        return None
    # PCI_CLASS of linux/pci_ids.h: base class and subclass; the programming interface follows.
    of_class = (readings.hexadecimal(folder / "class") or "")[:4] if any(kind.classes for kind in kinds) else ""
    kind = next((kind for kind in kinds if kind.has(vendor, device, of_class)), None)
    entries = sorted(name for name in readings.names(folder / "uacce") if _ENTRY.fullmatch(name))
    return Function(
        address=address,
        folder=folder,
        device=device,
        kind=kind,
        driver=readings.link_name(folder / "driver"),
        # In a virtual machine by its id: a virtual function has the link physfn only beside its physical one.
        virtual=kind is not None and (device in kind.virtual or (folder / "physfn").is_symlink()),
        vfs=sum(name.startswith("virtfn") for name in readings.names(folder)),
        entry=folder / "uacce" / entries[0] if entries else None,
    )
