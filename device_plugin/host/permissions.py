"""Who may use what containers get: mode and group of device nodes, and the SELinux label of folders.

Device nodes are those of a driver that others installed: the installer sees to those of its own. By the label of /run
containers may not read a folder that they mount.
"""

import logging
import os
import stat
from pathlib import Path

from device_plugin.host import paths, sysfs
from runtime import shapes

LOG = logging.getLogger(__name__)

_LABEL = "security.selinux"
"""The extended attribute (xattr(7)); a file system without SELinux has none of that name."""

_CONTAINER_FILE = b"system_u:object_r:container_file_t:s0\0"
"""What a container may read, whatever its categories (container_selinux(8))."""


def permit(where: paths.Paths, function: sysfs.Function, wanted: shapes.DeviceNodes) -> str | None:
    """Give a function's device node its mode and group; return why the host refuses, in a sentence."""
    # Root without any capability may: it owns the nodes, and is a member of the group (chown(2)).
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


def let_containers_read(folder: Path) -> None:
    """Label a folder and what is in it; what is made in there later inherits the label. Without SELinux do nothing."""
    for path in (folder, *folder.rglob("*")):
        try:
            label = os.getxattr(path, _LABEL, follow_symlinks=False)
        except OSError:
            continue
        if label.split(b":")[2:3] == [b"container_file_t"]:
            continue
        try:
            os.setxattr(path, _LABEL, _CONTAINER_FILE, follow_symlinks=False)
        except OSError as error:
            LOG.warning("'%s' keeps a label with which no container may read it: %s.", path, error.strerror)
            return
