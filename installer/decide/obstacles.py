"""Obstacles on the host that no change can pass; they are known before any pod is evicted."""

import posixpath
from collections.abc import Iterator

from installer.decide import desired, driver_class
from installer.host import host_state, kmod
from runtime import driver_config


def find(settings: driver_config.Config, current: host_state.HostState, *, replace: bool) -> tuple[str, ...]:
    """Return sentences about what would stop a change that unloads the driver, with the remedy.

    `replace` says that the driver's files change, too.
    """
    driver = driver_class.of(settings)
    sentences = [*_modules_above(settings, current), *current.network, *driver.kernel_users(current)]
    if replace:
        sentences += _bundles(settings, current)
    if settings.state == "Present":
        sentences += _options(settings, current)
        if replace:
            sentences += _files(current)
            if driver.at_work(current) and current.record.installed is None:
                sentences += _lost(current)
    installed = current.record.installed
    packages = settings.source.packages or current.owners or (installed is not None and installed.packages)
    if replace and packages and current.rpm_user:
        sentences.append(f"The change waits for {current.rpm_user}, which holds the lock of the host's rpm database.")
    return tuple(sentences)


def _modules_above(settings: driver_config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the modules of others that use one of the driver's: the kernel unloads none that another one uses."""
    known = {*settings.all_modules, *settings.above, *current.loaded}
    for module in (*current.loaded.values(), *current.above.values()):
        for name in module.holders:
            if name not in known:
                yield f"Module {name} of others uses {module.name}: unload it (rmmod {name})."


def _bundles(settings: driver_config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the packages of others that hold more than the driver, as a change erases them whole."""
    known = {*settings.all_modules, *settings.above, *settings.related}
    for nvra, names in current.bundles.items():
        if others := [name for name in names if name not in known]:
            which = ", ".join(others)
            yield (
                f"Package {nvra}, which the install policy Always would erase, holds other modules, too ({which}):"
                " replace it by a package without the accelerators' driver, or set IfNotPresent."
            )


def _options(settings: driver_config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the options that override those of the config: of several, the kernel takes the last."""
    for name in desired.modules(settings, current.functions):
        for key, value in sorted(settings.parameters.get(name, {}).items()):
            said = [
                (word.partition("=")[2], option.path)
                for option in current.options_elsewhere
                if option.module == name
                for word in option.words.split()
                if word.partition("=")[0] == key
            ]
            if said and not desired.is_shown(value, said[-1][0].strip('"')):
                other, path = said[-1]
                yield f"'{path}' sets {key} of module {name} to {other}, over the {value} of the policy: remove that."


def _files(current: host_state.HostState) -> Iterator[str]:
    """Return the files that hide the new driver's."""
    rivals: dict[str, list[str]] = {}
    for name, path in current.rivals.items():
        if path not in current.owners:
            rivals.setdefault(posixpath.dirname(path), []).append(name)
    for folder, names in rivals.items():
        yield (
            f"modprobe may take {', '.join(names)} from '{folder}' instead of the new driver: remove these files or"
            " their package, and run 'depmod -a'."
        )


def _lost(current: host_state.HostState) -> Iterator[str]:
    """Return the modules of others that a failure could not bring back."""
    known = {name: current.files.get(name) for name in current.loaded}
    lost = [name for name, file in known.items() if file is None or kmod.differ(current.loaded[name], file)]
    if lost:
        yield (
            f"The loaded {', '.join(lost)} of others came from no file that modprobe knows (insmod, initramfs), so a"
            f" failure could not bring them back: install their files for kernel {current.kernel}, or unload them."
        )
