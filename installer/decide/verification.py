"""The faults of a host's driver, which exit codes of programs do not show.

The docstring of each rule names the case that users have met.
"""

from collections.abc import Collection, Iterator, Sequence
from enum import Enum

import msgspec

from installer import paths
from installer.decide import desired
from installer.host import host_state, kmod, record
from runtime import driver_config, driver_work


class Sort(Enum):
    """The repair of a fault."""

    FILES = "files"
    """Install the driver's files."""
    LOAD = "load"
    """Load its modules again, which no user of a device survives."""
    MISSING = "missing"
    """Load modules beside those that are loaded, which disturbs no user."""
    VFS = "vfs"
    """Create or remove virtual functions, which their users do not survive."""
    LIBRARIES = "libraries"
    """Place the libraries again; a container keeps those that it began with."""
    NODES = "nodes"
    """Write files or permissions, which disturbs no user."""


class Fault(msgspec.Struct, frozen=True):
    """A difference between the host and the config."""

    sort: Sort
    text: str


def faults(
    settings: driver_config.Config, current: host_state.HostState, driver: record.Driver, served: Collection[str] = ()
) -> tuple[Fault, ...]:
    """Return the faults of a driver; `served` are the PCI addresses that had an entry before."""
    needed = desired.modules(settings, current.functions)
    whole = dict.fromkeys(needed)
    if settings.brings_along:
        whole |= dict.fromkeys(map(kmod.name_of, driver.modules))
        whole = {name: None for name in whole if name not in current.others}
    found = (
        *(
            Fault(_SORTS[task.work], task.reason)
            for task in driver_work.tasks(settings, _known(settings, current, driver))
        ),
        *_files(whole, current, driver),
        # Without a device, no boot loads what comes along; udev loads the others.
        *_loaded(whole, current, Sort.MISSING if settings.brings_along else Sort.LOAD),
        *_parameters(settings, needed, current),
        *_entries(settings, current, served),
        *_options(settings, current),
        *_virtual_functions(settings, current),
        *_entry_nodes(settings, current),
        *_libraries(current, driver),
    )
    return tuple(sorted(dict.fromkeys(found), key=lambda fault: _GRAVITY[fault.sort]))


_GRAVITY = {sort: place for place, sort in enumerate(Sort)}

_SORTS = {"swaps": Sort.FILES, "reloads": Sort.LOAD, "functions": Sort.VFS}
"""The repair that each work is."""


def _known(settings: driver_config.Config, current: host_state.HostState, driver: record.Driver) -> driver_work.Known:
    names = {*settings.names, *settings.replaced, *driver.wanted}
    return driver_work.Known(
        kinds={function.kind.module for function in current.functions},
        wanted=driver.wanted,
        staged={kmod.name_of(file) for file in driver.modules} or None,
        parameters=driver.parameters,
        loaded={name: name in current.loaded or name in {*settings.names} & current.others.keys() for name in names},
        nodes={path: path in current.nodes for path in settings.nodes},
        functions=settings.sriov,  # They are looked at device by device.
    )


def in_place(names: Collection[str], current: host_state.HostState, driver: record.Driver) -> tuple[Fault, ...]:
    """Return the faults that show that the loaded ones of these modules are not those of this driver."""
    return (*_files(names, current, driver), *_loaded(names, current, Sort.LOAD))


def impossible(settings: driver_config.Config, current: host_state.HostState) -> tuple[str, ...]:
    """Return what the config asks for and the devices cannot provide, with the remedy, in sentences."""
    # The kernel refuses more virtual functions than sriov_totalvfs says, and a device that can have none has no such
    # attribute (Documentation/ABI/testing/sysfs-bus-pci).
    short: dict[tuple[str, int], list[str]] = {}
    for function in current.functions:
        # A guest has only virtual functions, which have none of their own.
        wanted = 0 if function.virtual or function.lent else settings.sriov.get(function.kind.name, 0)
        if wanted > function.total_vfs:
            short.setdefault((function.kind.name, function.total_vfs), []).append(function.address)
    return tuple(_too_many(settings, kind, most, addresses) for (kind, most), addresses in short.items())


def _too_many(settings: driver_config.Config, kind: str, most: int, addresses: Sequence[str]) -> str:
    who = f"Device {addresses[0]}" if len(addresses) == 1 else f"Each of the devices {', '.join(addresses)}"
    wanted, field = settings.sriov[kind], f"driver.sriov.{kind} of the policy '{settings.policy}'"
    if most:
        return f"{who} can have {most} virtual functions, and {wanted} are asked for: lower {field}."
    return (
        f"{who} can have no virtual functions, and {wanted} are asked for: switch SR-IOV on in the BIOS, or set {field}"
        " to 0."
    )


def _files(needed: Collection[str], current: host_state.HostState, driver: record.Driver) -> Iterator[Fault]:
    """Check that modprobe loads this driver's modules, and no others of the same name."""
    ours, own = current.own.modules(current.kernel), paths.own_modules(current.kernel)
    for name in needed:
        file = current.files.get(name)
        if file is None:
            yield Fault(Sort.FILES, f"There is no module {name} for the running kernel {current.kernel}.")
        elif driver.modules and file.path != driver.modules.get(f"{name}.ko", file.path):
            yield Fault(Sort.FILES, f"modprobe takes {name} from '{file.path}', not from '{ours}'.")
        elif driver.source == "inTree" and not file.path.startswith(own):
            yield Fault(Sort.FILES, f"'{file.path}' stands before the kernel's own module {name}.")
        elif file.digest != driver.digests.get(name, file.digest):
            yield Fault(Sort.FILES, f"'{file.path}' is not as it was installed.")


