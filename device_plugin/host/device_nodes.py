"""Mode and group of device nodes, for drivers that others installed: the installer sees to those of its own."""

import contextlib
import os
import stat
from collections.abc import Iterable

from device_plugin.host import paths, sysfs
from runtime import shapes


def permit(where: paths.Paths, functions: Iterable[sysfs.Function], wanted: shapes.DeviceNodes) -> None:
    """Give the device nodes of these functions their mode and group; raises `OSError` when the host refuses.

    Root without any capability may: it owns the nodes, and is a member of the group (chown(2)).
    """
    mode = int(wanted.mode, 8)
    for function in functions:
        if function.entry is None or function.entry.node_state != "there":
            continue
        node = where.dev / function.entry.node
        with contextlib.suppress(FileNotFoundError):  # It may vanish at any time.
            status = node.lstat()
            if not stat.S_ISCHR(status.st_mode):
                continue  # Never what a link in /dev leads to.
            if wanted.group is not None and status.st_gid != wanted.group:
                os.chown(node, -1, wanted.group)
            if stat.S_IMODE(status.st_mode) != mode:
                node.chmod(mode)
