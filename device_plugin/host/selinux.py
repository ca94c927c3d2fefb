"""The SELinux label of folders that containers mount: by that of /run they may not read them."""

import logging
import os
from pathlib import Path

LOG = logging.getLogger(__name__)

_LABEL = "security.selinux"
"""The extended attribute (xattr(7)); a file system without SELinux has none of that name."""

_CONTAINER_FILE = b"system_u:object_r:container_file_t:s0\0"
"""What a container may read, whatever its categories (container_selinux(8))."""


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
