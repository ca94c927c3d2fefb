"""Fake machines: a host's root folder with an operating system's files, KAE devices, and programs that act on them.

Everything that a machine does stands in files below its root, so a test may kill whoever works on it, and go on.
"""

import copy
import hashlib
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from tests.device_plugin.functions import Function
from tests.installer import kernel as behind
from tests.installer import layouts, modulefiles, sourcetrees
from tests.installer.fakes import devices, disk, index, programs

KERNEL = "5.10.0-216.0.0.115.oe2203sp4.aarch64"
"""Of openEuler 22.03 LTS SP4."""

VOLATILE = ("proc", "sys", "dev", "run", "fake")
"""Folders that hold no files of the host."""


class Options(TypedDict, total=False):
    """The options of a machine."""

    functions: Sequence[Function]
    """By default two sockets."""
    smmu: bool
    """False: the firmware has it off."""
    mknod: bool
    """Device nodes are real ones, which takes root; by default regular files stand for them."""
    chroot: bool
    """The folder is a whole root with Python, in which programs run by chroot; depmod and modinfo are its own."""


class Machine:
    """A machine with no driver but the kernel's own, of which nothing is loaded yet; `reboot` loads what udev would."""

    def __init__(
        self, root: Path, kernel: str = KERNEL, os: str = "openEuler 22.03 (LTS-SP4)", **options: Unpack[Options]
    ) -> None:
        """Fills a folder, new or (with chroot) that of a root file system."""
        self.root = root
        self._chroot = options.get("chroot", False)
        self.host = behind.Host(root, chroot=self._chroot, inside=not self._chroot)
        self._disk = disk.Disk(str(root))
        self._boots = 0
        layouts.write_folders(root)
        layouts.place_programs(root, copied=self._chroot)
        layouts.write_system(root, os)
        self._start(kernel)
        self.add_kernel(kernel)
        known: dict[str, Any] = {**options}
        self._disk.keep("fake/machine", {key: known[key] for key in ("smmu", "mknod") if key in known})
        for function in options.get("functions", layouts.two_sockets()):
            layouts.plug_in(root, function)

    def copied(self, root: Path) -> "Machine":
        """The same machine once more, in another folder; not for one that is entered by chroot."""
        self._disk.copy_to(str(root))
        other = copy.copy(self)
        other.root, other.host, other._disk = root, behind.Host(root, inside=True), disk.Disk(str(root))
        return other

    @property
    def kernel(self) -> str:
        """The release that runs."""
        return self._disk.text("proc/sys/kernel/osrelease")

    def add_kernel(self, release: str) -> None:
        """Adds an installed kernel with its own modules."""
        layouts.add_kernel(self.root, release)
        self._depmod(release)

    def add_driver(self, version: str, folder: str = "extra") -> None:
        """Adds a driver's module files for the running kernel, and makes them known, as its package or build does."""
        for name, content in modulefiles.driver(version, self.kernel).items():
            layouts.put(self.root / f"lib/modules/{self.kernel}/{folder}/{name}", content)
        self._depmod(self.kernel)

    def add_module(self, name: str, content: bytes) -> None:
        """Adds a module file of others for the running kernel, and makes it known."""
        layouts.put(self.root / f"lib/modules/{self.kernel}/extra/{name}.ko", content)
        self._depmod(self.kernel)

    def set_options(self, **parameters: int) -> None:
        """Writes an options file for each kind's module."""
        text = " ".join(f"{name}={value}" for name, value in parameters.items())
        for name in modulefiles.DRIVER[2:]:
            layouts.put(self.root / f"etc/modprobe.d/{name}.conf", f"options {name} {text}\n".encode())

    def load(self, *modules: str) -> None:
        """Loads modules, by default the whole driver, as modprobe does; failures that are planned are not for it."""
        with behind.locked(self.root):
            acting = programs.Programs(str(self.root))
            for name in modules or modulefiles.DRIVER:
                acting.load(name, [])

    def unload(self) -> None:
        """Unloads whatever is loaded, the youngest first."""
        with behind.locked(self.root):
            acting = programs.Programs(str(self.root)).kernel
            for name in reversed(acting.loaded()):
                acting.remove(name)

    def loaded(self) -> dict[str, tuple[str | None, str]]:
        """The loaded modules in order, with version (the kernel's own have none) and srcversion."""
        names = [line.split()[0] for line in self._disk.text("proc/modules").splitlines()]
        folders = {name: f"sys/module/{name}" for name in reversed(names)}
        return {
            name: (self._disk.text(f"{folder}/version") or None, self._disk.text(f"{folder}/srcversion"))
            for name, folder in folders.items()
        }

    def parameters(self, module: str) -> dict[str, int]:
        """The parameters of a loaded module."""
        folder = f"sys/module/{module}/parameters"
        return {name: self._disk.number(f"{folder}/{name}") for name in self._disk.names(folder)}

    def entries(self) -> dict[str, str]:
        """The entries of the class uacce, with the address of their function."""
        folder = "sys/class/uacce"
        return {name: Path(self._disk.lead(f"{folder}/{name}")).parts[-3] for name in self._disk.names(folder)}

    def nodes(self) -> dict[str, int]:
        """The device nodes of entries, with their mode, such as 0o600."""
        return {path.name: path.stat().st_mode & 0o777 for path in sorted((self.root / "dev").glob("hisi_*"))}

    def groups(self) -> set[int]:
        """The groups of the device nodes of entries."""
        return {path.stat().st_gid for path in (self.root / "dev").glob("hisi_*")}

    def vfs(self, address: str) -> tuple[str, ...]:
        """The addresses of a function's virtual functions."""
        return tuple(devices.Devices(self._disk).vfs(address))

    def driver(self, address: str) -> str:
        """The driver that a function is bound to; empty without one."""
        return devices.Devices(self._disk).driver(address)

    def pass_through(self, address: str, driver: str = "vfio-pci") -> None:
        """Gives a function to a virtual machine; with an empty driver only takes it from the one that it has."""
        with behind.locked(self.root):
            devices.Devices(self._disk).unbind(address)
            if driver:
                devices.Devices(self._disk).bind(address, driver)
            programs.Programs(str(self.root)).kernel.remember()

    def map(self, pid: int, entry: str, comm: str = "openssl", cgroup: str = "0::/user.slice") -> None:
        """A process has an entry's node mapped, and has closed its descriptor."""
        self.hold(pid, entry, comm, cgroup)
        process = self.root / f"proc/{pid}"
        (process / "map_files").mkdir()
        (process / "fd/3").rename(process / "map_files/f000-12000")
        (process / "maps").write_text(
            "00400000-00452000 r-xp 00000000 103:01 26      /usr/bin/openssl\n"
            f"0000f000-00012000 rw-s 00000000 00:05 312     /dev/{entry}\n"
        )
        self._refresh()

    def open_unseen(self, entry: str, times: int = 1) -> None:
        """An entry's node is open so many times where /proc does not show it, as on the way through a socket."""
        self._disk.keep("fake/unseen", {entry: times})
        self._refresh()

    def let_start(self, **modules: str) -> None:
        """Lets these modules end their loading by an `oops`, or never (`hang`), until the machine is mended."""
        self._disk.keep("fake/starts.json", modules)

    def refuse_queues(self, **numbers: int) -> None:
        """Lets the nodes of modules, such as hisi_hpre, refuse queues with an errno; by default none does."""
        self._disk.keep(
            "fake/queues",
            {name: numbers[name.partition("-")[0]] for name in self.nodes() if name.partition("-")[0] in numbers},
        )

    def state_of(self, module: str) -> str:
        """Return the state of a module: live, coming, going, or empty."""
        return self._disk.text(f"sys/module/{module}/initstate")

    def hold(self, pid: int, entry: str, comm: str = "openssl", cgroup: str = "0::/user.slice") -> None:
        """A process has an entry's node open: stat of its fd/3 shows the entry's numbers, the link the node's name."""
        opened, node = self.root / "fake/open" / entry, self.root / "dev" / entry
        opened.unlink(missing_ok=True)
        if node.is_char_device():
            os.mknod(opened, node.stat().st_mode, node.stat().st_rdev)
        else:
            opened.symlink_to(f"/dev/{devices.STAND_INS[devices.number_of(entry) % len(devices.STAND_INS)][0]}")
        process = self.root / f"proc/{pid}"
        (process / "fd").mkdir(parents=True, exist_ok=True)
        (process / "comm").write_text(f"{comm}\n")
        (process / "cgroup").write_text(f"{cgroup}\n")
        (process / f"fd/{3 + len(list((process / 'fd').iterdir()))}").symlink_to(opened)
        self._refresh()

    def release(self, pid: int) -> None:
        """A process ends."""
        shutil.rmtree(self.root / f"proc/{pid}")
        self._refresh()

    def pin(self, module: str, references: int = 1) -> None:
        """Something else uses a module, so many times; 0 lets it go."""
        pins = self._disk.value("fake/pins.json", {}) | {module: references}
        self._disk.write("fake/pins.json", json.dumps(pins))
        self._refresh()

    def fail(self, command: str, text: str, code: int = 1, times: int | None = None) -> None:
        """Lets calls that begin with these words fail, so many times or (None) always."""
        failure = {"command": command, "text": text, "code": code, "times": times}
        self._disk.write("fake/failures.json", json.dumps([*self._disk.value("fake/failures.json", []), failure]))

    def refuse(self, module: str = "hisi_zip", times: int | None = 1) -> None:
        """Lets the kernel refuse a module when modprobe loads it, so many times or (None) always."""
        self.fail(f"modprobe {module}", f"modprobe: ERROR: could not insert '{module}': No such device", times=times)

    def mend(self) -> None:
        """Nothing fails or panics any more, and no module is dead when it is loaded again."""
        self._disk.remove("fake/failures.json")
        self._disk.remove("fake/panics.json")
        self._disk.remove("fake/dead.json")
        self._disk.remove("fake/starts.json")

    def let_die(self, *modules: str) -> None:
        """Lets these modules load, from now on, and give their functions no entries."""
        self._disk.write("fake/dead.json", json.dumps(modules))

    def let_panic(self, version: str, module: str = "hisi_zip") -> None:
        """Lets the kernel panic, from now on, when this version of a module is loaded, also at a boot."""
        self._disk.write("fake/panics.json", json.dumps([[module, version]]))

    def calls(self) -> list[str]:
        """The calls of the fake programs since the machine was made, or since they were last asked for."""
        made = self._disk.text("fake/calls").splitlines()
        self._disk.remove("fake/calls")
        return made

    def capture_initramfs(self) -> None:
        """Makes the initramfs of the running kernel anew, as dracut -f does: known modules and options go into it."""
        image = self.root / _initramfs(self.kernel)
        shutil.rmtree(image, ignore_errors=True)
        folder = f"lib/modules/{self.kernel}"
        shutil.copytree(self.root / folder, image / folder)
        shutil.copytree(self.root / "etc/modprobe.d", image / "etc/modprobe.d")

    def reboot(self, kernel: str | None = None) -> None:
        """Starts again, into the same kernel if none is named: what is not on disk goes, then udev loads by alias.

        The initramfs has the first word, when one was captured: its copies, its options.
        """
        with behind.locked(self.root):
            programs.Programs(str(self.root)).kernel.forget()
            for process in (self.root / "proc").glob("[0-9]*"):
                shutil.rmtree(process)
            for node in (self.root / "dev").glob("hisi_*"):
                node.unlink()
            for path in (self.root / "run").iterdir():
                self._disk.remove(f"run/{path.name}")
            self._start(kernel or self.kernel)
            acting = programs.Programs(str(self.root))
            image = self.root / _initramfs(self.kernel)
            if image.is_dir():
                acting.load_for_devices(disk.Disk(str(image)))
            acting.load_for_devices(self._disk)

    def files(self, *below: str) -> dict[str, tuple[int, str]]:
        """The host's files with mtime in ns and digest (of a link: its target), all or those below some folders."""
        tops = below or tuple(name for name in self._disk.names("") if name not in VOLATILE)
        found = {}
        for top, folders, names in (step for folder in tops for step in os.walk(self.root / folder)):
            for name in (*names, *(folder for folder in folders if Path(top, folder).is_symlink())):
                path = Path(top, name)
                content = str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
                stamp = path.lstat().st_mtime_ns
                found[str(path.relative_to(self.root))] = (stamp, hashlib.sha256(content).hexdigest())
        return found

    def add_image(self, folder: Path, version: str, *, prebuilt: bool = True) -> None:
        """Fills the root of an image with a driver: modules for the running kernel, source, and libraries."""
        if prebuilt:
            for name, content in modulefiles.driver(version, self.kernel).items():
                layouts.put(folder / f"opt/lib/modules/{self.kernel}/{name}", content)
        sourcetrees.write_driver(folder / "opt/src/kae", version)
        for name in ("lib/libwd.so.2", "lib/libwd_crypto.so.2", "lib/engines-1.1/kae.so", "lib/engines-3.0/kae.so"):
            layouts.put(folder / "opt/kae" / name, f"{name} {version}\n".encode())

    def image(self, version: str) -> Path:
        """Return the root of an image with a driver, beside the machine; it is filled for the first question."""
        folder = self.root.parent / f"driver-{version}"
        if not folder.exists():
            self.add_image(folder, version)
        return folder

    def _start(self, release: str) -> None:
        self._boots += 1
        self._disk.write("proc/sys/kernel/osrelease", f"{release}\n")
        self._disk.write("proc/sys/kernel/random/boot_id", f"{self._boots:08x}-0000-4000-8000-000000000000\n")
        self._disk.write("proc/modules", "")

    def _depmod(self, release: str) -> None:
        if self._chroot:
            self.host.run("depmod", "-a", release)  # The real modinfo reads the real one's binary index.
        else:
            index.Index(self._disk, release).write()

    def _refresh(self) -> None:
        with behind.locked(self.root):
            programs.Programs(str(self.root)).kernel.remember()


def _initramfs(release: str) -> str:
    return f"boot/initramfs-{release}.img"


def with_kae(root: Path, version: str = "2.0.1", **options: Unpack[Options]) -> Machine:
    """A machine on which KAE's driver is installed, as its package does it, and loaded."""
    machine = Machine(root, **options)
    machine.add_driver(version)
    machine.set_options(uacce_mode=2, pf_q_num=256)
    machine.load()
    return machine
