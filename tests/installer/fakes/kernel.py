"""The fake kernel: modules that are inserted and removed, and their files in /proc/modules and /sys/module.

What it remembers stands in fake/kernel; proc and sys are written from it. Refusals are OSErrors with the errno that
init_module(2) and delete_module(2) would give.
"""

import errno
import os
import stat

from tests.installer.fakes import devices, disk, index

TYPE_CHECKING = False  # As typing's, which would take as long to import as all of this.
if TYPE_CHECKING:
    from typing import Any

_SIZE = 262144
"""The size of KAE's modules, in bytes."""

_WAITING = "fake/waiting"
"""Holds the name of a module whose remove waits until none of its nodes is open."""

_UNFINISHED = "fake/unfinished"
"""Holds the name of a module while it comes or goes."""


class Panic(BaseException):
    """The kernel panics; nothing runs on until a test boots the machine."""


class Hangs(Exception):  # noqa: N818 - no error of ours
    """Whoever called the kernel does not come back, and no signal ends it."""


class Oops(Exception):  # noqa: N818 - no error of ours
    """The kernel has killed whoever called it."""


class Kernel:
    """The kernel of a host below a folder.

    fake/machine says what it runs on: `mknod` (device nodes are real ones), `smmu` (there is one, and it is on).
    fake/dead.json lists modules whose functions get no entry, fake/pins.json more references by module, and
    fake/panics.json the module (with its version) whose init panics, by whoever it is loaded. fake/starts.json says
    of modules how their loading ends: by an oops, or not (hang). fake/unseen has the open nodes that /proc hides.
    """

    def __init__(self, root: str) -> None:
        self.host = disk.Disk(root)
        self.devices = devices.Devices(self.host)
        self._loaded: list[dict[str, Any]] = self.host.value("fake/kernel", [])
        self._machine: dict[str, Any] = self.host.value("fake/machine", {})
        if name := self.host.text(_UNFINISHED):
            self._tear_down(name)  # A program was killed in the middle, where a real one is in the kernel's hands.
        if (waiting := self.host.text(_WAITING)) and not self.devices.uses(waiting):
            self.host.remove(_WAITING)
            self._tear_down(waiting)

    @property
    def release(self) -> str:
        """The release that runs."""
        return self.host.text("proc/sys/kernel/osrelease")

    def has(self, name: str) -> bool:
        """Return whether a module is loaded."""
        return any(module["name"] == name for module in self._loaded)

    def loaded(self) -> list[str]:
        """The loaded modules, in the order of loading."""
        return [module["name"] for module in self._loaded]

    def holders(self, name: str) -> list[str]:
        """The loaded modules that need a module, the youngest first, as /proc/modules has them."""
        return [module["name"] for module in reversed(self._loaded) if name in module["depends"]]

    def references(self, name: str) -> int:
        """A module's reference count: an open node counts in uacce, not in the module that serves it."""
        pins: int = self.host.value("fake/pins.json", {}).get(name, 0)
        # An open node counts for the module of its character device twice: cdev_get and fops_get of fs/char_dev.c.
        opened = 2 * self.devices.all_openings() if name == "uacce" else 0
        starting = self.host.text(f"sys/module/{name}/initstate") == "coming"
        return len(self.holders(name)) + self.devices.lent(name) + pins + opened + starting

    def insert(self, path: str, options: list[str]) -> None:
        """Loads the module of a file, whose dependencies are loaded; it takes the functions that it serves."""
        data = self.host.data(path)
        if data is None:
            raise _refusal(errno.ENOENT)
        info = index.modinfo(data)
        depends = [name for text in info.get("depends", []) for name in text.split(",") if name]
        self._check(info, depends)
        if [info["name"][0], info.get("version", [""])[0]] in self.host.value("fake/panics.json", []):
            raise Panic(path)
        module: dict[str, Any] = {
            "name": info["name"][0],
            "depends": depends,
            "kmi": info.get("kmi", [""])[0],
            "alias": info.get("alias", []),
            "in_tree": "intree" in info,
            "version": info.get("version", [""])[0],
            "srcversion": info.get("srcversion", [""])[0],
            "parameters": self._parameters(info, options),
            "node": info.get("node", []),
        }
        start = self.host.value("fake/starts.json", {}).get(module["name"])
        self.host.write(_UNFINISHED, "" if start else module["name"])
        self._loaded.append(module)
        if start:
            self._appear(module | {"alias": []})
            self.host.write(f"sys/module/{module['name']}/initstate", "coming\n")
            self.remember()
            raise Oops(module["name"]) if start == "oops" else Hangs(module["name"])
        self._appear(module)
        self.remember()
        self.host.remove(_UNFINISHED)

    def remove(self, name: str) -> None:
        """Unloads a module; its functions lose driver, entries and virtual functions."""
        if not self.has(name):
            raise _refusal(errno.ENOENT)
        if self.references(name):
            raise _refusal(errno.EWOULDBLOCK)
        if self.devices.uses(name):
            # hisi_qm's remove waits, for as long as a queue is open, in state D.
            self.host.write(f"sys/module/{name}/initstate", "going\n")
            self.host.write(_WAITING, name)
            raise Hangs(name)
        self.host.write(_UNFINISHED, name)
        self._tear_down(name)

    def set_vfs(self, address: str, count: int) -> None:
        """Does what writing to sriov_numvfs does; virtual functions are taken by the driver that serves them."""
        if count == len(self.devices.vfs(address)):
            return
        if refused := self.devices.why_not_vfs(address, count):
            raise _refusal(refused)
        self.devices.remove_vfs(address)
        added = self.devices.add_vfs(address, count) if count else []
        for vf in added:
            self.offer(vf)
        self.remember()

    def offer(self, address: str) -> None:
        """A function without driver is taken by the loaded module that serves it, if there is one."""
        for module in self._loaded:
            if index.serves(module["alias"], self.devices.modalias(address)):
                self._take(address, module)

    def remember(self) -> None:
        """Brings fake/kernel, /proc/modules and /sys/module in step with what is loaded and who uses it."""
        self.host.keep("fake/kernel", self._loaded)
        lines = []
        for module in reversed(self._loaded):
            name, holders = module["name"], self.holders(module["name"])
            users = "".join(f"{holder}," for holder in holders) or "-"
            count = self.references(name)
            taint = "" if module["in_tree"] else " (OE)"
            lines.append(f"{name} {_SIZE} {count} {users} Live 0x0000000000000000{taint}\n")
            self.host.change(f"sys/module/{name}/refcnt", f"{count}\n")
            folder = f"sys/module/{name}/holders"
            for gone in set(self.host.names(folder)) - set(holders):
                self.host.remove(f"{folder}/{gone}")
            for new in set(holders) - set(self.host.names(folder)):
                self.host.link(f"{folder}/{new}", f"sys/module/{new}")
        self.host.change("proc/modules", "".join(lines))

    def forget(self) -> None:
        """Everything goes as it does when the machine is switched off, save the functions themselves."""
        for address in self.devices.addresses():
            if self.host.exists(f"sys/bus/pci/devices/{address}/virtfn0"):
                self.devices.remove_vfs(address)
            self.devices.unbind(address)
        for module in self._loaded:
            self.host.remove(f"sys/bus/pci/drivers/{module['name']}")
        self.host.remove("sys/class/uacce")
        self.host.remove("sys/module")
        for path in ("fake/pins.json", "fake/unseen", _WAITING):
            self.host.remove(path)
        for module in self._loaded:
            for node in module["node"]:
                self.host.remove(node)
        self._loaded = []
        self.remember()

    def _make_node(self, place: str, numbers: str) -> None:
        if self._machine.get("mknod"):
            major, _, minor = numbers.partition(":")
            os.mknod(place, stat.S_IFCHR | 0o600, os.makedev(int(major), int(minor)))
        else:
            # A stand-in, as in devices.STAND_INS, which takes no root.
            os.symlink(os.path.relpath("/dev/full", f"{place}/.."), place)  # noqa: PTH211 - see above

    def _node_of(self, name: str) -> list[str]:
        return [node for module in self._loaded if module["name"] == name for node in module["node"]]

    def _tear_down(self, name: str) -> None:
        for address in self.devices.bound(name):
            self.devices.remove_vfs(address)
        for address in self.devices.bound(name):
            self.devices.unbind(address)
        self.host.remove(f"sys/bus/pci/drivers/{name}")
        if name == "uacce":
            self.host.remove("sys/class/uacce")
        self.host.remove(f"sys/module/{name}")
        for node in self._node_of(name):
            self.host.remove(node)
        self._loaded = [module for module in self._loaded if module["name"] != name]
        self.remember()
        self.host.remove(_UNFINISHED)

    def _check(self, info: dict[str, list[str]], depends: list[str]) -> None:
        if self.has(info["name"][0]):
            raise _refusal(errno.EEXIST)
        if info["vermagic"][0].split(" ")[0] != self.release:
            raise _refusal(errno.ENOEXEC)
        known = {module["name"]: module["kmi"] for module in self._loaded}
        if any(name not in known for name in depends):
            raise _refusal(errno.ENOENT)
        # "disagrees about version of symbol": check_version in kernel/module.c.
        if any(known[name] not in info.get("kmi", [""]) for name in depends):
            raise _refusal(errno.EINVAL)

    def _parameters(self, info: dict[str, list[str]], options: list[str]) -> "dict[str, Any]":
        given = dict(option.split("=", 1) for option in options)
        texts = dict(text.split(":", 1) for text in info.get("text", []))
        flags = dict(text.split(":", 1) for text in info.get("flag", []))
        values: dict[str, Any] = {name: given.get(name, default) for name, default in texts.items()}
        values |= {name: "Y" if given.get(name, default) in ("1", "Y") else "N" for name, default in flags.items()}
        return values | self._numbers(info, [option for option in options if option.split("=")[0] not in values])

    def _numbers(self, info: dict[str, list[str]], options: list[str]) -> dict[str, int]:
        ranges = [text.split(":") for text in info.get("range", [])]
        values = {name: int(default) for name, default, *_ in ranges}
        limits = {name: [int(number) for number in numbers] for name, _, *numbers in ranges}
        for option in options:
            name, _, word = option.partition("=")
            if name not in limits:
                continue  # Linux says so in its log.
            least, most, step = limits[name]
            if not word.isdecimal() or not least <= int(word) <= most or (int(word) - least) % step:
                raise _refusal(errno.EINVAL)
            values[name] = int(word)
        return values

    def _appear(self, module: "dict[str, Any]") -> None:
        name = module["name"]
        texts = {"initstate": "live\n", "refcnt": "0\n", "taint": "\n" if module["in_tree"] else "OE\n"}
        texts |= {key: f"{module[key]}\n" for key in ("version", "srcversion") if module[key]}
        texts |= {f"parameters/{key}": f"{value}\n" for key, value in module["parameters"].items()}
        self.host.add_folder(f"sys/module/{name}", texts, {})
        os.makedirs(self.host.at(f"sys/module/{name}/holders"))  # noqa: PTH103 - pathlib is slow to import
        if name == "uacce":
            os.makedirs(self.host.at("sys/class/uacce"))  # noqa: PTH103 - see above
        nodes = module["node"] if name not in self.host.value("fake/dead.json", []) else ()
        for node, (_, numbers) in zip(nodes, devices.STAND_INS, strict=False):
            self._make_node(self.host.at(node), numbers)
        if module["alias"]:
            self.host.link(f"sys/bus/pci/drivers/{name}/module", f"sys/module/{name}")
        for address in self.devices.addresses():
            if index.serves(module["alias"], self.devices.modalias(address)):
                count = module["parameters"].get("vfs_num", 0)
                if count > self.devices.most_vfs(address) and "virtual" in self.devices.known(address):
                    continue  # A probe fails with its virtual functions, hisi_zip_probe in KAE's zip_main.c.
                self._take(address, module)
                if count:
                    self._enable(address, count)

    def _enable(self, address: str, count: int) -> None:
        # The driver enables them itself when it takes a physical function (vfs_num of hisi_qm_sriov_enable).
        if "virtual" in self.devices.known(address) and not self.devices.vfs(address):
            for vf in self.devices.add_vfs(address, count):
                self.offer(vf)

    def _take(self, address: str, module: "dict[str, Any]") -> None:
        function = self.devices.known(address)
        if self.devices.driver(address) or not function:
            return
        self.devices.bind(address, module["name"])
        mode, smmu = module["parameters"].get("uacce_mode", 0), self._machine.get("smmu", True)
        dead = module["name"] in self.host.value("fake/dead.json", [])
        if mode == 0 or (mode == 1 and not smmu) or dead or not function["uacce"]:
            return
        attributes: dict[str, str | None] = {"flags": f"{_flags(mode, module['in_tree'], smmu)}\n"}
        if queues := self.devices.queues(address, module["parameters"]["pf_q_num"]):
            attributes["available_instances"] = f"{queues}\n"
        if not smmu:
            attributes["api"] = f"{function['api']}_noiommu\n"
        if module["in_tree"]:
            attributes |= {"node_id": None, "numa_distance": None}  # Only KAE's uacce.c has them.
        self.devices.add_entry(address, attributes, mknod=self._machine.get("mknod", False))


def _flags(mode: int, in_tree: bool, smmu: bool) -> int:
    """The attribute flags: 1 is SVA; KAE adds 2 (no IOMMU) and 128 (IOMMU)."""
    if mode == 1:
        return 1 if in_tree else 129
    return 128 if smmu else 2


def _refusal(number: int) -> OSError:
    return OSError(number, os.strerror(number))
