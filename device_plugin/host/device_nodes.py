"""Mode and group of device nodes, for drivers that others installed: the installer sees to those of its own."""

import os
import stat

from device_plugin.host import paths, sysfs
from runtime import shapes


def permit(where: paths.Paths, function: sysfs.Function, wanted: shapes.DeviceNodes) -> str | None:
    """Give the device node of a function its mode and group; return why the host refuses, in a sentence.

    Root without any capability may: it owns the nodes, and is a member of the group (chown(2)).
    """
    if function.entry is None or function.entry.node_state != "there":
        return None
    node, mode = where.dev / function.entry.node, int(wanted.mode, 8)
    try:
        status = node.lstat()
        if not stat.S_ISCHR(status.st_mode):
            return None  # Never what a link in /dev leads to.
        if wanted.group is not None and status.st_gid != wanted.group:
            os.chown(node, -1, wanted.group)
        if stat.S_IMODE(status.st_mode) != mode:
            node.chmod(mode)
    except FileNotFoundError:  # It may vanish at any time.
        return None
    except OSError as error:
        group = f" and group {wanted.group}" if wanted.group is not None else ""
        return (
            f"/dev/{function.entry.node} cannot get mode {wanted.mode}{group} ({error.strerror}): it has to belong to"
            " root."
        )
    return None
