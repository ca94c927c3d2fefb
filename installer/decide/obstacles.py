"""Obstacles on the host that no change can pass; they are known before any pod is evicted."""

import posixpath
from collections.abc import Iterator

from installer import config
from installer.decide import desired
from installer.host import host_state, kmod, pci

_RELATED = ("hisi_rde", "hisi_trng", "hisi_trng_v2")
"""Modules that KAE's own packages of other releases hold, too."""


def find(settings: config.Config, current: host_state.HostState, *, replace: bool) -> tuple[str, ...]:
    """Return sentences about what would stop a change that unloads the driver, with the remedy.

    `replace` says that the driver's files change, too.
    """
    sentences = [*_modules_above(settings, current), *current.network]
    if settings.uacce:
        sentences += _kernel_users(settings, current)
    if replace:
        sentences += _bundles(settings, current)
    if settings.state == "Present":
        sentences += [*_options(settings, current), *(_files(current) if replace else ())]
    installed = current.record.installed
    packages = settings.source.packages or current.owners or (installed is not None and installed.packages)
    if replace and packages and current.rpm_user:
        sentences.append(f"The change waits for {current.rpm_user}, which holds the lock of the host's rpm database.")
    return tuple(sentences)


def _modules_above(settings: config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the modules of others that use one of the driver's: the kernel unloads none that another one uses."""
    known = {*settings.all_modules, *settings.above, *current.loaded}
    for module in (*current.loaded.values(), *current.above.values()):
        for name in module.holders:
            if name not in known:
                yield f"Module {name} of others uses {module.name}: unload it (rmmod {name})."


def _bundles(settings: config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the packages of others that hold more than the driver, as a change erases them whole."""
    for nvra, names in current.bundles.items():
        if others := [name for name in names if name not in {*settings.all_modules, *settings.above, *_RELATED}]:
            which = ", ".join(others)
            yield (
                f"Package {nvra}, which INSTALL_POLICY Always would erase, holds other modules, too ({which}):"
                " replace it by a package without the accelerators' driver, or set IfNotPresent."
            )


def _kernel_users(settings: config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the modules that the kernel itself uses, for its cryptography or compression (crypto_mod_get).

    Each open device counts in uacce twice (cdev_get, fops_get of fs/char_dev.c), and once in its own module if it has
    memory for DMA (uacce_alloc_dma_buffers of uacce.c in KAE and in openEuler's kernel; Linux does without). A drain
    ends these users. As no module tells which uacce it is, open devices may hide a use by the kernel, which then fails
    rmmod: the change is undone.
    """
    if pci.guests(current.functions):
        return  # A virtual function in a guest counts, too, and the drain names it.
    users = {
        module.name: module.users - len(module.holders)
        for module in (*current.loaded.values(), *current.above.values())
    }
    opened = users.pop(settings.modules[0], 0) // 2
    ours = {name: count for name, count in users.items() if count > 0}
    if sum(ours.values()) > opened:
        which = " and ".join(f"{name} (reference count {count})" for name, count in ours.items())
        yield (
            f"The kernel itself uses {which}, as dm-crypt, IPsec and kTLS do: end that use (/proc/crypto and"
            " 'dmsetup table' on the host show it), or blacklist the module and reboot."
        )


def _options(settings: config.Config, current: host_state.HostState) -> Iterator[str]:
    """Return the options that override those of the config: of several, the kernel takes the last."""
    for name in desired.modules(settings, current.functions):
        for key, value in sorted(settings.module_parameters.get(name, {}).items()):
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
    """Return the files that hide the new driver's, and the modules that a failure could not bring back."""
    rivals: dict[str, list[str]] = {}
    for name, path in current.rivals.items():
        if path not in current.owners:
            rivals.setdefault(posixpath.dirname(path), []).append(name)
    for folder, names in rivals.items():
        yield (
            f"modprobe may take {', '.join(names)} from '{folder}' instead of the new driver: remove these files or"
            " their package, and run 'depmod -a'."
        )
    if current.at_work and current.record.installed is None:
        known = {name: current.files.get(name) for name in current.loaded}
        lost = [name for name, file in known.items() if file is None or kmod.differ(current.loaded[name], file)]
        if lost:
            yield (
                f"The loaded {', '.join(lost)} of others came from no file that modprobe knows (insmod, initramfs),"
                f" so a failure could not bring them back: install their files for kernel {current.kernel}, or unload"
                " them."
            )
