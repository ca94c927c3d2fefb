"""What an installer has to do to a driver that runs, by its config and by what is known of the host.

On a node the installer asks, and knows all. `kae diff` asks with what a proved config tells of a host; of what that
leaves open, the answer is that the installer may have to do it.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Literal

import msgspec

from runtime import driver_config

MODULES = "/opt/lib/modules"
"""The folder of an image with a folder of modules for each kernel, as images of the Kernel Module Management operator
have it: https://kmm.sigs.k8s.io/documentation/module_loader_image/"""

Work = Literal["swaps", "reloads", "functions"]
"""The work for which no device may be in use.

- swaps: the driver's files are replaced.
- reloads: its modules are loaded again, for other parameters or another kind of devices.
- functions: virtual functions are made or removed.
"""


class Task(msgspec.Struct, frozen=True):
    """A part of the work, and why it has to be done."""

    work: Work
    setting: str
    """The setting that asks for it, as policies and recipes name it."""
    reason: str
    """A sentence; if the task is not certain, it says what may be so."""
    certain: bool = True
    """False where what is known of the host does not tell whether it has to be done."""


class Known(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a host with a driver; what a mapping does not have is unknown."""

    kinds: Collection[str]
    """The modules of the kinds of which it has devices."""
    wanted: Collection[str]
    """The modules that were to be loaded when its driver was staged."""
    staged: Collection[str] | None = None
    """The modules of which its driver has files of its own; None where that is unknown."""
    parameters: Mapping[str, Mapping[str, driver_config.Parameter]]
    """Those that the modules of its driver were loaded with."""
    loaded: Mapping[str, bool]
    nodes: Mapping[str, bool]
    """Whether the character devices are there, by path."""
    functions: Mapping[str, int] = {}
    """The virtual functions of each physical one, by kind."""
    replaced: Collection[str] | None = None
    """What made way for its driver, where others may have installed that driver; None where it is surely ours."""


def needed(settings: driver_config.Config, kinds: Collection[str]) -> tuple[str, ...]:
    """Return the modules that a host needs in the order of loading; `kinds` are as in `Known`."""
    of_kinds = {kind.module for kind in settings.kinds}
    return tuple(name for name in settings.names if name not in of_kinds or name in kinds)


def tasks(settings: driver_config.Config, known: Known) -> Iterator[Task]:
    """Yield what has to be done to a driver with the content that a config asks for."""
    modules = needed(settings, known.kinds)
    yield from _new(settings, modules, known)
    yield from _dropped(settings, known)
    yield from _parameters(settings, modules, known)
    yield from _replaced(settings, known)
    yield from _nodes(settings, known)
    yield from _functions(settings, known)


def _new(settings: driver_config.Config, modules: Collection[str], known: Known) -> Iterator[Task]:
    of_kinds = {kind.module for kind in settings.kinds}
    for name in modules:
        if name in known.wanted and (known.staged is None or name in known.staged):
            continue
        setting = "operator" if name in of_kinds else "modules"
        without = Task("swaps", setting, f"The installed driver was staged without {name}.")
        is_staged, is_loaded = _is_staged(settings, name, known), known.loaded.get(name)
        if is_staged is False:
            yield without
        elif is_loaded is None:
            # It may be loaded all the same; without it a driver of others is none.
            yield msgspec.structs.replace(without, certain=False)
        elif not settings.brings_along and not is_loaded:
            # Beside a driver of this class no module is loaded: its devices are probed anew.
            yield Task("reloads", setting, f"Module {name} is not loaded.")


def _is_staged(settings: driver_config.Config, name: str, known: Known) -> bool | None:
    source = settings.source
    if source.in_tree is not None:
        return True
    if source.packages is not None:
        return None  # Packages may hold more modules than those that were named.
    if settings.brings_along and known.wanted:
        return name in known.wanted  # What only came along would go with the module that needs it.
    return None if known.staged is None else name in known.staged


def _dropped(settings: driver_config.Config, known: Known) -> Iterator[Task]:
    for name in known.wanted if settings.brings_along else ():
        if name not in settings.names and known.loaded.get(name) is not False:
            reason = f"Module {name} is loaded, and the policy names it no more."
            yield Task("swaps", "modules", reason, certain=name in known.loaded)


def _parameters(settings: driver_config.Config, modules: Collection[str], known: Known) -> Iterator[Task]:
    for name in modules:
        was, now = (
            {key: _told(value) for key, value in given.items()}
            for given in (known.parameters.get(name, {}), settings.parameters[name])
        )
        if name in known.parameters and was != now:
            keys = ", ".join(sorted({key for key, _ in was.items() ^ now.items()}))
            reason = f"Module {name} was loaded with other parameters than the policy asks for ({keys})."
            yield Task("reloads", "moduleParameters", reason)


def _told(value: driver_config.Parameter) -> str:
    """Return a parameter as the options file has it: the kernel takes 1 for true."""
    return value if isinstance(value, str) else str(int(value))


def _replaced(settings: driver_config.Config, known: Known) -> Iterator[Task]:
    for module in settings.modules:
        for name in module.replaces:
            reason = f"Module {name} is loaded, which {module.name} replaces."
            if name in settings.names:
                # The kernel's own module of that name may be the driver of others.
                if known.replaced is not None and name not in known.replaced:
                    yield Task("reloads", "replaces", reason, certain=False)
            elif known.loaded.get(name) is not False:
                yield Task("reloads", "replaces", reason, certain=name in known.loaded)


def _nodes(settings: driver_config.Config, known: Known) -> Iterator[Task]:
    if all(known.loaded.get(name) is not False for name in settings.names):
        for path in settings.nodes:
            if not known.nodes.get(path):
                reason = f"The modules are loaded, and '{path}' is no character device."
                yield Task("reloads", "nodes", reason, certain=path in known.nodes)


def _functions(settings: driver_config.Config, known: Known) -> Iterator[Task]:
    for kind in settings.kinds:
        wanted, has = settings.sriov.get(kind.name), known.functions.get(kind.name)
        if kind.module in known.kinds and wanted not in (None, has):
            # Nobody knows how many there are; without anybody's doing there are none.
            certain = has is not None or bool(wanted)
            yield Task("functions", "sriov", f"Devices of kind {kind.name} have not {wanted}.", certain=certain)


def module_folders(path: str) -> tuple[str, str]:
    """Return the folders in which a path of a payload may have a folder for each kernel, the likelier one first.

    The path may hold that of lib/modules, be a part of it, or be such a folder of another name.
    """
    above, within, _ = f"{path}/".partition("/lib/modules/")
    return f"{above if within else path.removesuffix('/lib')}/lib/modules", path


def packages(settings: driver_config.Config) -> tuple[str, ...]:
    """Return the names of the packages to install; none for the other sources."""
    source = settings.source.packages
    names = source.names if source is not None else ()
    return tuple(name.replace("${DRIVER_VERSION}", settings.driver_version) for name in names)
