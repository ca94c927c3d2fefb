"""What wakes the plugin: the kernel's uevents, and changes in the folders it watches.

inotify sees nothing of sysfs, and uevents say nothing of files; a slow rescan stands behind both.
"""

import asyncio
import contextlib
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path

import inotify_simple

_KOBJECT_UEVENT = 15
"""The netlink protocol of uevents (NETLINK_KOBJECT_UEVENT in linux/netlink.h)."""

_KERNEL_GROUP = 1
"""The multicast group to which the kernel sends; udev repeats the events on another."""

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


class KernelEvents:
    """Calls back when the kernel tells of a device that may be ours.

    Heard in every network namespace that the first user namespace owns, without any capability. There is no event for
    an isolated device, which is what the rescan is for.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> None:
        self._loop = loop
        self._told = told
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _KOBJECT_UEVENT)
        self._socket.setblocking(False)
        self._socket.bind((0, _KERNEL_GROUP))
        loop.add_reader(self._socket, self._read)

    def close(self) -> None:
        """Hear no more."""
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
                    # ENOBUFS: more came than the socket could hold, so anything may have happened.
                    relevant = True
                    continue
                relevant = relevant or concerns(message, sender[0])
        if relevant:
            self._told()


def concerns(message: bytes, sender: int) -> bool:
    """Whether a message is a uevent that may change what is offered.

    The kernel sends as process 0; any process may send to the group too, and is not believed. A uevent is its header,
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
    """Calls back when a name appears in, or disappears from, one of a few folders."""

    def __init__(self, loop: asyncio.AbstractEventLoop, told: Callable[[], None]) -> None:
        self._loop = loop
        self._told = told
        self._inotify = inotify_simple.INotify()
        self._watched: dict[Path, tuple[int, str]] = {}
        loop.add_reader(self._inotify.fileno(), self._read)

    def watch(self, folder: Path, prefix: str = "") -> None:
        """Watch a folder for names that begin so, even if it was replaced; one that is not there is passed over."""
        with contextlib.suppress(OSError):
            # Asked for each time: nothing changes where it is watched already, and a new folder can have the number of
            # the old one's inode.
            self._watched[folder] = (self._inotify.add_watch(os.fspath(folder), _FOLDER_CHANGES), prefix)

    def close(self) -> None:
        """Hear no more."""
        self._loop.remove_reader(self._inotify.fileno())
        self._inotify.close()

    def _read(self) -> None:
        prefixes = dict(self._watched.values())
        events = self._inotify.read(timeout=0)
        if any(event.name.startswith(prefixes.get(event.wd, "")) for event in events):
            self._told()
