"""PCI functions, their entries in the class uacce and the device nodes, as kernel and udev create and remove them.

What a function is, and the texts of its files, stand in fake/functions/<address>; how it is now, in sysfs.
"""

import errno
import os
import stat

from tests.installer.fakes import disk, udev

TYPE_CHECKING = False  # As typing's, which would take as long to import as all of this.
if TYPE_CHECKING:
    from typing import Any

STAND_INS = (
    ("null", "1:3"),
    ("zero", "1:5"),
    ("full", "1:7"),
    ("random", "1:8"),
    ("urandom", "1:9"),
    ("ptmx", "5:2"),
)
"""Device nodes that every machine has, with numbers, for entries 0 to 5 and again: admin-guide/devices.txt of Linux.

The last is there so that the six devices of two sockets have six different numbers.
"""

ALL_QUEUES = 1024
"""Queues of a device, which its physical function and its virtual ones share."""

_BUS = "sys/bus/pci"


def modalias(vendor: str, device: str) -> str:
    """Return the start of a device's modalias, from its vendor and device IDs as sysfs shows them."""
    return f"pci:v{int(vendor, 16):08X}d{int(device, 16):08X}"


def number_of(entry: str) -> int:
    """The number at the end of an entry's name."""
    return int(entry.rpartition("-")[2])


