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
    """Yield what has to be done to a driver with the content that a config asks for; see `content` for another one."""
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


def content(
    was: driver_config.Config, now: driver_config.Config, changed: Mapping[str, bool]
) -> Iterator[tuple[bool, str]]:
    """Yield the settings for which two configs ask for other content of a driver; of each, whether that is certain.

    `changed` has the payloads whose images are other ones, and whether these have another version rather than another
    place alone; the installer's own image has no name. What the digest of a driver is made of in the installer
    decides: the source, the names of packages, and what images hold of modules and of files for the host.
    """
    version = "version" if was.driver_version != now.driver_version else ""
    if was.source.name != now.source.name:
        yield True, "source"
    elif packages(was) != packages(now) or _is_packed(was) != _is_packed(now):
        yield True, version if version and is_versioned(was) and is_versioned(now) else "source"
    if {file.to for file in was.files} != {file.to for file in now.files}:
        yield True, "files"
    elif was.files != now.files:
        yield False, "files"
    if _comes_of_images(now):
        if any(changed.get(name) for name in holders(now)):
            yield True, version or "image"
        elif changed:
            yield False, "image"
        if was.payloads != now.payloads:
            yield False, "payloads"


def _comes_of_images(settings: driver_config.Config) -> bool:
    return bool(settings.files or settings.source.build or settings.source.prebuilt or _is_packed(settings))


def _is_packed(settings: driver_config.Config) -> bool:
    source = settings.source.packages
    return source is not None and source.is_in_image


def is_versioned(settings: driver_config.Config) -> bool:
    """Return whether the version is that of the modules: they come out of its image, or names of packages hold it."""
    source = settings.source
    if source.packages is not None and not source.packages.is_in_image:
        return any("${DRIVER_VERSION}" in name for name in source.packages.names)
    return source.in_tree is None


def holders(settings: driver_config.Config) -> set[str]:
    """Return the images that hold modules or files of a driver, as `content` names them; none of one of packages."""
    if not _comes_of_images(settings):
        return set()
    payloads = [(payload.name, path) for payload in settings.payloads for path in payload.paths]
    held = {name for name, path in payloads for file in settings.files if f"{file.from_}/".startswith(f"{path}/")}
    if settings.source.prebuilt is not None and payloads:
        return held | ({name for name, path in payloads if reaches_modules(path)} or {"", *dict(payloads)})
    # Without payloads files are in the installer's image, as are the source and the packages of a driver.
    return held if payloads and settings.source.in_tree is not None else {"", *held}


def module_folders(path: str) -> tuple[str, str]:
    """Return the folders in which a path of a payload may have a folder for each kernel, the likelier one first.

    The path may hold that of lib/modules, be a part of it, or be such a folder of another name.
    """
    above, within, _ = f"{path}/".partition("/lib/modules/")
    return f"{above if within else path.removesuffix('/lib')}/lib/modules", path


def reaches_modules(path: str) -> bool:
    """Return whether a path of a payload says that it holds modules, or is a part of those."""
    return "/lib/modules/" in f"{path}/" or MODULES in module_folders(path)


def packages(settings: driver_config.Config) -> tuple[str, ...]:
    """Return the names of the packages to install; none for the other sources."""
    source = settings.source.packages
    names = source.names if source is not None else ()
    return tuple(name.replace("${DRIVER_VERSION}", settings.driver_version) for name in names)


def proved(settings: driver_config.Config, kinds: Collection[str]) -> Known:
    """Return what is known of a host on which the installer verified the driver of a config; `kinds` as in `Known`."""
    modules = needed(settings, kinds)
    replaced = {name: False for name in settings.replaced if name not in settings.names}
    is_whole = len(modules) == len(settings.names)
    return Known(
        kinds=kinds,
        wanted=settings.names,
        parameters={name: settings.parameters[name] for name in modules},
        loaded={**replaced, **dict.fromkeys(modules, True)},
        nodes=dict.fromkeys(settings.nodes, True) if is_whole else {},
        functions=settings.sriov,
        replaced=settings.replaced if settings.install_policy == "IfNotPresent" else None,
    )
