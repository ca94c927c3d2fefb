"""The steps that swap the host's driver: unload, files, load. They need only the store."""

import functools
import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from installer import change_steps, store
from installer.decide import desired
from installer.drain import device_users
from installer.host import chroot, digests, host_state, kmod, libraries, network, pci, record, rpm
from runtime import driver_config, errors, process, readings, shapes

LOG = logging.getLogger(__name__)


class InUse(errors.Failure):
    """A device was opened after the drain."""


@dataclass(frozen=True)
class Swap:
    """Steps that install a driver of the store, or with None remove it; for `plan`, none reads before it runs."""

    _host: chroot.Host
    _settings: driver_config.Config
    _drivers: store.Store
    _devices: device_users.DeviceUsers

    def unload(self, current: host_state.HostState) -> Iterator[change_steps.Step]:
        """Yield the steps that unload the driver, if one is loaded."""
        yield from self.disable(current, {function.address for function in current.functions})
        if current.loaded:
            reason = f"Unloads {', '.join((*current.above, *self._unloading(current.loaded)))}, in this order."
            yield change_steps.Step("unload-modules", reason, self._unload)

    def disable(self, current: host_state.HostState, among: Collection[str]) -> Iterator[change_steps.Step]:
        """Yield the step that disables virtual functions of those in `among` that no other driver is bound to."""
        if losing := {function.address: function.vfs for function in _losing(current.functions, among)}:
            what = _listed(losing)
            reason = f"Disables virtual functions ({what}): the kernel changes their number only by way of 0."
            yield change_steps.Step("disable-virtual-functions", reason, lambda: self._disable(among))

    def files(
        self, target: record.Driver | None, erased: Collection[str], *, restores: bool = False
    ) -> Iterator[change_steps.Step]:
        """Yield the steps that install the driver's files in place of others, and erase these packages.

        With `restores` an index that cannot be updated is no failure: it holds paths, which may be the same as before.
        """
        if target is not None and target.packages:
            reason = f"Installs {', '.join(target.packages)} with the host's rpm."
            yield change_steps.Step("install-packages", reason, lambda: self._install_packages(target))
        if erased:
            reason = f"Erases {', '.join(sorted(erased))} with the host's rpm, if installed."
            yield change_steps.Step("erase-packages", reason, lambda: self._erase_packages(sorted(erased)))
        places = f"{_places(target)} '{self._host.own.modules('<kernel>')}'."
        yield change_steps.Step("place-modules", places, lambda: self._place_modules(target))
        if libraries.links(self._host, target):
            yield self.libraries(target)
        indexes = "Updates the index of modprobe (depmod)."
        index = functools.partial(self._index, target, changed=bool(erased))
        yield change_steps.Step("index-modules", indexes, chroot.logged()(index) if restores else index)

    def libraries(self, target: record.Driver | None) -> change_steps.Step:
        """Return the step that places the driver's libraries, or removes all of the installer's."""
        named = ", ".join(f"'{link}'" for link in libraries.links(self._host, target))
        reason = f"{_places(target)} {named}, which containers mount."
        return change_steps.Step("place-libraries", reason, lambda: self._place_libraries(target))

    def block(self, target: record.Driver | None) -> change_steps.Step:
        """Return the step that keeps udev from loading the driver at a boot (`blacklist` of modprobe.d(5))."""
        staged = map(kmod.name_of, target.modules if target else ())
        names = dict.fromkeys((*self._settings.all_modules, *staged))
        text = "\nblacklist ".join(["# The driver installer removes this file when the driver is verified.", *names])
        blocked = self._host.own.blocked
        reason = f"Writes '{blocked}': a driver that crashes the host is not loaded at the next boot."
        return change_steps.Step("block-autoload", reason, lambda: self._host.write(blocked, f"{text}\n"))

    def allow(self) -> change_steps.Step:
        """Return the step that lets udev load the driver at a boot."""
        reason = f"Removes '{self._host.own.blocked}': boots load this driver."
        return change_steps.Step("allow-autoload", reason, lambda: self._host.remove(self._host.own.blocked))

    def options(self, texts: Mapping[str, str], reason: str) -> change_steps.Step:
        """Return the step that writes these options files, and removes those of the other modules."""
        return change_steps.Step("write-options", reason, lambda: self._write_options(texts))

    def load(self, names: tuple[str, ...]) -> change_steps.Step:
        """Return the step that loads the modules, with the parameters of the options files."""
        reason = f"Loads {', '.join(names)}, in this order."
        return change_steps.Step("load-modules", reason, lambda: self._load(names, anew=True))

    def add(self, names: Sequence[str]) -> change_steps.Step:
        """Return the step that loads modules beside those that are loaded."""
        reason = f"Loads {', '.join(names)}, beside those that are loaded."
        return change_steps.Step("load-modules", reason, lambda: self._load(tuple(names), anew=False))

    def reload(self, names: tuple[str, ...], *, anew: bool) -> change_steps.Step:
        """Return the step that loads as many of these modules as possible, with `anew` after an unload of all."""
        reason = f"Loads {', '.join(names)} again, as far as possible."
        return change_steps.Step("load-modules", reason, lambda: self._load(names, anew=anew, tolerant=True))

    def permit(self) -> Iterator[change_steps.Step]:
        """Yield the step that lets users other than root use the device nodes."""
        if nodes := self._settings.device_nodes:
            of = f" and group {nodes.group}" if nodes.group is not None else ""
            reason = f"Gives the device nodes mode {nodes.mode}{of}, and '{self._host.own.rule}' for later ones."
            yield change_steps.Step("permit-device-nodes", reason, lambda: self._permit(nodes))

    def forbid(self) -> Iterator[change_steps.Step]:
        """Yield the step that takes this back for nodes that appear later."""
        rule = self._host.own.rule
        if self._settings.device_nodes:
            yield change_steps.Step("remove-rule", f"Removes '{rule}'.", lambda: self._host.remove(rule))

    def enable(self, counts: Mapping[str, int]) -> Iterator[change_steps.Step]:
        """Yield the step that enables these numbers of virtual functions, by PCI address."""
        if wanted := {address: count for address, count in sorted(counts.items()) if count}:
            reason = f"Enables virtual functions: {_listed(wanted)}."
            yield change_steps.Step("enable-virtual-functions", reason, lambda: self._enable(wanted))

    def _refuse_users(self) -> None:
        """Refuse if a virtual machine or a process has come meanwhile: the kernel would wait for its end."""
        lent = [function.address for function in pci.guests(pci.functions(self._host, self._settings))]
        if lent:
            raise errors.Failure(
                f"The virtual functions stay, as another driver has {', '.join(lent)}: end the virtual machine."
            )
        if held := self._devices.openers():
            raise InUse(f"A device was opened after the drain, by {device_users.listed(held)}.")
        if carried := list(network.carrying(self._host, self._settings, self._names())):
            raise errors.Failure(" ".join(carried))

    def _unload_modules(self) -> None:
        self._refuse_users()
        loaded = kmod.loaded(self._host, self._names())
        kmod.unload(self._host, (*self._settings.above, *self._unloading(loaded)))

    def _names(self) -> tuple[str, ...]:
        return host_state.modules(self._host, self._settings, record.read(self._host))

    def _unloading(self, loaded: Mapping[str, kmod.Module]) -> list[str]:
        """Return the loaded modules in the order of unloading: those to be replaced, then the others in reverse."""
        first = [name for name in self._settings.replaced if name in loaded and name not in self._settings.names]
        names = [*first, *reversed([name for name in loaded if name not in first])]
        return kmod.unloading({name: loaded[name] for name in names})

    def _unload(self) -> None:
        self._drop_links()
        self._unload_modules()
        change = record.read(self._host).change
        if change is not None and not change.touched:
            record.update(self._host, change=msgspec.structs.replace(change, touched=True))

    def _drop_links(self) -> None:
        # A dead device plugin does not remove its links, and a container that starts meanwhile would get whichever
        # device has the number by then.
        self._host.empty(self._host.own.links)

    def _disable(self, among: Collection[str]) -> None:
        self._refuse_users()
        self._drop_links()
        for function in _losing(pci.functions(self._host, self._settings), among):
            self._host.write_attribute(f"{function.folder}/sriov_numvfs", "0")

    def _enable(self, counts: Mapping[str, int]) -> None:
        for function in pci.functions(self._host, self._settings):
            wanted = counts.get(function.address, 0)
            if wanted and function.vfs != wanted:
                for count in (0, wanted) if function.vfs else (wanted,):
                    self._host.write_attribute(f"{function.folder}/sriov_numvfs", str(count))

    def _install_packages(self, driver: record.Driver) -> None:
        folder = f"{self._host.own.drivers}/{driver.id}/packages"
        rpm.install(self._host, [f"{folder}/{name}.rpm" for name in driver.packages])

    def _erase_packages(self, names: list[str]) -> None:
        if staying := rpm.erase(self._host, names):
            LOG.warning("Other packages need %s, so the host keeps it.", ", ".join(staying))

    def _place_modules(self, target: record.Driver | None) -> None:
        libraries.free(self._host, target)
        folder = self._drivers.folder(target) / "modules" if target else None
        wanted = {place: folder / name for name, place in target.modules.items()} if target and folder else {}
        if self._settings.brings_along:
            has = record.of_others(self._host, self._settings.recipe, host_state.kernel(self._host))
            wanted = {place: source for place, source in wanted.items() if kmod.name_of(place) not in has}
        ours = {file for name in self._settings.all_modules for file in (f"{name}.ko", f".{name}.ko.new")}
        placed = [(kernel, name) for kernel in self._kernels(target) for name in self._placed(kernel)]
        for kernel, name in [each for each in placed if each[1] in ours or self._settings.brings_along]:
            absolute = f"{self._host.own.modules(kernel)}/{name}"
            # Old files are removed first, which frees the disk space for the new ones and for a rollback.
            if absolute not in wanted or not digests.same(self._host.path(absolute), wanted[absolute]):
                self._host.remove(absolute)
        for place, source in wanted.items():
            if not digests.same(self._host.path(place), source):
                self._host.copy(source, place)

    def _placed(self, kernel: str) -> list[str]:
        return sorted(readings.names(self._host.resolved(self._host.own.modules(kernel))))

    def _kernels(self, target: record.Driver | None) -> list[str]:
        """Return the kernels whose modules change: all for a removal; others may be booted again."""
        every = sorted(readings.names(self._host.resolved("/lib/modules")))
        names = (target.kernel, host_state.kernel(self._host)) if target else every
        return [name for name in every if name in names]

    def _place_libraries(self, target: record.Driver | None) -> None:
        if target is not None and target.libraries:
            libraries.place(self._host, target, self._drivers.folder(target) / "libraries")
        else:
            libraries.remove(self._host)

    def _index(self, target: record.Driver | None, *, changed: bool) -> None:
        changed = changed or (target is not None and bool(target.modules or target.packages))
        running = host_state.kernel(self._host)
        for kernel in self._kernels(target):
            # A killed installer may have removed the files, and not have come to the index that names them.
            named = host_state.text(self._host, f"/lib/modules/{kernel}/modules.dep") or ""
            if (changed and kernel == running) or f"{self._host.own.updates}/" in named or self._placed(kernel):
                kmod.index(self._host, kernel)

    def _write_options(self, texts: Mapping[str, str]) -> None:
        for module in dict.fromkeys((*self._names(), *texts)):
            place = self._host.own.options(module)
            # What is right is not written again: a way back may find a disk that takes nothing.
            if module not in texts and os.path.lexists(self._host.path(place)):
                self._host.remove(place)
            elif module in texts and host_state.text(self._host, place) != texts[module]:
                self._host.write(place, texts[module])

    def _load(self, names: tuple[str, ...], *, anew: bool, tolerant: bool = False) -> None:
        if anew:
            self._unload_modules()  # A package's scripts may have loaded them with their own parameters.
        refused = []
        for name in names:
            try:
                kmod.load(self._host, name)
            except errors.Failure as failure:
                if not tolerant or isinstance(failure, process.Unkillable):
                    raise
                refused.append(str(failure))
        if refused:
            raise errors.Failure(" ".join(refused))

    def _permit(self, nodes: shapes.DeviceNodes) -> None:
        self._host.write(self._host.own.rule, host_state.rule(self._host, nodes))
        for entry in pci.devices(self._host, self._settings).values():
            if entry.mode is not None:
                self._host.permit(entry.path, int(nodes.mode, 8), nodes.group)
        self._host.link_nodes()


def _places(target: record.Driver | None) -> str:
    return f"Places the files of {target.version} in" if target else "Removes our files from"


def _losing(functions: Iterable[pci.Function], among: Collection[str]) -> list[pci.Function]:
    return [function for function in functions if function.vfs and not function.lent and function.address in among]


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} of {address}" for address, count in counts.items())


def counts(settings: driver_config.Config, current: host_state.HostState, before: Mapping[str, int]) -> dict[str, int]:
    """Return the virtual functions by physical function whose module is to be loaded: of the config, else as before."""
    return {
        function.address: settings.sriov.get(function.kind.name, before.get(function.address, 0))
        for function in desired.enabled(settings, current.functions)
        if not function.virtual and not function.lent
    }


def differing(wanted: Mapping[str, int], current: host_state.HostState) -> dict[str, int]:
    """Return the wanted numbers of virtual functions that differ from the current ones."""
    has = {function.address: function.vfs for function in current.functions}
    return {address: number for address, number in wanted.items() if has.get(address) != number}