class Devices:
    """The functions of a host."""

    def __init__(self, host: disk.Disk) -> None:
        self._host = host

    def addresses(self) -> list[str]:
        """All functions, in order."""
        return self._host.names(f"{_BUS}/devices")

    def modalias(self, address: str) -> str:
        """Return the start of a function's modalias."""
        return modalias(*(self._host.text(f"{_BUS}/devices/{address}/{name}") for name in ("vendor", "device")))

    def driver(self, address: str) -> str:
        """The driver that a function is bound to; empty without one."""
        return self._host.lead(f"{_BUS}/devices/{address}/driver").rpartition("/")[2]

    def bound(self, driver: str) -> list[str]:
        """The functions of a driver."""
        return [address for address in self.addresses() if self.driver(address) == driver]

    def vfs(self, address: str) -> list[str]:
        """The virtual functions of a function, in the order of their numbers."""
        folder = f"{_BUS}/devices/{address}"
        links = [name for name in self._host.names(folder) if name.startswith("virtfn")]
        return [self._host.lead(f"{folder}/{name}").rpartition("/")[2] for name in sorted(links, key=len)]

    def known(self, address: str) -> "dict[str, Any]":
        """Return the values that a test set for a function; empty for functions that do not belong to KAE."""
        found: dict[str, Any] = self._host.value(f"fake/functions/{address}", {})
        return found

    def bind(self, address: str, driver: str) -> None:
        """A driver takes a function."""
        path = self._path(address)
        event = self._host.text(f"{path}/uevent")
        self._host.link(f"{path}/driver", f"{_BUS}/drivers/{driver}")
        self._host.link(f"{_BUS}/drivers/{driver}/{address}", path)
        self._host.write(f"{path}/uevent", f"DRIVER={driver}\n{event}\n")

    def unbind(self, address: str) -> None:
        """A function loses its driver, and with it its entry; there need be neither."""
        path, driver = self._path(address), self.driver(address)
        for entry in self.entries(address):
            self._host.remove(f"sys/class/uacce/{entry}")
            self._host.remove(f"dev/{entry}")
        self._host.remove(f"{path}/uacce")
        if driver:
            lines = self._host.text(f"{path}/uevent").splitlines()
            self._host.remove(f"{_BUS}/drivers/{driver}/{address}")
            self._host.remove(f"{path}/driver")
            self._host.write(f"{path}/uevent", "".join(f"{line}\n" for line in lines if not line.startswith("DRIVER=")))

    def entries(self, address: str) -> list[str]:
        """The entry of a function, if it has one."""
        return self._host.names(f"{self._path(address)}/uacce")

    def add_entry(self, address: str, attributes: dict[str, str | None], *, mknod: bool) -> None:
        """A function gets an entry of the lowest free number; attributes differ as said, None for those not there."""
        function = self.known(address)
        taken = {number_of(entry) for entry in self._host.names("sys/class/uacce")}
        number = next(number for number in range(len(taken) + 1) if number not in taken)
        name = f"{function['prefix']}-{number}"
        numbers = STAND_INS[number % len(STAND_INS)][1]
        major, _, minor = numbers.partition(":")
        files = {}
        for path, text in function["entry"].items():
            value = attributes.get(path.rpartition("/")[2], text)
            if value is not None:
                files[path] = value.replace("@NAME@", name).replace("@MAJOR@", major).replace("@MINOR@", minor)
        folder = f"{self._path(address)}/uacce/{name}"
        up = "/".join([".."] * (folder.count("/")))  # From the entry's folder to sys.
        self._host.add_folder(folder, files, {"subsystem": f"{up}/class/uacce", "device": f"../../../{address}"})
        self._host.link(f"sys/class/uacce/{name}", folder)
        if mknod:
            os.mknod(self._host.at(f"dev/{name}"), stat.S_IFCHR | 0o600, os.makedev(int(major), int(minor)))
        else:
            self._host.write(f"dev/{name}", "", 0o600)
        udev.apply(self._host, "add", name)

    def add_vfs(self, address: str, count: int) -> list[str]:
        """A function gets virtual functions, right behind it on the bus (offset and stride are 1)."""
        shape, path = self.known(address)["virtual"], self._path(address)
        bus, _, place = address.rpartition(":")
        slot, _, number = place.partition(".")
        first = (int(slot, 16) << 3 | int(number)) + 1
        added = []
        for index in range(count):
            vf = f"{bus}:{(first + index) >> 3:02x}.{(first + index) & 7}"
            folder = f"{path.rpartition('/')[0]}/{vf}"
            up = "/".join([".."] * folder.count("/"))
            files = {name: text.replace("@ADDRESS@", vf) for name, text in shape["pci"].items()}
            self._host.add_folder(folder, files, {"subsystem": f"{up}/bus/pci", "physfn": f"../{address}"})
            self._host.link(f"{_BUS}/devices/{vf}", folder)
            self._host.link(f"{path}/virtfn{index}", folder)
            self._host.keep(f"fake/functions/{vf}", shape["function"])
            added.append(vf)
        self._host.write(f"{path}/sriov_numvfs", f"{count}\n")
        return added

    def remove_vfs(self, address: str) -> None:
        """A function's virtual functions go; what they have by a driver goes first."""
        path = self._path(address)
        for index, vf in enumerate(self.vfs(address)):
            self.unbind(vf)
            folder = self._path(vf)
            self._host.remove(f"{path}/virtfn{index}")
            self._host.remove(f"{_BUS}/devices/{vf}")
            self._host.remove(folder)
            self._host.remove(f"fake/functions/{vf}")
        self._host.change(f"{path}/sriov_numvfs", "0\n")

    def most_vfs(self, address: str) -> int:
        """How many virtual functions a function can have."""
        return self._host.number(f"{_BUS}/devices/{address}/sriov_totalvfs")

    def why_not_vfs(self, address: str, count: int) -> int:
        """The errno by which the kernel refuses so many, or 0: drivers/pci/iov.c, and the driver's own checks."""
        if not 0 <= count <= self.most_vfs(address):
            return errno.ERANGE
        if not self.driver(address):
            return errno.ENOENT
        if count and self.vfs(address):
            return errno.EBUSY
        if any(self.driver(vf) not in ("", self.driver(address)) for vf in self.vfs(address)):
            return errno.EPERM  # "Failed to disable VFs as VFs are assigned!"
        held = any(self.openings(entry) for vf in self.vfs(address) for entry in self.entries(vf))
        return errno.EBUSY if held else 0  # "Task is using its VF!"

    def queues(self, address: str, of_physical: int) -> int | None:
        """The queues of a function: its own, or its part of what its physical function leaves; None: as it was told."""
        if "virtual" in self.known(address):
            return of_physical
        physical = self._host.lead(f"{_BUS}/devices/{address}/physfn").rpartition("/")[2]
        return (ALL_QUEUES - of_physical) // len(self.vfs(physical)) if physical else None

    def openings(self, entry: str) -> int:
        """How often a node is open or mapped: links below /proc/<pid> whose last part is its name, and those unseen."""
        found: int = self._host.value("fake/unseen", {}).get(entry, 0)
        for process in self._host.names("proc"):
            for folder in (f"proc/{process}/fd", f"proc/{process}/map_files") if process.isdecimal() else ():
                opened = (self._host.lead(f"{folder}/{number}") for number in self._host.names(folder))
                found += sum(target.rpartition("/")[2] == entry for target in opened)
        return found

    def all_openings(self) -> int:
        """How often any node is open."""
        return sum(self.openings(entry) for entry in self._host.names("sys/class/uacce"))

    def uses(self, driver: str) -> int:
        """How often nodes of a driver's functions are open."""
        return sum(self.openings(entry) for address in self.bound(driver) for entry in self.entries(address))

    def lent(self, driver: str) -> int:
        """The number of virtual functions of a driver's functions that are in other drivers' hands."""
        return sum(self.driver(vf) not in ("", driver) for address in self.bound(driver) for vf in self.vfs(address))

    def _path(self, address: str) -> str:
        target = self._host.lead(f"{_BUS}/devices/{address}")
        return f"sys/{target.removeprefix('../../../')}" if target else f"sys/devices/gone/{address}"
