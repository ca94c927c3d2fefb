"""A fake host: the parts of sysfs, /dev and /run/kae by which KAE devices are known, in a folder of a test.

Whatever changes, changes step by step in the kernel's order (tests/device_plugin/kernel.py), so that a program which
reads at the same time sees what it could see on a machine. Ready-made hosts are in tests/device_plugin/machines.py.
"""

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler import kae
from tests.device_plugin import functions, kernel, trees
from tests.device_plugin.functions import OWN, Function


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A function of the host as it is now."""

    function: Function
    driver: str | None = None
    entry: str | None = None
    """The name of its entry, such as hisi_hpre-2."""
    node: bool = False
    """True when /dev has its device node."""
    vfs: tuple[str, ...] = ()
    """The addresses of its virtual functions."""


class Pipe:
    """A pipe in the place of a file, whose reader waits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: int | None = None

    def is_read(self) -> bool:
        """Return whether somebody waits for the content; from then on the pipe has a writer."""
        with contextlib.suppress(OSError):  # ENXIO, fifo(7): nobody reads.
            self._writer = self._writer or os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)
        return self._writer is not None

    def close(self) -> None:
        """Let the reader see the end."""
        if self._writer is not None:
            os.close(self._writer)


class Host:
    """A host below `root`, with the folders sys, dev, run/kae and kubelet; `tell` hears of every kernel event.

    A device node leads to one of /dev/null, /dev/zero and the like, and has its numbers, as the entry says. Without
    `mknod` it is a link to it; with it, as root, a node of its own. Methods that take an address raise KeyError
    where no such function is plugged in, and ValueError where it has no entry and needs one.
    """

    def __init__(
        self,
        root: Path,
        *,
        numa_nodes: int = 2,
        mknod: bool = False,
        tell: Callable[[kernel.Event], None] = lambda _: None,
    ) -> None:
        """Makes a host without any device, where the module uacce is loaded."""
        self.sysfs, self.dev, self.run, self.kubelet = root / "sys", root / "dev", root / "run/kae", root / "kubelet"
        self._tree = trees.Tree(self.sysfs, root / "aside")
        self._kernel = kernel.Kernel(self._tree, self.dev, mknod=mknod, tell=tell)
        self._states: dict[str, State] = {}
        self._unplugged: dict[str, Function] = {}
        for folder in ("bus/pci/devices", "bus/pci/drivers/vfio-pci", "class/uacce"):
            (self.sysfs / folder).mkdir(parents=True)
        # The kubelet makes the folders that pods mount.
        for path in (self.dev, self.run, self.kubelet / "plugins_registry/kae"):
            path.mkdir(parents=True)
        for number in range(numa_nodes):
            distances = " ".join("10" if other == number else "20" for other in range(numa_nodes))
            self._tree.add_folder(f"devices/system/node/node{number}", {"distance": f"{distances}\n"})

    def states(self) -> dict[str, State]:
        """Every function by its address, in order."""
        return dict(sorted(self._states.items()))

    def node(self, address: str) -> Path:
        """Return the path of the device node of a function with an entry."""
        return self.dev / self._entry(address)

    def add(self, function: Function) -> None:
        """Plugs a function in, and binds the driver that it states."""
        if function.address in self._states:
            raise ValueError(f"{function.address} is taken")
        self._appear(function)
        self._bind_stated_driver(function)

    def add_foreign(self, address: str, vendor: str, device: str, kind: str = "0x020000") -> None:
        """Plugs in a PCI function that has nothing to do with KAE, by default a network card."""
        path = f"devices/pci{address[:7]}/{address}"
        files = {"vendor": f"0x{vendor}\n", "device": f"0x{device}\n", "class": f"{kind}\n", "numa_node": "0\n"}
        self._tree.add_folder(path, files, {"subsystem": "bus/pci"})
        self._tree.link(f"bus/pci/devices/{address}", path)

    def unplug(self, address: str) -> None:
        """Takes a function away, with its virtual functions."""
        if self._states[address].vfs:
            self.set_vfs(address, 0)
        self.unbind(address)
        self._unplugged[address] = self._states.pop(address).function
        self._kernel.disappear(self._unplugged[address])

    def replug(self, address: str) -> None:
        """Plugs a function in again, as it was stated when it was added."""
        self.add(self._unplugged.pop(address))

    def bind(self, address: str, driver: str = OWN, *, number: int | None = None) -> None:
        """Binds a driver; its own one gives it an entry, of the lowest free number where none is said."""
        function = self._states[address].function
        driver = function.kind.module if driver == OWN else driver
        self._kernel.attach(function, driver)
        self._change(address, driver=driver)
        if driver == function.kind.module and function.uacce:
            self._add_entry(address, self._free_number() if number is None else number)

    def unbind(self, address: str) -> None:
        """Takes the driver away, and with it the entry; there need be neither."""
        state = self._states[address]
        if state.entry:
            self._kernel.remove_entry(state.function, state.entry)
            self._change(address, entry=None, node=False)
        if state.driver:
            self._kernel.detach(state.function, state.driver)
            self._change(address, driver=None)

    def unload(self) -> None:
        """Unloads KAE's drivers and uacce: virtual functions go, and so does /sys/class/uacce."""
        for address, state in self.states().items():
            if state.vfs:
                self.set_vfs(address, 0)
        for address, state in self.states().items():
            if state.driver == state.function.kind.module:
                self.unbind(address)
        self._tree.remove_folder("class/uacce")

    def load(self) -> None:
        (self.sysfs / "class/uacce").mkdir()
        for address, state in self.states().items():
            if state.driver is None:
                self.bind(address)

    def renumber(self) -> None:
        """Gives every entry another number, as if the drivers had been loaded again in another order."""
        numbers = {kernel.number_of(state.entry): address for address, state in self._states.items() if state.entry}
        old = sorted(numbers)
        for number in old:
            self.unbind(numbers[number])
        for number, new in zip(old, [*old[1:], old[0]] if len(old) > 1 else [n + 1 for n in old], strict=True):
            self.bind(numbers[number], number=new)

    def set_vfs(self, address: str, count: int) -> None:
        """Enables so many virtual functions, as echo to sriov_numvfs does; to change the number, 0 comes first."""
        state = self._states[address]
        if count and state.vfs:
            raise ValueError(f"{len(state.vfs)} virtual functions are already enabled")
        for index, vf in enumerate(state.vfs):
            self._tree.remove(f"{state.function.path}/virtfn{index}")
            self.unplug(vf)
            del self._unplugged[vf]
        added = tuple(self._add_vf(state.function, index, count) for index in range(count))
        self._change(address, vfs=added)
        # The kernel changes the number last, drivers/pci/iov.c.
        self._tree.write(f"{state.function.path}/sriov_numvfs", f"{count}\n")

    def set_isolate(self, address: str, value: int) -> None:
        """Isolates a function (1) or not (0), or has the driver fail to tell (-1); VFs say what their PF says."""
        self._write_attribute(address, "isolate", value)
        for vf in self._states[address].vfs:
            if self._states[vf].entry:
                self.set_isolate(vf, value)

    def set_available_instances(self, address: str, free: int) -> None:
        self._write_attribute(address, "available_instances", free)

    @contextlib.contextmanager
    def hanging(self, address: str, attribute: str = "available_instances") -> Iterator["Pipe"]:
        """Lets whoever reads an attribute of the device wait: a pipe makes its reader wait for a writer."""
        file = self.sysfs / "class/uacce" / self._entry(address) / attribute
        text = file.read_text()
        file.unlink()
        os.mkfifo(file)
        pipe = Pipe(file)
        try:
            yield pipe
        finally:
            # Whoever waits gets the text, and so does whoever comes later.
            writer = os.open(file, os.O_RDWR)
            file.unlink()
            file.write_text(text)
            os.write(writer, text.encode())
            os.close(writer)
            pipe.close()

    def lend(self, address: str, group: int) -> None:
        """Binds a function to vfio-pci, in an IOMMU group of its own or with others, as driverctl does."""
        self.unbind(address)
        self.bind(address, "vfio-pci")
        node, numbers = functions.NODES[group % len(functions.NODES)]
        path = self._states[address].function.path
        self._tree.link(f"kernel/iommu_groups/{group}/devices/{address}", path)
        self._tree.link(f"{path}/iommu_group", f"kernel/iommu_groups/{group}")
        if not (self.dev / f"vfio/{group}").is_symlink():
            self._tree.add_folder(f"class/vfio/{group}", {"dev": f"{numbers}\n"})
            (self.dev / "vfio").mkdir(exist_ok=True)
            (self.dev / f"vfio/{group}").symlink_to(f"/dev/{node}")
        if not (self.dev / "vfio/vfio").is_symlink():
            (self.dev / "vfio/vfio").symlink_to("/dev/null")

    def share_group(self, address: str, group: int) -> None:
        self._tree.link(f"kernel/iommu_groups/{group}/devices/{address}", f"bus/pci/devices/{address}")

    def remove_node(self, address: str) -> None:
        self._kernel.remove_node(self._entry(address))
        self._change(address, node=False)

    def restore_node(self, address: str) -> None:
        self._kernel.add_node(self._entry(address))
        self._change(address, node=True)

    def half_bind(self, address: str, number: int) -> None:
        """Binds its own driver, and stops the kernel before the new entry has attributes and device node."""
        function = self._states[address].function
        self._kernel.attach(function, function.kind.module)
        self._change(address, driver=function.kind.module, entry=self._kernel.add_entry(function, number, whole=False))

    def set_driver_changing(self, reason: str | None) -> None:
        """Says that the installer changes the driver, or with None that it does so no longer."""
        file = self.run / "driver-changing"
        if reason is None:
            file.unlink(missing_ok=True)
        else:
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps({"reason": reason, "since": "2026-01-01T00:00:00Z"}))
            fresh.replace(file)

    def _appear(self, function: Function) -> None:
        self._states[function.address] = State(function=function)
        self._kernel.appear(function)

    def _bind_stated_driver(self, function: Function) -> None:
        if function.driver is not None:
            self.bind(function.address, function.driver)

    def _add_vf(self, physical: Function, index: int, count: int) -> str:
        # The first virtual function stands right behind its physical one, and so on (offset and stride are 1).
        domain, bus, place = physical.address.split(":")
        slot, _, number = place.partition(".")
        slot_and_number = (int(slot, 16) << 3 | int(number)) + 1 + index
        function = dataclasses.replace(
            physical,
            address=f"{domain}:{bus}:{slot_and_number >> 3:02x}.{slot_and_number & 7}",
            physical=False,
            queues=(kae.QUEUES.number - physical.queues) // count,
            parent=str(Path(physical.path).parent).removeprefix("devices/"),
        )
        self._appear(function)
        self._tree.link(f"{physical.path}/virtfn{index}", function.path)
        self._tree.link(f"{function.path}/physfn", physical.path)
        self._bind_stated_driver(function)
        return function.address

    def _add_entry(self, address: str, number: int) -> None:
        name = self._kernel.add_entry(self._states[address].function, number)
        self._change(address, entry=name, node=True)

    def _free_number(self) -> int:
        taken = {kernel.number_of(state.entry) for state in self._states.values() if state.entry}
        return next(number for number in range(len(taken) + 1) if number not in taken)

    def _write_attribute(self, address: str, name: str, value: int) -> None:
        function = self._states[address].function
        folder = "attrs/" if function.layout == "KAE 1" else ""
        self._tree.write(f"{function.path}/uacce/{self._entry(address)}/{folder}{name}", f"{value}\n")

    def _entry(self, address: str) -> str:
        name = self._states[address].entry
        if name is None:
            raise ValueError(f"{address} has no entry")
        return name

    def _change(self, address: str, **changes: Any) -> None:
        self._states[address] = dataclasses.replace(self._states[address], **changes)
