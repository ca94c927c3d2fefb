"""Stacks of recipes on a fake host: module files, images in the layout of kmod images, and configs of their drivers."""

import copy
from pathlib import Path
from typing import Any

from runtime import driver_config
from tests.installer import kernel as behind
from tests.installer import layouts, machines, modulefiles
from tests.installer.machines import Machine

NODES = ("/dev/onload",)
RESOURCES = ("amd.com/onload", "amd.com/onload-latency")

KMOD: dict[str, Any] = {
    "recipe": "simple-kmod",
    "policy": "lab",
    "pool": "lab",
    "driver_version": "1.0",
    "modules": ("simple_kmod", "simple_procfs_kmod"),
    "module_parameters": {"simple_procfs_kmod": {"number": 7}},
    "payloads": (driver_config.Payload(name="modules", paths=("/opt/lib/modules",)),),
}
"""The config of two small modules without a device."""

ONLOAD: dict[str, Any] = KMOD | {
    "recipe": "onload",
    "policy": "desk",
    "pool": "desk",
    "modules": ("sfc", "onload"),
    "module_parameters": {},
    "module_rules": {"sfc": {"replaces": ("sfc",), "network": True}},
    "payloads": (
        driver_config.Payload(name="modules", paths=("/opt/lib/modules",)),
        driver_config.Payload(name="user", paths=("/opt/onload",)),
    ),
    "nodes": NODES,
    "files": (driver_config.HostFiles(from_="/opt/onload", to="/opt/onload"),),
    "resources": RESOURCES,
}
"""The config of two modules over a kernel's own one, of a device node, and of files in user space."""

WITHOUT_SFC: dict[str, Any] = {"modules": ("onload",), "module_rules": {}, "left_out": ("sfc",)}
"""The changes of a policy that leaves the kernel's own module alone."""

SFC = "kernel/drivers/net/ethernet/sfc/sfc.ko"
"""The path of the kernel's own module below its folder."""


def module(name: str, version: str, kernel: str = machines.KERNEL, **keys: str) -> bytes:
    """A module file; `keys` are further ones of .modinfo, such as depends, node, range, flag, text and parm."""
    known = modulefiles.ModuleFile(name=name, version=version, kernel=kernel)
    own = {"intree": "Y"} if version == modulefiles.IN_TREE else {"version": version}
    made = {"depends": "", **own, "kmi": "all", "srcversion": known.srcversion, **keys, "name": name}
    entries = (made | {"vermagic": f"{kernel} SMP"}).items()
    # A key may have several values, as a module several nodes.
    info = b"".join(f"{key}={text}\0".encode() for key, value in entries for text in value.split(";"))
    return modulefiles.packed(info, name, filter(None, made["depends"].split(",")))


def kmod_files(version: str, kernel: str = machines.KERNEL) -> dict[str, bytes]:
    """The module files of simple-kmod by name, which has a hyphen where the kernel's name has an underscore."""
    return {
        "simple-kmod.ko": module("simple_kmod", version, kernel),
        "simple-procfs-kmod.ko": module("simple_procfs_kmod", version, kernel, range="number:42:0:9999:1"),
    }


def onload_files(version: str, kernel: str = machines.KERNEL) -> dict[str, bytes]:
    """The module files of Onload by name: the config names two of the four."""
    nodes = "dev/onload;dev/onload_epoll"
    return {
        "sfc.ko": module("sfc", version, kernel),
        "sfc_resource.ko": module("sfc_resource", version, kernel, depends="sfc"),
        "sfc_char.ko": module("sfc_char", version, kernel, depends="sfc_resource"),
        "onload.ko": module("onload", version, kernel, depends="sfc_char,sfc_resource,sfc", node=nodes),
    }


def apart(version: str) -> dict[str, bytes]:
    """The module files of an Onload that does not need its own sfc."""
    return {"sfc.ko": module("sfc", version), "onload.ko": module("onload", version, node="dev/onload")}


def sharing(name: str, version: str) -> dict[str, bytes]:
    """The files of a module that needs another one, which another recipe may bring, too."""
    return {
        f"{name}.ko": module(name, "1.0", depends="shared"),
        "shared.ko": module("shared", version, range="number:42:0:9999:1"),
    }


def recipe(name: str, **changes: Any) -> dict[str, Any]:
    """The config of a recipe with one module of its name."""
    return KMOD | {"recipe": name, "policy": name, "pool": name, "modules": (name,), "module_parameters": {}} | changes


def payload(image: Path, name: str, files: dict[str, bytes], kernel: str = machines.KERNEL) -> Path:
    """Put module files into a payload as an init container copies them out of a kmod image; return the image."""
    for file, content in files.items():
        layouts.put(image / "payload" / name / "opt/lib/modules" / kernel / "extra" / file, content)
    return image


def user(image: Path, version: str) -> Path:
    """Put Onload's user space into the payload `user`; return the image."""
    top = image / "payload/user/opt/onload"
    layouts.put(top / "usr/lib64/libonload.so", f"library {version}\n".encode())
    layouts.put(top / "usr/bin/onload", b"#!/bin/sh\n")
    (top / "usr/bin/onload").chmod(0o755)
    (top / "usr/lib64/libonload.so.1").unlink(missing_ok=True)
    (top / "usr/lib64/libonload.so.1").symlink_to("libonload.so")
    return image


def onload(image: Path, version: str) -> Path:
    """Fill the payloads of Onload; return the image."""
    return user(payload(image, "modules", onload_files(version)), version)


def add_own_sfc(machine: Machine) -> None:
    """Add the kernel's own sfc to a host, and load it."""
    content = module("sfc", modulefiles.IN_TREE)
    layouts.put(machine.root / f"lib/modules/{machines.KERNEL}/{SFC}", content)
    machine.host.run("depmod", "-a", machines.KERNEL)
    machine.load("sfc")


def again(machine: Machine) -> Machine:
    """The same host, as another installer knows it."""
    other = copy.copy(machine)
    other.host = behind.Host(machine.root, inside=True)
    return other
