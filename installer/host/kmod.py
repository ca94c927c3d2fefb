"""The kernel's modules, by the host's own modprobe, modinfo and depmod."""

import contextlib
import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from installer.host import chroot, digests
from runtime import errors, readings

_LOAD_S = 120
_UNLOAD_S = 60
"""The kernel may wait for ever: hisi_qm's remove waits for the last user of a device, and no signal ends that."""

_INDEX_S = 600

_HALF_LOADED = (
    "it stays half loaded, as after a kernel oops in its start (see dmesg on the host); only a reboot removes it"
)

_REASONS = (
    ("Required key not available", "it has no signature, and the kernel demands one"),
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

_SEARCH_FOLDERS = ("/usr/lib/depmod.d", "/usr/local/lib/depmod.d", "/run/depmod.d", "/etc/depmod.d")
"""A file replaces one of the same name in an earlier folder."""

_BUILT_IN = "built-in"
"""The folders of the kernel itself, and every folder that `search` does not name."""


class Module(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded module."""

    name: str
    version: str | None
    build: str | None
    """The digest of its sources (srcversion), if the kernel is configured to have it."""
    parameters: Mapping[str, str]
    users: int
    """The number of its users, modules and open files."""
    holders: tuple[str, ...] = ()
    """The loaded modules that use it."""


class File(msgspec.Struct, frozen=True):
    """The file that modprobe would load for a name."""

    path: str
    version: str | None
    build: str | None
    digest: str = ""
    """The SHA-256 of its content; empty if it cannot be read."""
    parameters: frozenset[str] = frozenset()
    """The names of its parameters, of which the kernel may show none."""


def loaded(host: chroot.Host, names: Iterable[str]) -> dict[str, Module]:
    """Return the loaded ones of these modules."""
    return {name: module for name in names if (module := _module(host, name)) is not None}


def _module(host: chroot.Host, name: str) -> Module | None:
    folder = host.resolved(f"/sys/module/{name}")
    users = readings.integer(folder / "refcnt")
    # Code that is built into the kernel also has a folder, without this file.
    if users is None:
        return None
    parameters = {key: readings.text(folder / "parameters" / key) for key in readings.names(folder / "parameters")}
    return Module(
        name=name,
        version=readings.text(folder / "version"),
        build=readings.text(folder / "srcversion"),
        parameters={key: value for key, value in sorted(parameters.items()) if value is not None},
        users=users,
        holders=tuple(sorted(readings.names(folder / "holders"))),
    )


def in_transition(host: chroot.Host, names: Iterable[str]) -> dict[str, str]:
    """Return the modules that the kernel loads ("coming") or unloads ("going"), without running a program."""
    # This lasts for ever if the module's start or its end hangs (show_initstate of the kernel's kernel/module).
    states = {name: readings.text(host.path(f"/sys/module/{name}/initstate")) for name in names}
    return {name: state for name, state in states.items() if state in ("coming", "going")}


def name_of(path: str) -> str:
    """Return the kernel's name of a module file, plain or compressed: it has an underscore for each hyphen."""
    return posixpath.basename(path).partition(".ko")[0].replace("-", "_")


def chosen(host: chroot.Host, kernel: str, names: Collection[str]) -> dict[str, File]:
    """Return the file that modprobe would load for each name, if there is one."""
    try:
        said = host.run("modinfo", "-k", kernel, *names)
    except chroot.CommandFailed as error:
        # modinfo continues after an unknown name. A host without the program has no file.
        said = error.said
    return {name: file for name, file in _described(host, said) if name in names}


def of_file(host: chroot.Host, path: str) -> File:
    """Return what modinfo says of a module file; raise `Failure` if it is none."""
    return next((file for _, file in _described(host, host.run("modinfo", path))), File(path, None, None))


def _described(host: chroot.Host, said: str) -> Iterator[tuple[str, File]]:
    for part in re.split(r"^(?=filename:)", said, flags=re.MULTILINE):
        fields = dict(re.findall(r"^(filename|version|srcversion):\s+(\S.*)$", part, re.MULTILINE))
        path = fields.get("filename", "")
        # Built-in code has no path.
        if path.startswith("/"):
            digest = digests.of_file(here) if (here := host.resolved(path)).is_file() else ""
            known = frozenset(re.findall(r"^parm:\s+([^:\s]+)", part, re.MULTILINE))
            yield name_of(path), File(path, fields.get("version"), fields.get("srcversion"), digest, known)


def differ(one: Module | File, file: File) -> bool:
    """Return whether a module certainly differs from that of a file."""
    # Two builds of one source may have the same srcversion and other versions: it leaves out compiler flags
    # (get_src_version of scripts/mod/sumversion.c).
    pairs = ((one.build, file.build), (one.version, file.version))
    return any(was and wanted and was != wanted for was, wanted in pairs)


def built_for(host: chroot.Host, path: str) -> str:
    """Return the kernel release that a module file was built for (the first word of its vermagic)."""
    return host.run("modinfo", "-F", "vermagic", path).split(" ")[0].strip()


def load(host: chroot.Host, name: str) -> None:
    """Load a module with the parameters of its options file; raise `Failure` with the kernel's reason in words."""
    try:
        host.run("modprobe", name, timeout_s=_LOAD_S, finish=True)
    except chroot.CommandFailed as error:
        last = error.said.splitlines()[-1] if error.said else "no reason"
        why = next((meaning for words, meaning in _REASONS if words in error.said), last)
        if error.code < 0:
            why = f"signal {-error.code} ended modprobe (see dmesg on the host)"
        if in_transition(host, [name]).get(name) == "coming":
            why = _HALF_LOADED
        raise errors.Failure(f"Module {name} cannot be loaded: {why}.") from error


def unloading(modules: Mapping[str, Module]) -> list[str]:
    """Return these loaded modules in their order, but each after those that use it: the kernel demands that."""
    left, ordered = dict(modules), []
    while left:
        free = (name for name, module in left.items() if left.keys().isdisjoint(module.holders))
        ordered.append(next(free, next(iter(left))))
        del left[ordered[-1]]
    return ordered


def depends(host: chroot.Host, path: str) -> list[str]:
    """Return the modules that a module file needs; raise `Failure` if it is none."""
    return [name.replace("-", "_") for name in host.run("modinfo", "-F", "depends", path).strip().split(",") if name]


def unload(host: chroot.Host, names: Iterable[str]) -> None:
    """Unload the loaded ones of these, each after those that use it; raise `Failure` with the users of one in use."""
    for name in unloading(loaded(host, names)):
        if _module(host, name) is None:
            continue
        try:
            # modprobe -r does not find a module whose file was removed, and also unloads other modules.
            host.run("rmmod", name, timeout_s=_UNLOAD_S, finish=True)
        except chroot.CommandFailed as error:
            raise errors.Failure(f"Module {name} cannot be unloaded: {_users(host, name, error.said)}.") from error
        if _module(host, name) is not None:
            raise errors.Failure(f"Module {name} is still loaded, although rmmod says that it is not.")


def index(host: chroot.Host, kernel: str) -> None:
    """Update the index of modules with depmod; if it fails, restore the previous index and raise `Failure`."""
    folder = host.resolved(f"/lib/modules/{kernel}")
    kept: dict[Path, Path] = {}
    try:
        # On a full disk depmod replaces a file by a truncated one (depmod_output of kmod's tools/depmod.c), in the
        # index of all modules. Hard links need no disk space.
        with chroot.changing(f"/lib/modules/{kernel}"):
            for path in sorted(folder.glob("modules.*")):
                link = path.with_name(f".{path.name}.kae")
                link.unlink(missing_ok=True)
                link.hardlink_to(path)
                kept[link] = path
        host.run("depmod", "-a", kernel, timeout_s=_INDEX_S, finish=True)
        # depmod leaves that to the kernel: after a power failure the index of all modules could be empty.
        host.sync((*folder.glob("modules.*"), *folder.glob(host.own.updates), folder))
    except errors.Failure:
        for link, path in kept.items():
            with contextlib.suppress(OSError):
                link.replace(path)
        raise
    finally:
        for link in kept:
            with contextlib.suppress(OSError):
                link.unlink(missing_ok=True)


def _users(host: chroot.Host, name: str, said: str) -> str:
    if in_transition(host, [name]).get(name) == "coming":
        return _HALF_LOADED
    above = sorted(readings.names(host.path(f"/sys/module/{name}/holders")))
    if above:
        return f"it is in use by {', '.join(above)}"
    if "in use" in said:
        count = readings.integer(host.path(f"/sys/module/{name}/refcnt"))
        return f"it is in use ({count} times), by a process with an open device or by the kernel itself"
    return said.splitlines()[-1] if said else "no reason"


def rivals(host: chroot.Host, kernel: str, names: Collection[str], home: str) -> dict[str, str]:
    """Return the files that depmod may prefer to those in the folder `home` below /lib/modules/<kernel>, by module.

    Of two folders of one rank depmod takes the file that it reads last (depmod_module_is_higher_priority of kmod's
    tools/depmod.c), so both are possible. The installer's own files are no rivals.
    """
    lines = _search(host)
    order = [word for line in lines if line[0] == "search" for word in line[1:]] or ["updates", _BUILT_IN]
    forced = {(line[1].replace("-", "_"), line[3]) for line in lines if line[0] == "override" and len(line) == 4}
    best = _rank(home, order)
    tops = {"updates", *order, *(folder for _, folder in forced)}
    if _rank("kernel", order) <= best:
        tops.add("kernel")
    found = {}
    base = host.resolved(f"/lib/modules/{kernel}")
    for path in sorted(path for top in tops for path in (base / top).rglob("*.ko*")):
        name, folder = name_of(path.name), str(path.parent.relative_to(base))
        own = folder == host.own.updates or f"{folder}/".startswith(f"{home}/")
        if name in names and not own and ((name, folder) in forced or _rank(folder, order) <= best):
            found[name] = f"/lib/modules/{kernel}/{folder}/{path.name}"
    return found


def _rank(folder: str, order: list[str]) -> int:
    ranks = [number for number, part in enumerate(order) if f"{folder}/".startswith(f"{part}/")]
    return min(ranks, default=order.index(_BUILT_IN) if _BUILT_IN in order else len(order))


def _search(host: chroot.Host) -> list[list[str]]:
    files = {
        name: folder
        for folder in _SEARCH_FOLDERS
        for name in readings.names(host.resolved(folder))
        if name.endswith(".conf")
    }
    texts = (readings.text(host.resolved(f"{folder}/{name}")) or "" for name, folder in sorted(files.items()))
    return [line.split() for text in texts for line in text.splitlines() if line.split()]
