"""Paths on the host: those of one recipe's installer, below its home, and those that the installers share."""

from runtime import shapes

RUN = "/run/kae"
"""The folder of the device plugins, which may write in it: no link below it is followed."""

OWN_RUN = f"{RUN}-driver"
"""The folder of what the installers trust below /run: a device plugin may write what is in its own."""

LOCK = f"{OWN_RUN}/installer.lock"
"""The lock of the host: whoever holds it may change the host, for one recipe."""

EARLIER_LOCK = f"{RUN}/installer.lock"
"""The lock of the host for the installers of kae 0.2, of which one may be at work until all recipes are upgraded."""

STATE = "/var/lib/kae"
"""The folder of the programs: it is the home of the recipe of its name, and has those of the others in RECIPES."""

RECIPES = f"{STATE}/recipes"

PACKAGES = f"{STATE}/packages"
"""The packages of the image, as long as the host's dnf reads them."""

OPT = "/opt"
"""The folder with the trees of user-space files of all drivers."""

FIRMWARE = "/lib/firmware/updates"
"""The kernel looks here for firmware before it looks at the system's own (fw_path of its firmware_loader/main.c)."""

_FIRMWARE = ".firmware"
"""Its name in a driver's tree: no part of a path below OPT begins with a dot."""

CRIO = "/run/crio"
"""The folder of CRI-O's socket, on a host whose container runtime it is."""


class Own:
    """The paths of one recipe."""

    def __init__(self, home: shapes.Home) -> None:
        self.home = home
        self.record = record(home.state)
        """The record of the installed driver and of a change in progress."""
        self.drivers = f"{home.state}/drivers"
        """The store: one folder for each driver that can be installed without the network."""
        self.build = f"{home.state}/build"
        """The folder in which modules are compiled; the container's own root is read-only."""
        self.lock = f"{OWN_RUN}/{home.prefix}.lock"
        """The lock of the one installer of this recipe."""
        self.changing = f"{home.run}/driver-changing"
        """The announcement: while it exists, the device plugin allocates no device."""
        self.retry = f"{OWN_RUN}/{home.prefix}.retry"
        """The request of `retry` to try again without waiting; only the running installer writes the record."""
        self.links = f"{home.run}/dev"
        """The device plugin's links to device nodes, which the kubelet resolves when a container restarts."""
        self.tree = f"{OPT}/{home.tree}"
        """The beginning of the path of a driver's tree of user-space files, which ends with the driver's id."""
        self.rule = f"/etc/udev/rules.d/70-{home.prefix}.rules"
        """The udev rule that lets users other than root use the device nodes."""
        # No module's name has a hyphen, so no options file has this name.
        self.blocked = f"/etc/modprobe.d/{home.options or home.prefix}-unproved.conf"
        """While it exists, no boot loads the driver by itself: udev obeys `blacklist`, modprobe by name does not."""
        self.updates = f"updates/{home.prefix}"
        """The folder of installed modules below that of a kernel: depmod prefers updates/ by default (depmod.d(5))."""

    def options(self, module: str) -> str:
        """Return the options file of a module; KAE's own scripts name theirs in the same way."""
        return f"/etc/modprobe.d/{self.home.options}{module}.conf"

    def library(self, name: str) -> str:
        """Return the path of a file of user space by its name in a driver's tree."""
        below = name.removeprefix(f"{_FIRMWARE}/")
        return f"{self.home.files}/{name}" if below == name else f"{FIRMWARE}/{below}"

    def modules(self, kernel: str) -> str:
        """Return the folder of installed modules."""
        return f"/lib/modules/{kernel}/{self.updates}"


def part(files: str, place: str) -> str:
    """Return the name in a driver's tree of a path below the home's folder of files, or below that of firmware."""
    below = place.removeprefix(f"{FIRMWARE}/")
    return place.removeprefix(files).lstrip("/") if below == place else f"{_FIRMWARE}/{below}"


def record(state: str) -> str:
    """Return the record below the state folder of a recipe."""
    return f"{state}/driver.json"


def own_modules(kernel: str) -> str:
    """Return the folder of the kernel's own modules, with a slash at its end."""
    return f"/lib/modules/{kernel}/kernel/"
