"""Paths on the host, and in the containers that get a device."""

from pathlib import Path

import msgspec

from device_plugin import served
from runtime import pci

CONTAINER_RUN = "/run/kae"
"""The folder of all injected files in a container, wherever --run-dir lies on the host."""

LIBRARIES = "/opt/kae"
"""The folder of the installer's libraries and engines, on the host and in containers."""


class Paths(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of the host that the program uses; tests put them on a fake host."""

    sysfs: Path
    dev: Path
    run: Path
    """The recipe's own; mounted under its own name, as answers to the kubelet name it for the host."""
    kubelet: Path
    recipe: str
    cdi: Path = Path("/var/run/cdi")
    """The folder in which container runtimes find the files of CDI; they read /etc/cdi, too."""

    @property
    def claims(self) -> Path:
        """Return the file that remembers which claims have a device, by the interface DRA."""
        return self.run / "claims.json"

    @property
    def pod_resources(self) -> Path:
        """Return the kubelet's socket that says which pods have devices."""
        return self.kubelet / "pod-resources" / "kubelet.sock"

    @property
    def sockets(self) -> Path:
        """Return the plugin's own folder where the kubelet looks for sockets; it may remove every socket in there."""
        return self.kubelet / "plugins_registry" / self.recipe

    def on_host(self, path: str) -> Path:
        """Return the place at which the program sees a path of the host; folders are mounted beside the host's /dev."""
        root = self.dev if path == "/dev" or path.startswith("/dev/") else self.dev.parent
        return root / path.removeprefix("/dev" if root is self.dev else "").lstrip("/")

    @property
    def links(self) -> Path:
        """Return the folder of the links to device nodes."""
        return self.run / "dev"

    def link(self, kind: served.Kind, address: str) -> Path:
        """Return the link to the device node of a function."""
        return self.links / link_name(kind, address)

    @property
    def shown(self) -> Path:
        """Return the folder that all containers mount at /sys/class/uacce."""
        return self.run / "uacce" / "class"

    @property
    def given(self) -> Path:
        """Return the folder of one folder for each device; a container sees the devices whose folders it mounts."""
        return self.run / "uacce" / "given"

    @property
    def files(self) -> Path:
        """Return the folder of the files with a text, which containers get."""
        return self.run / "files"

    def group_link(self, resource: str, device: str, index: int) -> Path:
        """Return the link to a node of a device of the class char that is known by a PCI address."""
        return self.links / f"{resource.replace('/', '_')}-{device}-{index}"

    @property
    def openssl(self) -> Path:
        """Return the folder of one folder for each openssl.cnf."""
        return self.run / "openssl"

    @property
    def changing(self) -> Path:
        """Return the file that exists while the driver installer changes the driver."""
        return self.run / "driver-changing"

    @property
    def report(self) -> Path:
        """Return the file with the running plugin's report, which `list` shows."""
        return self.run / "devices.json"

    @property
    def moved(self) -> Path:
        """Return the folder of what was in the way of a folder, a file or a link."""
        return self.run / "moved-away"

    @property
    def lock(self) -> Path:
        """Return the lock file of the one device plugin that works on this node."""
        return self.run / "device-plugin.lock"


def number(address: str) -> int:
    """Return the number that stands for a PCI address in names, also after a reboot, unlike the kernel's."""
    match = pci.ADDRESS.fullmatch(address)
    if match is None:
        raise ValueError(f"'{address}' is no PCI address")
    domain, bus, device, function = (int(part, 16) for part in match.groups())
    return domain << 16 | bus << 8 | device << 3 | function


def published_name(stem: str, address: str) -> str:
    """Return the name of a device in containers, below /dev and /sys/class/uacce."""
    return f"{stem}-{number(address)}"


def link_name(kind: served.Kind, address: str) -> str:
    """Return the name of the link to a function's device node.

    The kubelet replays an answer for as long as the pod lives, and meanwhile the address may get another kind or mode.
    """
    name = published_name(kind.stem, address)
    return f"vfio-{name}" if kind.vfio else name
