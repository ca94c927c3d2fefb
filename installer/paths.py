"""Where the installer's own things lie on the host."""

RECORD = "/var/lib/kae/driver.json"
"""What we installed, and what is being changed."""

DRIVERS = "/var/lib/kae/drivers"
"""One folder for each driver that can be put in place without asking anybody."""

BUILD = "/var/lib/kae/build"
"""Where modules are compiled; the container's own root is read-only."""

LOCK = "/run/kae/installer.lock"
"""Held by the one installer that works on the host."""

CHANGING = "/run/kae/driver-changing"
"""There while the driver is changed: the device plugin gives nobody a device."""

RETRY = "/run/kae/retry"
"""There when people have repaired something, and the next try is to wait no longer; the record is its installer's."""

LINKS = "/run/kae/dev"
"""The device plugin's links to device nodes, by which the kubelet finds those of containers that restart."""

LIBRARIES = "/opt/kae"
"""User-space libraries and engines; mounted into containers, so its folders are changed in place."""

RULE = "/etc/udev/rules.d/70-kae.rules"
"""Lets others than root use the device nodes, also those of devices that come later."""


def options(module: str) -> str:
    """The options file of a module, named as KAE's own scripts name it, so that there is one and not two."""
    return f"/etc/modprobe.d/{module}.conf"


def modules(kernel: str) -> str:
    """The folder of our modules: depmod prefers updates/ to all others, whatever its configuration (depmod.d(5))."""
    return f"/lib/modules/{kernel}/updates/kae"
