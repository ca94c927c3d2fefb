"""The state of the host: everything that a decision needs, in one value."""

import contextlib
import os
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from installer import paths
from installer.host import chroot, digests, kmod, libraries, network, pci, record, rpm
from runtime import driver_config, errors, readings, shapes

_OPTION_FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d")

_EFI = "8be4df61-93ca-11d2-aa0d-00e098032b8c"  # EFI_GLOBAL_VARIABLE, UEFI specification 3.3


class Option(NamedTuple):
    """A line of options that modprobe reads after the installer's own for the module."""

    path: str
    module: str
    words: str


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a host."""

    kernel: str
    boot: str
    system: str
    release: tuple[str, str]
    """ID and VERSION_ID of the operating system, by which NFD labels the node; empty where unknown."""
    secure_boot: bool
    functions: tuple[pci.Function, ...]
    loaded: Mapping[str, kmod.Module]
    files: Mapping[str, kmod.File]
    """The files that modprobe would load, by module."""
    options: Mapping[str, str]
    """The texts of existing options files, by module."""
    options_elsewhere: tuple[Option, ...] = ()
    rules_elsewhere: tuple[Option, ...] = ()
    """Lines `install` and `blacklist` of others for modules of the policy; their words begin with this."""
    above: Mapping[str, kmod.Module] = msgspec.field(default_factory=dict)
    """The loaded ones of the config's `above`."""
    rivals: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Files that modprobe may prefer to those of the desired driver, by module."""
    owners: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The packages of others that the change erases, by the module file that each owns."""
    bundles: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    """The names of all kernel modules in each of these packages."""
    rpm_user: str = ""
    """The program that holds the lock of rpm's database."""
    signed_only: str = ""
    """Why the kernel refuses modules without a signature; empty if it takes them."""
    libraries: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The digests of the driver's user-space files on the host, as `digests.of_file` has them."""
    rule: bool
    """True when the udev rule is that of the config, if that has one."""
    has_rule: bool
    """True when there is a udev rule of the installer, be it of another config or of an earlier release."""
    record: record.Record
    changing: bool
    """True while the change is announced (driver-changing)."""
    home: shapes.Home
    nodes: Mapping[str, pci.Entry] = msgspec.field(default_factory=dict)
    """The character devices among the config's `nodes`, by path."""
    others: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The modules of the drivers of other recipes, and the recipe that has each."""
    network: tuple[str, ...] = ()
    """Sentences about interfaces of the driver that carry the node's own traffic."""
    unproved: bool = False
    """True when a change blocked the driver, and the record knows neither that change nor its end."""

    @property
    def own(self) -> paths.Own:
        """The paths of the recipe."""
        return paths.Own(self.home)

    def foreign_files(self) -> set[str]:
        """Return the modules whose files are not the kernel's own."""
        own = paths.own_modules(self.kernel)
        return {name for name, file in self.files.items() if not file.path.startswith(own)}

    @property
    def strangers(self) -> set[str]:
        """The loaded modules among these."""
        return self.foreign_files() & self.loaded.keys()

    @property
    def devices(self) -> dict[str, pci.Entry]:
        """What user space can open: entries by the address of their function, and nodes by path."""
        return pci.entries(self.functions) | dict(self.nodes)


def read(host: chroot.Host, settings: driver_config.Config) -> HostState:
    """Read the state of the host; raise `Failure` if the folder is no host, its record cannot be read, or it hangs."""
    return host.look(lambda: _read(host, settings))


