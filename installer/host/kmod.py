"""The kernel's modules, by the host's own modprobe, modinfo and depmod."""

import contextlib
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from installer.host import chroot
from runtime import errors, readings

_LOAD_S = 300
_INDEX_S = 600

_ABOVE = ("hisi_acc_vfio_pci", "hisi_migration")
"""Modules of KAE's live migration: they use hisi_qm, and we neither install nor load them."""

_REASONS = (
    ("Required key not available", "it has no signature, and a kernel in secure boot wants one"),
    (
        "Operation not permitted",
        "the kernel is locked down by secure boot, and the module has no signature that it trusts",
    ),
    ("Key was rejected", "its signature is not trusted by a kernel in secure boot; enrol the key that signed it"),
    ("No such device", "no device answers to it: the licence is missing, or the engine is disabled in the BIOS"),
    (
        "Invalid argument",
        "it does not know a parameter's value (the kernel's own modules know uacce_mode 0 and 1 only), was built"
        " against another module than the one that is loaded, or in a virtual machine its function was not passed in",
    ),
    ("Unknown symbol", "it was built against another kernel, or against other versions of the modules below it"),
    ("Exec format error", "it was built for another kernel"),
    ("not found in directory", "there is no such module for this kernel"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A module that is loaded."""

    name: str
    version: str | None
    build: str | None
    """The digest of its sources (srcversion), where the kernel was configured to know it."""
    parameters: Mapping[str, str]
    users: int
    """How often it is in use, by other modules or by open files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What modprobe would load for a name."""

    path: str
    version: str | None
    build: str | None


def loaded(host: chroot.Host, names: Iterable[str]) -> dict[str, Module]:
    """Those of these modules that the kernel has."""
    return {name: found for name in names if (found := _module(host, name)) is not None}


def _module(host: chroot.Host, name: str) -> Module | None:
    folder = host.path(f"/sys/module/{name}")
    users = readings.integer(folder / "refcnt")
    # What is built into the kernel has a folder too, without this file.
    if users is None:
        return None
    parameters = {key: readings.text(folder / "parameters" / key) for key in readings.names(folder / "parameters")}
    return Module(
        name=name,
        version=readings.text(folder / "version"),
        build=readings.text(folder / "srcversion"),
        parameters=MappingProxyType({key: value for key, value in sorted(parameters.items()) if value is not None}),
        users=users,
    )


def chosen(host: chroot.Host, kernel: str, names: Collection[str]) -> dict[str, File]:
    """What modprobe would load for each of these names; a name without a file is left out."""
    try:
        said = host.run("modinfo", "-k", kernel, *names)
    except chroot.CommandFailed as error:
        # It goes on after a name that it does not know; a host without the program knows none.
        said = error.said
    files = {}
    for part in re.split(r"^(?=filename:)", said, flags=re.MULTILINE):
        fields = dict(re.findall(r"^(filename|version|srcversion):\s+(\S.*)$", part, re.MULTILINE))
        path = fields.get("filename", "")
        # The kernel takes a hyphen in a file's name for an underscore; what is built in has no path.
        name = posixpath.basename(path).partition(".ko")[0].replace("-", "_")
        if path.startswith("/") and name in names:
            files[name] = File(path=path, version=fields.get("version"), build=fields.get("srcversion"))
    return files


def differ(one: Module, file: File) -> bool:
    """Whether a loaded module is certainly another one than a file's."""
    if one.build and file.build:
        return one.build != file.build
    return bool(one.version and file.version) and one.version != file.version


def built_for(host: chroot.Host, path: str) -> str:
    """The release of the kernel that a module file was built for (the first word of its vermagic)."""
    return host.run("modinfo", "-F", "vermagic", path).split(" ")[0].strip()


def load(host: chroot.Host, name: str) -> None:
    """Loads a module with the parameters of its options file.

    Raises:
        errors.Failure: With the kernel's reason, in words for people.
    """
    try:
        host.run("modprobe", name, timeout_s=_LOAD_S, finish=True)
    except chroot.CommandFailed as error:
        raise errors.Failure(f"Module {name} cannot be loaded: {_reason(error.said)}.") from error


def unload(host: chroot.Host, names: Iterable[str]) -> None:
    """Unloads those of these modules that are loaded, in this order.

    Raises:
        errors.Failure: One is in use, and by what.
    """
    for name in (*_ABOVE, *names):
        if _module(host, name) is None:
            continue
        try:
            # Not modprobe -r: it does not know a module whose file has gone, and takes others away too.
            host.run("rmmod", name, timeout_s=_LOAD_S, finish=True)
        except chroot.CommandFailed as error:
            raise errors.Failure(f"Module {name} cannot be unloaded: {_users(host, name, error.said)}.") from error
        if _module(host, name) is not None:
            raise errors.Failure(f"Module {name} is still loaded, although rmmod says that it is not.")


def index(host: chroot.Host, kernel: str) -> None:
    """Tells modprobe which modules there are.

    Raises:
        errors.Failure: depmod failed; what modprobe knew before, it knows again.
    """
    kept = _kept_index(host, kernel)
    try:
        host.run("depmod", "-a", kernel, timeout_s=_INDEX_S, finish=True)
    except errors.Failure:
        for link, path in kept.items():
            with contextlib.suppress(OSError):
                link.replace(path)
        raise
    finally:
        _unlink(kept)


def _kept_index(host: chroot.Host, kernel: str) -> dict[Path, Path]:
    """Links to the files of the index, which need no room.

    On a full disk depmod puts half a file in the place of a whole one (depmod_output of kmod's tools/depmod.c), and it
    is the index of all modules, not of ours alone.
    """
    folder = host.path(f"/lib/modules/{kernel}")
    kept = {}
    try:
        for path in sorted(folder.glob("modules.*")):
            link = path.with_name(f".{path.name}.kae")
            link.unlink(missing_ok=True)
            link.hardlink_to(path)
            kept[link] = path
    except OSError as error:
        _unlink(kept)
        raise chroot.failure(f"/lib/modules/{kernel}", error) from error
    return kept


def _unlink(links: Iterable[Path]) -> None:
    for link in links:
        with contextlib.suppress(OSError):
            link.unlink(missing_ok=True)


def _reason(said: str) -> str:
    return next(
        (meaning for words, meaning in _REASONS if words in said), said.splitlines()[-1] if said else "no reason"
    )


def _users(host: chroot.Host, name: str, said: str) -> str:
    above = sorted(readings.names(host.path(f"/sys/module/{name}/holders")))
    if above:
        return f"it is in use by {', '.join(above)}"
    if "in use" in said:
        count = readings.integer(host.path(f"/sys/module/{name}/refcnt"))
        return f"it is in use ({count} times), by a process with an open device or by the kernel's own cryptography"
    return said.splitlines()[-1] if said else "no reason"
