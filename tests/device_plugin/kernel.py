"""The steps by which the kernel brings PCI functions and their entries into sysfs and /dev, and takes them away.

Order: drivers/base/core.c (device_add, device_del) and drivers/pci/iov.c; with one difference: an entry has its
attributes before it is listed in its class, where the kernel lists it a moment earlier.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.device_plugin import functions, trees
from tests.device_plugin.functions import Function

Action = Literal["add", "remove", "bind", "unbind"]
Subsystem = Literal["pci", "uacce"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An event of the kernel on its netlink socket."""

    action: Action
    path: str
    subsystem: Subsystem

    def message(self) -> bytes:
        """The datagram; lib/kobject_uevent.c."""
        variables = (f"ACTION={self.action}", f"DEVPATH={self.path}", f"SUBSYSTEM={self.subsystem}", "SEQNUM=1")
        return b"".join(text.encode() + b"\0" for text in (f"{self.action}@{self.path}", *variables))


class Kernel:
    """Knows no state but what is in the folders; `tell` hears of every event after the change."""

    def __init__(self, tree: trees.Tree, dev: Path, *, mknod: bool, tell: Callable[[Event], None]) -> None:
        self._tree = tree
        self._dev = dev
        self._mknod = mknod
        self._tell = tell

    def appear(self, function: Function) -> None:
        """A function comes to the bus."""
        self._tree.add_folder(function.path, functions.pci_files(function), {"subsystem": "bus/pci"})
        self._tree.link(f"bus/pci/devices/{function.address}", function.path)
        self._told("add", function.path, "pci")

    def disappear(self, function: Function) -> None:
        """A function without driver leaves the bus."""
        self._tree.remove(f"bus/pci/devices/{function.address}")
        self._tree.remove_folder(function.path)
        self._told("remove", function.path, "pci")

    def attach(self, function: Function, driver: str) -> None:
        """A driver is bound to a function."""
        self._tree.link(f"{function.path}/driver", f"bus/pci/drivers/{driver}")
        self._tree.link(f"bus/pci/drivers/{driver}/{function.address}", function.path)
        self._tree.write(f"{function.path}/uevent", functions.pci_event(function, driver))
        self._told("bind", function.path, "pci")

    def detach(self, function: Function, driver: str) -> None:
        """A driver is unbound from a function that has no entry any more."""
        self._tree.remove(f"bus/pci/drivers/{driver}/{function.address}")
        self._tree.remove(f"{function.path}/driver")
        self._tree.write(f"{function.path}/uevent", functions.pci_event(function, None))
        self._told("unbind", function.path, "pci")

    def add_entry(self, function: Function, number: int, *, whole: bool = True) -> str:
        """A function gets an entry, whose name is the answer; one that is not whole lacks attributes and node."""
        name = f"{function.entry_prefix}-{number}"
        path = f"{function.path}/uacce/{name}"
        files = functions.entry_files(function, name, _node(number)[1]) if whole else {}
        # The kernel names the parent in `device`, as ../../../<address>.
        self._tree.add_folder(path, files, {"subsystem": "class/uacce"}, {"device": f"../../../{function.address}"})
        self._tree.link(f"class/uacce/{name}", path)
        if whole:
            self.add_node(name)
            self._told("add", path, "uacce")
        return name

    def remove_entry(self, function: Function, name: str) -> None:
        """A function's entry goes."""
        path = f"{function.path}/uacce/{name}"
        self.remove_node(name)
        self._tree.remove(f"class/uacce/{name}")
        self._tree.remove_folder(path)
        self._tree.remove_if_empty(f"{function.path}/uacce")
        self._told("remove", path, "uacce")

    def add_node(self, name: str) -> None:
        """An entry's device node comes: a stand-in of the numbers that the entry has."""
        node, numbers = _node(number_of(name))
        if self._mknod:
            major, _, minor = numbers.partition(":")
            os.mknod(self._dev / name, stat.S_IFCHR | 0o600, os.makedev(int(major), int(minor)))
        else:
            (self._dev / name).symlink_to(f"/dev/{node}")

    def remove_node(self, name: str) -> None:
        """An entry's device node goes; it need not be there."""
        (self._dev / name).unlink(missing_ok=True)

    def _told(self, action: Action, path: str, subsystem: Subsystem) -> None:
        self._tell(Event(action=action, path=f"/{path}", subsystem=subsystem))


def number_of(name: str) -> int:
    return int(name.rpartition("-")[2])


def _node(number: int) -> tuple[str, str]:
    return functions.NODES[number % len(functions.NODES)]