def _read(host: chroot.Host, settings: driver_config.Config) -> HostState:
    running, known, said = kernel(host), record.read(host), text(host, host.own.rule) or ""
    for folder in (host.own.modules(running), *([paths.OPT] if known.has_libraries else ())):
        host.nearest(folder)
    names = modules(host, settings, known)
    elsewhere = tuple(_options_elsewhere(host))  # Before any program of the host: where one hangs, this tells why.
    files = kmod.chosen(host, running, names)
    others = record.of_others(host, settings.recipe, running)
    left = others if settings.brings_along else {}
    rivals = {name: path for name, path in _rivals(host, settings, running, known).items() if name not in left}
    options = {module: text(host, host.own.options(module)) for module in names}
    owners = _owners(host, settings, known, {*rivals.values(), *(f.path for f in files.values())})
    return HostState(
        kernel=running,
        boot=_kernel_text(host, "random/boot_id"),
        system=_of_system(host, "PRETTY_NAME") or "unknown",
        release=(_of_system(host, "ID"), _of_system(host, "VERSION_ID")),
        secure_boot=_secure_boot(host),
        functions=pci.functions(host, settings),
        loaded=kmod.loaded(host, names),
        files=files,
        options={module: said for module, said in options.items() if said is not None},
        options_elsewhere=elsewhere,
        rules_elsewhere=tuple(each for each in _rules_elsewhere(host) if each.module in names),
        above=kmod.loaded(host, settings.above),
        rivals=rivals,
        owners=owners,
        bundles={nvra: rpm.modules_of(host, nvra) for nvra in sorted({*owners.values()})},
        rpm_user=rpm.locked_by(host),
        signed_only=_signed_only(host),
        libraries=libraries.present(host),
        rule=settings.device_nodes is None or said == rule(host, settings.device_nodes),
        has_rule=said.startswith(_RULE),
        record=known,
        changing=os.path.lexists(host.path(host.own.changing)),
        home=host.own.home,
        nodes=pci.nodes(host, settings),
        others=others,
        network=tuple(network.carrying(host, settings, names)),
        unproved=host.resolved(host.own.blocked).exists() and not (known.change or known.installed or known.boot),
    )


_RULE = 'SUBSYSTEM=="uacce", '
"""The beginning of the rules of every release."""

_LINKS = (
    'SUBSYSTEM=="uacce", SUBSYSTEMS=="pci", '
    "PROGRAM=\"/bin/sh -c 'k=%k; a=$id; IFS=:.; set -- $$a; "
    "echo $${k%%-*}-$$((0x$$1<<16|0x$$2<<8|0x$$3<<3|0x$$4))'\", "
    'SYMLINK+="%c"\n'
)


def rule(host: chroot.Host, nodes: shapes.DeviceNodes) -> str:
    """Return the udev rules (udev(7)) for the device nodes: their mode, and a link of the name that containers have.

    Containers are limited by their device cgroup, too. The link serves containers in a user namespace: runc makes no
    nodes there, but mounts what the host has at the container's path (createDeviceNode of opencontainers/runc). CRI-O
    refuses privileged containers a device whose path exists on the host (internal/factory/container of cri-o/cri-o).
    """
    group = f'GROUP="{nodes.group}", ' if nodes.group is not None else ""
    mode = f'SUBSYSTEM=="uacce", {group}MODE="{nodes.mode}"\n'
    return mode if host.resolved(paths.CRIO).exists() else mode + _LINKS


def kernel(host: chroot.Host) -> str:
    """Return the release of the running kernel; raise `Failure` if the folder is no host."""
    return _kernel_text(host, "osrelease")


def _kernel_text(host: chroot.Host, name: str) -> str:
    text = readings.text(host.resolved(f"/proc/sys/kernel/{name}"))
    if not text:
        raise errors.Failure(f"'{host.root}' is not the root of a host: it has no /proc/sys/kernel/{name}.")
    return text


def _of_system(host: chroot.Host, name: str) -> str:
    """Return a value of os-release, which may be in quotes of either sort; empty without one."""
    release = text(host, "/etc/os-release") or text(host, "/usr/lib/os-release") or ""
    match = re.search(rf"""^{name}=["']?([^"'\n]*)""", release, re.MULTILINE)
    return match[1].strip() if match else ""


def _secure_boot(host: chroot.Host) -> bool:
    with contextlib.suppress(OSError):
        # Four bytes of attributes precede the value (Documentation/filesystems/efivarfs.rst).
        return host.resolved(f"/sys/firmware/efi/efivars/SecureBoot-{_EFI}").read_bytes()[4:5] == b"\x01"
    return False


def modules(host: chroot.Host, settings: driver_config.Config, known: record.Record) -> tuple[str, ...]:
    """Return the modules of the config, and before them those that its driver, or an earlier one, brings along.

    Of those, what another recipe has is left to it.
    """
    # Which these are, its records and the folder of its installed modules tell.
    if not settings.brings_along:
        return settings.all_modules
    drivers = (known.installed, known.change.kept if known.change else None)
    placed = readings.names(host.resolved(host.own.modules(kernel(host))))
    files = list(placed)
    for driver in filter(None, drivers):
        files += [*driver.modules, *driver.wanted, *driver.options, *driver.replaced]
    others = {kmod.name_of(file) for file in files if not file.startswith(".")} - {*settings.all_modules}
    has = record.of_others(host, settings.recipe, kernel(host))
    return tuple(name for name in (*sorted(others), *settings.all_modules) if name not in has)


