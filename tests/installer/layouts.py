"""The layout of a fake host: functions that create its folders, fake programs, kernels and PCI functions."""

import dataclasses
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.device_plugin import functions, trees
from tests.device_plugin import kernel as plugged
from tests.device_plugin import machines as racks
from tests.device_plugin.functions import Function
from tests.installer import modulefiles
from tests.installer.fakes import disk

PROGRAMS = ("modprobe", "rmmod", "udevadm", "depmod", "modinfo")
"""The fake programs; a root file system that is entered by chroot keeps its own last two."""

_FAKES = Path(__file__).resolve().parent / "fakes"
_COPY = "usr/lib/fake-kmod/tests/installer/fakes"

_FOLDERS = (
    *("dev", "etc/modprobe.d", "fake/bin", "fake/open", "opt", "proc", "run", "tmp", "usr/bin", "usr/lib", "usr/sbin"),
    *("sys/bus/pci/devices", "sys/bus/pci/drivers/vfio-pci", "sys/module"),
    *(f"var/lib/kubelet/{name}" for name in ("device-plugins", "plugins_registry", "pod-resources")),
)

_IN_TREE: Mapping[str, str] = MappingProxyType(
    {
        "uacce": "misc/uacce/uacce",
        "hisi_qm": "crypto/hisilicon/hisi_qm",
        "hisi_hpre": "crypto/hisilicon/hpre/hisi_hpre",
        "hisi_sec2": "crypto/hisilicon/sec2/hisi_sec2",
        "hisi_zip": "crypto/hisilicon/zip/hisi_zip",
        "hisi_acc_vfio_pci": "vfio/pci/hisilicon/hisi-acc-vfio-pci",
    }
)
"""The paths of the kernel's own modules below its folder drivers."""


@functools.cache
def two_sockets() -> tuple[Function, ...]:
    """The functions of a Kunpeng 920 with two sockets: an HPRE, a SEC and a ZIP in each."""
    with tempfile.TemporaryDirectory() as folder:
        states = racks.bare_metal(Path(folder)).states()
    return tuple(state.function for state in states.values())


def put(path: Path, content: bytes) -> None:
    """Write a file and create its folders; replace a link."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_bytes(content)


def write_folders(root: Path) -> None:
    """Create the missing folders of a host."""
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    if not (root / "lib").exists():
        (root / "lib").symlink_to("usr/lib")


def write_system(root: Path, title: str) -> None:
    """Write the name of the operating system, such as openEuler 22.03 (LTS-SP4)."""
    name, _, version = title.partition(" ")
    lines = {"NAME": name, "VERSION": version, "ID": name, "VERSION_ID": version.split(" ")[0], "PRETTY_NAME": title}
    put(root / "etc/os-release", "".join(f'{key}="{value}"\n' for key, value in lines.items()).encode())
    # openEuler's own order, which the fake depmod has too.
    put(root / "etc/depmod.d/dist.conf", b"search updates extra built-in weak-updates\n")


def place_programs(root: Path, *, copied: bool = False) -> None:
    """Put the fake programs into a host; copies also run by chroot, if the root has a Python."""
    if copied:
        shutil.copytree(_FAKES, root / _COPY, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        _link(root / "fake/bin/python3", os.path.realpath(sys.executable))
    target = root / _COPY if copied else _FAKES
    for name in PROGRAMS[: 3 if copied else None]:
        # Relative, so that it leads to the same place from inside and from outside.
        _link(root / "usr/sbin" / name, os.path.relpath(target / "kmod.py", (root / "usr/sbin").resolve()))


def add_kernel(root: Path, release: str) -> None:
    """Add the folder of a kernel with its own modules, without an index."""
    folder = root / "lib/modules" / release
    made = modulefiles.driver(modulefiles.IN_TREE, release, *_IN_TREE)
    for name, path in _IN_TREE.items():
        put(folder / f"kernel/drivers/{path}.ko", made[f"{name}.ko"])
    for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
        put(folder / name, b"")  # The real depmod asks for them.


def plug_in(root: Path, function: Function) -> None:
    """Add a PCI function without a driver, and its state with a driver for the fake kernel."""
    tree = trees.Tree(root / "sys", root / "fake/aside")
    plugged.Kernel(tree, root / "dev", mknod=False, tell=lambda _: None).appear(function)
    known = _known(function)
    if function.physical:
        virtual = dataclasses.replace(function, address="@ADDRESS@", physical=False)
        known["virtual"] = {"pci": functions.pci_files(virtual), "function": _known(virtual)}
    disk.Disk(str(root)).keep(f"fake/functions/{function.address}", known)


def _known(function: Function) -> dict[str, Any]:
    return {
        "prefix": function.entry_prefix,
        "uacce": function.uacce,
        "api": function.api.removesuffix("_noiommu"),
        "entry": functions.entry_files(function, "@NAME@", "@MAJOR@:@MINOR@"),
    }


def _link(place: Path, target: str) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