def _loaded(needed: Collection[str], current: host_state.HostState, missing: Sort) -> Iterator[Fault]:
    """Check that the loaded modules are those of the files: an initramfs may have loaded an older driver."""
    for name in needed:
        module, file = current.loaded.get(name), current.files.get(name)
        if module is None:
            yield Fault(missing, f"Module {name} is not loaded.")
        elif file is not None and kmod.differ(module, file):
            was, wanted = module.version or module.build, file.version or file.build
            yield Fault(
                Sort.LOAD,
                f"Module {name} was loaded from elsewhere (it is {was}), perhaps from the initramfs, not from"
                f" '{file.path}' ({wanted}).",
            )


def _parameters(
    settings: driver_config.Config, needed: Collection[str], current: host_state.HostState
) -> Iterator[Fault]:
    """Check that the parameters in force are those of the config, not those of another options file."""
    for name in needed:
        module = current.loaded.get(name)
        for key, value in sorted(settings.parameters.get(name, {}).items()):
            file = current.files.get(name)
            # The kernel shows no parameter of mode 0 (module_param of linux/moduleparam.h).
            hidden = settings.brings_along and file is not None and key in file.parameters
            if module is None or (hidden and key not in module.parameters):
                continue
            if not desired.is_shown(value, module.parameters.get(key)):
                was = module.parameters.get(key, "unknown to it")
                yield Fault(Sort.LOAD, f"Parameter {key} of module {name} is {was}, not {value}.")


def _entries(settings: driver_config.Config, current: host_state.HostState, served: Collection[str]) -> Iterator[Fault]:
    """Check that devices have entries: /sys/class/uacce may be empty although the modules are loaded."""
    enabled = desired.enabled(settings, current.functions)
    for kind in settings.kinds:
        mine = [function for function in enabled if function.kind == kind and not function.lent]
        if not mine or kind.module not in current.loaded or not desired.has_entries(settings, kind.module):
            continue
        if all(function.entry is None for function in mine):
            text = f"Module {kind.module} is loaded, but no {kind.name} device has an entry in /sys/class/uacce."
            yield Fault(Sort.LOAD, text)
        for lost in [function.address for function in mine if function.entry is None and function.address in served]:
            yield Fault(Sort.LOAD, f"Device {lost} had an entry in /sys/class/uacce, and has none now.")


def _options(settings: driver_config.Config, current: host_state.HostState) -> Iterator[Fault]:
    """Check that the next boot loads the modules with the same parameters."""
    for module, text in desired.options(settings).items():
        if current.options.get(module) != text:
            yield Fault(Sort.NODES, f"'{current.own.options(module)}' does not say '{text.strip()}'.")


def _virtual_functions(settings: driver_config.Config, current: host_state.HostState) -> Iterator[Fault]:
    """Check the number of virtual functions of each kind in the config."""
    for function in current.functions:
        wanted = settings.sriov.get(function.kind.name)
        bound = function.driver == function.kind.module
        if bound and not function.virtual and wanted not in (None, function.vfs):
            yield Fault(Sort.VFS, f"Device {function.address} has {function.vfs} virtual functions, not {wanted}.")
        module = current.loaded.get(function.kind.module)
        told = int(module.parameters.get("vfs_num", 0)) if module is not None else 0
        if function.driver is None and told > function.total_vfs and not function.virtual:
            text = f"The driver, loaded with vfs_num={told}, refuses device {function.address}: it can have fewer."
            yield Fault(Sort.LOAD, text)


def _entry_nodes(settings: driver_config.Config, current: host_state.HostState) -> Iterator[Fault]:
    """Check that those whom the config names can open the devices, also those that appear later."""
    wanted = settings.device_nodes
    if wanted is None:
        return
    if not current.rule:
        yield Fault(Sort.NODES, f"There is no udev rule '{current.own.rule}'.")
    enabled = desired.enabled(settings, current.functions)
    for entry in [function.entry for function in enabled if function.entry is not None]:
        if entry.mode is None:
            yield Fault(Sort.LOAD, f"The device node /dev/{entry.name} is missing.")
        elif entry.mode & 0o666 != int(wanted.mode, 8):
            yield Fault(Sort.NODES, f"/dev/{entry.name} has mode {entry.mode:04o}, not {wanted.mode}.")
        elif wanted.group not in (None, entry.group):
            yield Fault(Sort.NODES, f"/dev/{entry.name} has group {entry.group}, not {wanted.group}.")


def _libraries(current: host_state.HostState, driver: record.Driver) -> Iterator[Fault]:
    """Check that containers mount the libraries that fit the modules."""
    for name, digest in driver.libraries.items():
        if current.libraries.get(name) != digest:
            yield Fault(Sort.LIBRARIES, f"'{current.own.library(name)}' is not as it was installed.")
