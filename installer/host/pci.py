"""The PCI functions of the driver's devices, with their entries, and the device nodes of both classes."""

import contextlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec

from installer.host import chroot
from runtime import driver_config, pci, readings, shapes


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the class uacce, or a device node that the config names."""

    name: str
    numbers: str
    """The major and minor number of its device node, such as 239:2."""
    mode: int | None
    """The mode of the device node; None if it is missing."""
    group: int = 0
    unprotected: bool = False
    """True without an IOMMU: the device reads and writes any memory for whoever opens it."""

    @property
    def path(self) -> str:
        """The path of the device node."""
        return f"/dev/{self.name}"


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """A PCI function of a kind."""

    address: str
    kind: shapes.Kind
    virtual: bool
    driver: str | None
    entry: Entry | None
    vfs: int
    total_vfs: int

    @property
    def folder(self) -> str:
        """The path of its folder in sysfs."""
        return f"/sys/bus/pci/devices/{self.address}"

    @property
    def lent(self) -> bool:
        """True when another driver is bound to it, mostly for a virtual machine."""
        return self.driver not in (None, self.kind.module)


def functions(host: chroot.Host, settings: driver_config.Config) -> tuple[Function, ...]:
    """Return the functions of the config's kinds, by address; none for a class that knows its devices by nodes."""
    if not isinstance(settings, driver_config.Uacce):
        return ()
    scanned = pci.scan(host.resolved("/sys"), settings.kinds)
    return tuple(_function(host, function, function.kind) for function in scanned if function.kind is not None)


def nodes(host: chroot.Host, settings: driver_config.Config) -> dict[str, Entry]:
    """Return the character devices among the config's `nodes`, by path."""
    found = {}
    for path in settings.nodes:
        with contextlib.suppress(OSError):
            node = host.resolved(path).stat()
            if stat.S_ISCHR(node.st_mode):
                numbers = f"{os.major(node.st_rdev)}:{os.minor(node.st_rdev)}"
                name = path.removeprefix("/dev/")
                found[path] = Entry(name=name, numbers=numbers, mode=stat.S_IMODE(node.st_mode), group=node.st_gid)
    return found


def entries(of: Sequence[Function]) -> dict[str, Entry]:
    """Return the entries of these functions, by address."""
    return {function.address: function.entry for function in of if function.entry is not None}


def devices(host: chroot.Host, settings: driver_config.Config) -> dict[str, Entry]:
    """Return what user space can open: entries by the address of their function, and nodes by path."""
    return entries(functions(host, settings)) | nodes(host, settings)


def guests(of: Sequence[Function]) -> tuple[Function, ...]:
    """Return the virtual functions of this host's physical ones that another driver is bound to."""
    # A virtual machine has no physical ones, so nothing removes its virtual functions.
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
        node = host.resolved(f"/dev/{folder.name}").stat()
    return Entry(
        name=folder.name,
        numbers=readings.text(folder / "dev") or "",
        mode=stat.S_IMODE(node.st_mode) if node is not None else None,
        group=node.st_gid if node is not None else 0,
        # The suffix is KAE's (uacce_mode 2 without an IOMMU; qm.c, qm_alloc_uacce).
        unprotected=(readings.text(folder / "api") or "").endswith("_noiommu"),
    )
