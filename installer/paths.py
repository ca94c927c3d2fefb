"""Paths of the installer's own files on the host."""

RECORD = "/var/lib/kae/driver.json"
"""The record of the installed driver and of a change in progress."""

DRIVERS = "/var/lib/kae/drivers"
"""The store: one folder for each driver that can be installed without the network."""

BUILD = "/var/lib/kae/build"
"""The folder in which modules are compiled; the container's own root is read-only."""

PACKAGES = "/var/lib/kae/packages"
"""The packages of the image, as long as the host's dnf reads them."""

LOCK = "/run/kae/installer.lock"
"""The lock of the one installer that may change the host."""

CHANGING = "/run/kae/driver-changing"
"""The announcement: while it exists, the device plugin allocates no device."""

RETRY = "/run/kae/retry"
"""The request of `retry` to try again without waiting; only the running installer writes the record."""

LINKS = "/run/kae/dev"
"""The device plugin's links to device nodes, which the kubelet resolves when a container restarts."""

LIBRARIES = "/opt/kae"
"""User-space libraries and engines, which containers mount: a link to a driver's own tree."""

CRIO = "/run/crio"
"""The folder of CRI-O's socket, on a host whose container runtime it is."""

RULE = "/etc/udev/rules.d/70-kae.rules"
"""The udev rule that lets users other than root use the device nodes."""

BLOCKED = "/etc/modprobe.d/kae-unproved.conf"
"""While it exists, no boot loads the driver by itself: udev obeys `blacklist`, modprobe by name does not."""


def options(module: str) -> str:
    """Return the options file of a module, which KAE's own scripts name in the same way."""
    return f"/etc/modprobe.d/{module}.conf"


def own_modules(kernel: str) -> str:
    """Return the folder of the kernel's own modules, with a slash at its end."""
    return f"/lib/modules/{kernel}/kernel/"


def modules(kernel: str) -> str:
    """Return the folder of installed modules: depmod prefers updates/ to all others by default (depmod.d(5))."""
    return f"/lib/modules/{kernel}/updates/kae"