def _options_elsewhere(host: chroot.Host) -> Iterator[Option]:
    """Return the options that come after the installer's own, and so win: files are read by their names."""
    # The kernel's command line comes last (modprobe.d(5), kmod_config_new of kmod's libkmod-config.c).
    for name, path in _configs(host):
        for module, words in re.findall(r"^\s*options\s+(\S+)\s+(.*\S)", text(host, path) or "", re.MULTILINE):
            if name > posixpath.basename(host.own.options(module.replace("-", "_"))):
                yield Option(path, module.replace("-", "_"), words)
    for module, words in re.findall(r"(?<!\S)([\w-]+)\.(\S+)", text(host, "/proc/cmdline") or ""):
        yield Option("/proc/cmdline", module.replace("-", "_"), words)


def _rules_elsewhere(host: chroot.Host) -> Iterator[Option]:
    """Return what others have modprobe run in place of loading a module, and what they keep from loading at boot."""
    for _, path in _configs(host):
        if path != host.own.blocked:
            found = re.findall(r"^\s*(install|blacklist)\s+(\S+)[ \t]*(.*)", text(host, path) or "", re.MULTILINE)
            yield from (
                Option(path, module.replace("-", "_"), f"{verb} {rest}".strip()) for verb, module, rest in found
            )


def _configs(host: chroot.Host) -> Iterator[tuple[str, str]]:
    """Return the names and paths of modprobe's files in the order in which it reads them (modprobe.d(5))."""
    folders = {name: folder for folder in reversed(_OPTION_FOLDERS) for name in readings.names(host.resolved(folder))}
    return ((name, f"{folders[name]}/{name}") for name in sorted(folders) if name.endswith(".conf"))


def _rivals(host: chroot.Host, settings: driver_config.Config, running: str, known: record.Record) -> dict[str, str]:
    source, installed = settings.source.packages, known.installed
    # Nobody knows where packages put their modules, but it is above or beside the kernel's own.
    home = "kernel" if source is not None or settings.source.in_tree is not None else host.own.updates
    found = kmod.rivals(host, running, settings.names, home)
    replaced = installed.packages if installed is not None else ()
    if not found or not (source is not None or replaced):
        return found
    ours = installed.digests if installed is not None else {}
    others = {
        name: path for name, path in found.items() if not digests.has(host.resolved(path), ours.get(name, "none"))
    }
    owners = rpm.owners(host, tuple(others.values()))
    names = (*replaced, *(source.names if source is not None else ()))
    return {name: path for name, path in others.items() if not _is_replaced(owners.get(path, ""), names)}


def _is_replaced(nvra: str, names: Iterable[str]) -> bool:
    """Return whether a change replaces a package, as one of these names selects it, in whatever version."""
    name = re.escape(rpm.name_of(nvra))
    return bool(nvra) and any(re.match(rf"{name}([.]|-[\d$]|$)", other) for other in names)


def _owners(
    host: chroot.Host, settings: driver_config.Config, known: record.Record, files: Iterable[str]
) -> dict[str, str]:
    if settings.install_policy != "Always" or known.installed is not None or known.change is not None:
        return {}
    own = rf"/lib/modules/[^/]+/(kernel|{re.escape(host.own.updates)})/"
    foreign = [path for path in sorted(files) if not re.match(own, path)]
    owners = rpm.owners(host, foreign)
    # A package of the kernel itself may bring modules in extra/, and much else.
    return {path: nvra for path, nvra in owners.items() if not re.match(r"kernel(-|$)", rpm.name_of(nvra))}


def _signed_only(host: chroot.Host) -> str:
    """Return why the kernel refuses unsigned modules (kernel/module/signing.c); secure boot alone refuses none."""
    if readings.text(host.resolved("/sys/module/module/parameters/sig_enforce")) == "Y":
        return "module.sig_enforce is set"
    lockdown = readings.text(host.resolved("/sys/kernel/security/lockdown"))
    return "" if lockdown is None or "[none]" in lockdown else "the kernel is locked down"


def text(host: chroot.Host, absolute: str) -> str | None:
    """Return the text of a file of the host; None if it cannot be read."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return host.resolved(absolute).read_text("utf-8")
    return None
