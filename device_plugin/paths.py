"""Where things are: on the host, and in the containers that get a device."""

from dataclasses import dataclass
from pathlib import Path

from runtime import pci

CONTAINER_RUN = "/run/kae"
"""The folder below which a container finds what it was given, wherever --run-dir lies on the host."""

LIBRARIES = "/opt/kae"
"""Where the driver installer puts libraries and engines, on the host and in containers alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of the host that the program works in; tests put them on a fake host."""

    sysfs: Path
    dev: Path
    run: Path
    """/run/kae; mounted under its own name, as answers to the kubelet name it for the host."""
    kubelet: Path

    @property
    def registry(self) -> Path:
        """The kubelet looks for plugins' sockets here and in folders below."""
        return self.kubelet / "plugins_registry"

    @property
    def sockets(self) -> Path:
        """Our own folder of the registry; leftovers in it are ours to remove."""
        return self.registry / "kae"

    @property
    def links(self) -> Path:
        """Links to device nodes, named by PCI address."""
        return self.run / "dev"

    @property
    def shown(self) -> Path:
        """Stands in for /sys/class/uacce in containers, the same for all of them."""
        return self.run / "uacce" / "class"

    @property
    def given(self) -> Path:
        """One folder for each device; a container sees the device whose folder it was given."""
        return self.run / "uacce" / "given"

    @property
    def openssl(self) -> Path:
        """One folder for each rendered openssl.cnf."""
        return self.run / "openssl"

    @property
    def changing(self) -> Path:
        """There while the driver installer changes the driver."""
        return self.run / "driver-changing"

    @property
    def lock(self) -> Path:
        """Held by the one device plugin that works on this node."""
        return self.run / "device-plugin.lock"


def number(address: str) -> int:
    """The number that stands for a PCI address in names: its domain, bus, device and function in one.

    A name of an entry ends in a number that the kernel counts up; this one stays the same when that one changes.
    """
    match = pci.ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(f"'{address}' is no PCI address")
    domain, bus, device, function = (int(part, 16) for part in match.groups())
    return domain << 16 | bus << 8 | device << 3 | function


def published_name(module: str, address: str) -> str:
    """The name under which containers see a device, below /dev and /sys/class/uacce."""
    return f"{module}-{number(address)}"
