"""The events that wake the plugin: the kernel's uevents, and changes in watched folders.

inotify does not work on sysfs, and uevents say nothing of files; a slow rescan backs up both.
"""

import asyncio
import contextlib
import errno
import logging
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import inotify_simple

LOG = logging.getLogger(__name__)

_KOBJECT_UEVENT = 15
"""The netlink protocol of uevents (NETLINK_KOBJECT_UEVENT in linux/netlink.h)."""

_KERNEL_GROUP = 1
"""The multicast group of the kernel; udev repeats the events on another."""

_LONGEST = 64 * 1024

_SUBSYSTEMS = ("pci", "uacce")

_MODULE = re.compile(r"/(module|bus/pci/drivers)/")

_FOLDER_CHANGES = (
    inotify_simple.flags.CREATE
    | inotify_simple.flags.DELETE
    | inotify_simple.flags.MOVED_TO
    | inotify_simple.flags.MOVED_FROM
    | inotify_simple.flags.DELETE_SELF
)

_USED_UP = (
    "Folders cannot be watched (%s), so what changes in them is only seen at the next scan: raise"
    " fs.inotify.max_user_instances or fs.inotify.max_user_watches of the node."
)


class KernelEvents:
    """Call back when the kernel reports a change of a device that may be an accelerator.

    The kernel sends uevents to every network namespace that the first user namespace owns, and receiving them takes no
    capability. It sends none for an isolated device: the rescan finds those.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._loop = loop
        self._changed = changed
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT)
        self._socket.setblocking(False)
        self._socket.bind((0, _KERNEL_GROUP))
        loop.add_reader(self._socket, self._read)

    def close(self) -> None:
        """Stop calling back."""
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        relevant = False
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    message, sender = self._socket.recvfrom(_LONGEST)
                except BlockingIOError:
                    raise
                except OSError:
                    # ENOBUFS: the socket overflowed, so any event may be lost.
                    relevant = True
                    continue
                relevant = relevant or concerns(message, sender[0])
        if relevant:
            self._changed()


def concerns(message: bytes, sender: int) -> bool:
    """Return whether a message is a uevent that may change the advertised devices.

    The kernel sends as process 0; messages of other processes to the group are ignored. A uevent is its header,
    action@path, and then KEY=value, each ended by a zero byte (lib/kobject_uevent.c).
    """
    if sender != 0:
        return False
    header, *pairs = message.decode("utf-8", "replace").split("\0")
    values = dict(pair.partition("=")[::2] for pair in pairs)
    if values.get("SUBSYSTEM") in _SUBSYSTEMS:
        return True
    return _MODULE.search(header) is not None and "hisi" in header


class FolderEvents:
    """Call back when a name appears in, or disappears from, a watched folder."""

    def __init__(self, loop: asyncio.AbstractEventLoop, changed: Callable[[], None]) -> None:
        self._loop = loop
        self._changed = changed
        self._inotify: inotify_simple.INotify | None = None
        self._watched: dict[Path, tuple[int, tuple[str, ...]]] = {}
        self._warned = False

    def watch(self, folder: Path, *prefixes: str) -> None:
        """Watch a folder for names with one of these prefixes, or for all; a missing folder is skipped."""
        # Where the node's instances or watches are used up (inotify(7)), warn once; the next call tries again.
        try:
            if self._inotify is None:
                self._inotify = inotify_simple.INotify()
                self._loop.add_reader(self._inotify.fileno(), self._read, self._inotify)
            # Repeating it changes nothing for a watched folder, and a new folder can have the inode number of the old
            # one.
            self._watched[folder] = (self._inotify.add_watch(os.fspath(folder), _FOLDER_CHANGES), prefixes or ("",))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENOSPC, errno.ENOMEM) and not self._warned:
                self._warned = True
                LOG.warning(_USED_UP, error.strerror)

    def close(self) -> None:
        """Stop calling back."""
        if self._inotify is not None:
            self._loop.remove_reader(self._inotify.fileno())
            self._inotify.close()

    def _read(self, inotify: inotify_simple.INotify) -> None:
        prefixes = dict(self._watched.values())
        events = inotify.read(timeout=0)
        if any(event.name.startswith(prefixes.get(event.wd, ("",))) for event in events):
            self._changed()
