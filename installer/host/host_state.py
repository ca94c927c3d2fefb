"""The state of the host: everything that a decision needs, in one value."""

import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from installer import config, paths
from installer.host import chroot, kmod, pci, record
from runtime import errors, readings

RULE = 'SUBSYSTEM=="uacce", MODE="0666"\n'
"""Access is limited by the device cgroup of a container, not by the mode of the node."""

_OPTION_FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d")

_EFI = "8be4df61-93ca-11d2-aa0d-00e098032b8c"  # EFI_GLOBAL_VARIABLE, UEFI specification 3.3


@dataclass(frozen=True, slots=True, kw_only=True)
class HostState:
    """The state of a host."""

    kernel: str
    boot: str
    """The boot id, which differs for each boot."""
    system: str
    """The name of the operating system."""
    secure_boot: bool
    free_bytes: int
    """The free space of the disk with the store of drivers."""
    functions: tuple[pci.Function, ...]
    loaded: Mapping[str, kmod.Module]
    files: Mapping[str, kmod.File]
    """The files that modprobe would load, by module."""
    options: Mapping[str, str]
    """The texts of existing options files, by module."""
    rule: bool
    """True when the udev rule has the text of `RULE`."""
    record: record.Record
    changing: bool
    """True while the change is announced (driver-changing)."""

    def entries(self) -> tuple[pci.Function, ...]:
        """Return the functions that user space can use."""
        return tuple(function for function in self.functions if function.entry is not None)


def read(host: chroot.Host, settings: config.Config) -> HostState:
    """Read the state of the host.

    Raises:
        errors.Failure: The folder is no host, or its record cannot be read.
    """
    running = kernel(host)
    return HostState(
        kernel=running,
        boot=readings.text(host.path("/proc/sys/kernel/random/boot_id")) or "",
        system=_system(host),
        secure_boot=_secure_boot(host),
        free_bytes=_free_bytes(host),
        functions=pci.functions(host, settings.vendor, settings.kinds),
        loaded=MappingProxyType(kmod.loaded(host, settings.all_modules)),
        files=MappingProxyType(kmod.chosen(host, running, settings.all_modules)),
        options=MappingProxyType(_options(host, settings)),
        rule=text(host, paths.RULE) == RULE,
        record=record.read(host),
        changing=host.path(paths.CHANGING).exists(),
    )


def kernel(host: chroot.Host) -> str:
    """Return the release of the running kernel.

    Raises:
        errors.Failure: The folder is no host.
    """
    release = readings.text(host.path("/proc/sys/kernel/osrelease"))
    if not release:
        raise errors.Failure(f"'{host.root}' is not the root of a host: it has no /proc/sys/kernel/osrelease.")
    return release


def _system(host: chroot.Host) -> str:
    release = text(host, "/etc/os-release") or text(host, "/usr/lib/os-release") or ""
    match = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    return match[1] if match else "unknown"


def _secure_boot(host: chroot.Host) -> bool:
    with contextlib.suppress(OSError):
        # Four bytes of attributes precede the value (Documentation/filesystems/efivarfs.rst).
        return host.path(f"/sys/firmware/efi/efivars/SecureBoot-{_EFI}").read_bytes()[4:5] == b"\x01"
    return False


def _free_bytes(host: chroot.Host) -> int:
    disk = os.statvfs(host.path("/var/lib"))
    return disk.f_bavail * disk.f_frsize


def _options(host: chroot.Host, settings: config.Config) -> dict[str, str]:
    texts = {module: text(host, paths.options(module)) for module in settings.all_modules}
    return {module: text for module, text in texts.items() if text is not None}


def options_elsewhere(host: chroot.Host, module: str) -> tuple[str, ...]:
    """Return the other files that set a module's parameters (modprobe.d(5))."""
    line = re.compile(rf"^\s*options\s+{module.replace('_', '[-_]')}\s", re.MULTILINE)
    files = [
        path
        for folder in _OPTION_FOLDERS
        for name in sorted(readings.names(host.path(folder)))
        if (path := f"{folder}/{name}").endswith(".conf") and path != paths.options(module)
    ]
    said = [path for path in files if line.search(text(host, path) or "")]
    if re.search(rf"(?:^|\s){module.replace('_', '[-_]')}\.", text(host, "/proc/cmdline") or ""):
        said.append("/proc/cmdline")
    return tuple(said)


def text(host: chroot.Host, absolute: str) -> str | None:
    """Return the text of a file of the host; None if it cannot be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return host.resolved(absolute).read_text("utf-8")
    return None
