"""The PCI functions of the host's KAE devices, with their entries and device nodes."""

import contextlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from installer import config
from installer.host import chroot
from runtime import pci, readings, shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the class uacce."""

    name: str
    numbers: str
    """The major and minor number of its device node, such as 239:2."""
    mode: int | None
    """The mode of the device node; None if it is missing."""
    group: int = 0
    """The number of its group."""
    unprotected: bool = False
    """True without an IOMMU: the device reads and writes any memory for whoever opens it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A PCI function of a kind."""

    address: str
    kind: shapes.Kind
    virtual: bool
    driver: str | None
    entry: Entry | None
    vfs: int
    """The number of its virtual functions."""
    total_vfs: int
    """The number of virtual functions that it can have."""

    @property
    def folder(self) -> str:
        """The path of its folder in sysfs."""
        return f"/sys/bus/pci/devices/{self.address}"

    @property
    def lent(self) -> bool:
        """True when another driver is bound to it, mostly for a virtual machine."""
        return self.driver not in (None, self.kind.module)


def functions(host: chroot.Host, settings: config.Config) -> tuple[Function, ...]:
    """Return the functions of the vendor and of the kinds in the config, by address; none for a class without them."""
    if not settings.uacce:
        return ()
    scanned = pci.scan(host.path("/sys"), settings.vendor, settings.kinds)
    return tuple(_function(host, function, function.kind) for function in scanned if function.kind is not None)


def nodes(of: Sequence[Function]) -> dict[str, str]:
    """Return the paths of the device nodes that exist, by address."""
    entries = {function.address: function.entry for function in of if function.entry is not None}
    return {address: f"/dev/{entry.name}" for address, entry in entries.items() if entry.mode is not None}


def node(host: chroot.Host, path: str) -> Entry | None:
    """Return a device node by its path; None if no character device is there."""
    with contextlib.suppress(OSError):
        found = host.resolved(path).stat()
        if stat.S_ISCHR(found.st_mode):
            numbers = f"{os.major(found.st_rdev)}:{os.minor(found.st_rdev)}"
            name = path.removeprefix("/dev/")
            return Entry(name=name, numbers=numbers, mode=stat.S_IMODE(found.st_mode), group=found.st_gid)
    return None


def guests(of: Sequence[Function]) -> tuple[Function, ...]:
    """Return the virtual functions of this host's physical ones that another driver is bound to.

    A virtual machine has no physical ones, so nothing removes its virtual functions.
    """
    at_home = any(function.vfs and not function.lent for function in of)
    return tuple(function for function in of if at_home and function.virtual and function.lent)


def _function(host: chroot.Host, function: pci.Function, kind: shapes.Kind) -> Function:
    return Function(
        address=function.address,
        kind=kind,
        virtual=function.virtual,
        driver=function.driver,
        entry=_entry(host, function.entry) if function.entry else None,
        vfs=function.vfs,
        total_vfs=readings.integer(function.folder / "sriov_totalvfs") or 0,
    )


def _entry(host: chroot.Host, folder: Path) -> Entry:
    node = None
    with contextlib.suppress(OSError):
        node = host.path(f"/dev/{folder.name}").stat()
    return Entry(
        name=folder.name,
        numbers=readings.text(folder / "dev") or "",
        mode=stat.S_IMODE(node.st_mode) if node is not None else None,
        group=node.st_gid if node is not None else 0,
        # The suffix is KAE's (uacce_mode 2 without an IOMMU; qm.c, qm_alloc_uacce).
        unprotected=(readings.text(folder / "api") or "").endswith("_noiommu"),
    )
