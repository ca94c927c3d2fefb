"""Paths on the host: those of one recipe's installer, below its home, and those that the installers share."""

from dataclasses import dataclass

from runtime import shapes

LOCK = "/run/kae/installer.lock"
"""The lock of the host: whoever holds it may change the host, for one recipe."""

STATE = "/var/lib/kae"
"""The folder of the programs: it is the home of the recipe of its name, and has those of the others in RECIPES."""

RECIPES = f"{STATE}/recipes"

PACKAGES = f"{STATE}/packages"
"""The packages of the image, as long as the host's dnf reads them."""

OPT = "/opt"
"""The folder with the trees of user-space files of all drivers."""

CRIO = "/run/crio"
"""The folder of CRI-O's socket, on a host whose container runtime it is."""


@dataclass(frozen=True, slots=True)
class Own:
    """The paths of one recipe."""

    home: shapes.Home

    @property
    def record(self) -> str:
        """The record of the installed driver and of a change in progress."""
        return record(self.home.state)

    @property
    def drivers(self) -> str:
        """The store: one folder for each driver that can be installed without the network."""
        return f"{self.home.state}/drivers"

    @property
    def build(self) -> str:
        """The folder in which modules are compiled; the container's own root is read-only."""
        return f"{self.home.state}/build"

    @property
    def lock(self) -> str:
        """The lock of the one installer of this recipe."""
        return f"{self.home.run}/driver.lock"

    @property
    def changing(self) -> str:
        """The announcement: while it exists, the device plugin allocates no device."""
        return f"{self.home.run}/driver-changing"

    @property
    def retry(self) -> str:
        """The request of `retry` to try again without waiting; only the running installer writes the record."""
        return f"{self.home.run}/retry"

    @property
    def links(self) -> str:
        """The device plugin's links to device nodes, which the kubelet resolves when a container restarts."""
        return f"{self.home.run}/dev"

    @property
    def tree(self) -> str:
        """The beginning of the path of a driver's tree of user-space files, which ends with the driver's id."""
        return f"{OPT}/{self.home.tree}"

    @property
    def rule(self) -> str:
        """The udev rule that lets users other than root use the device nodes."""
        return f"/etc/udev/rules.d/70-{self.home.prefix}.rules"

    @property
    def blocked(self) -> str:
        """While it exists, no boot loads the driver by itself: udev obeys `blacklist`, modprobe by name does not."""
        # No module's name has a hyphen, so no options file has this name.
        return f"/etc/modprobe.d/{self.home.options or self.home.prefix}-unproved.conf"

    @property
    def updates(self) -> str:
        """The folder of installed modules below that of a kernel: depmod prefers updates/ by default (depmod.d(5))."""
        return f"updates/{self.home.prefix}"

    def options(self, module: str) -> str:
        """Return the options file of a module; KAE's own scripts name theirs in the same way."""
        return f"/etc/modprobe.d/{self.home.options}{module}.conf"

    def library(self, name: str) -> str:
        """Return the path of a file of user space, whose name is below the home's folder of files."""
        return f"{self.home.files}/{name}"

    def modules(self, kernel: str) -> str:
        """Return the folder of installed modules."""
        return f"/lib/modules/{kernel}/{self.updates}"


def record(state: str) -> str:
    """Return the record below the state folder of a recipe."""
    return f"{state}/driver.json"


def own_modules(kernel: str) -> str:
    """Return the folder of the kernel's own modules, with a slash at its end."""
    return f"/lib/modules/{kernel}/kernel/"
