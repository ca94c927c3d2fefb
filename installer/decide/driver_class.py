"""The two classes of drivers: how each is known to be at work, and what decisions and sentences make of that.

`of` chooses one by a config's `class`. Everything else that differs between drivers is data of their configs.
"""

from collections.abc import Sequence

import msgspec

from installer.decide import desired
from installer.host import host_state, pci
from runtime import driver_config


class Uacce(msgspec.Struct, frozen=True):
    """A driver that serves by entries in /sys/class/uacce."""

    _settings: driver_config.Uacce

    counting = ("uacce",)
    """The modules that count the users of the device nodes."""
    proved = "parameters, entries"
    """The parts of a driver that are verified beside its modules and device nodes."""

    def at_work(self, current: host_state.HostState) -> bool:
        """Return whether a driver is at work."""
        return bool(pci.entries(current.functions))

    def may_be_held(self, current: host_state.HostState) -> bool:
        """Return whether somebody may hold a device."""
        return bool(current.devices or pci.guests(current.functions))

    def lacks(self, current: host_state.HostState) -> str:
        """Return why modules that we did not load are no driver, as a sentence; empty if they are one."""
        if self.at_work(current) or self._present(current):
            return ""
        if current.loaded:
            return f"Modules are loaded ({', '.join(current.loaded)}), but no device has an entry in /sys/class/uacce."
        return "No driver is loaded."

    def kept(self, current: host_state.HostState) -> tuple[str, bool]:
        """Return a sentence about a driver of others that stays, and whether no kind of devices is without one."""
        if present := self._present(current):
            return _loaded_by_others(present), True
        if dead := " and no ".join(self._dead_kinds(current)):
            said = (
                f"A driver that others installed serves no {dead} device, although the host has some; the install"
                " policy is IfNotPresent, so it stays as it is."
            )
            return said, False
        said = (
            f"A driver that others installed serves {len(current.devices)} devices; the install policy is IfNotPresent,"
            " so it stays as it is."
        )
        return said, True

    def is_of_others(self, current: host_state.HostState) -> bool:
        """Return whether a removal finds a driver of others, where we installed none."""
        return self.at_work(current)

    def kernel_users(self, current: host_state.HostState) -> tuple[str, ...]:
        """Return the modules that the kernel itself uses, for its cryptography or compression (crypto_mod_get).

        Each open device counts in uacce twice (cdev_get, fops_get of fs/char_dev.c), and once in its own module if it
        has memory for DMA (uacce_alloc_dma_buffers of uacce.c in KAE and in openEuler's kernel; Linux does without). A
        drain ends these users. As no module tells which uacce it is, open devices may hide a use by the kernel, which
        then fails rmmod: the change is undone.
        """
        if pci.guests(current.functions):
            return ()  # A virtual function in a guest counts, too, and the drain names it.
        loaded = (*current.loaded.values(), *current.above.values())
        users = {module.name: module.users - len(module.holders) for module in loaded}
        opened = users.pop(self._settings.names[0], 0) // 2
        ours = {name: count for name, count in users.items() if count > 0}
        if sum(ours.values()) <= opened:
            return ()
        which = " and ".join(f"{name} (reference count {count})" for name, count in ours.items())
        return (
            f"The kernel itself uses {which}, as dm-crypt, IPsec and kTLS do: end that use (/proc/crypto and"
            " 'dmsetup table' on the host show it), or blacklist the module and reboot.",
        )

    def lost(self, devices: Sequence[str]) -> str:
        """Return a sentence about devices that a rollback did not bring back."""
        return f"{', '.join(devices)} had an entry in /sys/class/uacce, and has none now."

    def _present(self, current: host_state.HostState) -> list[str]:
        """Return the loaded modules of kinds, where the policy says that these are a driver of others."""
        stays = (self._settings.install_policy, self._settings.present_when) == ("IfNotPresent", "Loaded")
        return [kind.module for kind in self._settings.kinds if stays and kind.module in current.loaded]

    def _dead_kinds(self, current: host_state.HostState) -> list[str]:
        """Return the kinds to serve that have devices here, none of which has an entry that it should have."""
        return sorted(name for name, served in self.served(current).items() if not any(served.values()))

    def served(self, current: host_state.HostState) -> dict[str, dict[str, bool]]:
        """Return by kind whether each device that is to be served has an entry."""
        kinds: dict[str, dict[str, bool]] = {}
        for function in desired.enabled(self._settings, current.functions):
            if not function.lent and desired.has_entries(self._settings, function.kind.module):
                kinds.setdefault(function.kind.name, {})[function.address] = function.entry is not None
        return kinds


class Plain(msgspec.Struct, frozen=True):
    """A driver that needs no device: all modules of the policy are one."""

    _settings: driver_config.Plain

    proved = "parameters"

    @property
    def counting(self) -> tuple[str, ...]:
        """As of `Uacce`."""
        return self._settings.all_modules

    def at_work(self, current: host_state.HostState) -> bool:
        """As of `Uacce`."""
        return bool(current.loaded)

    def may_be_held(self, current: host_state.HostState) -> bool:
        """As of `Uacce`; a resource of tokens has no device node."""
        return bool(current.nodes or desired.resources(self._settings, current.record))

    def lacks(self, current: host_state.HostState) -> str:
        """As of `Uacce`."""
        foreign = current.foreign_files()
        if replaced := [name for name in current.loaded if name in self._settings.replaced and name not in foreign]:
            return f"The kernel's own {', '.join(replaced)} is loaded, which the driver of the policy replaces."
        missing = [name for name in self._settings.names if name not in {*current.loaded, *current.others}]
        if missing and current.loaded:
            return f"The policy's {', '.join(missing)} is not loaded."
        return "No driver is loaded." if missing else ""

    def kept(self, current: host_state.HostState) -> tuple[str, bool]:
        """As of `Uacce`."""
        return _loaded_by_others(self._settings.names), True

    def is_of_others(self, current: host_state.HostState) -> bool:
        """As of `Uacce`."""
        return bool(current.strangers)

    def kernel_users(self, current: host_state.HostState) -> tuple[str, ...]:
        """Return nothing: no count tells the kernel's own use of a module from another one."""
        return ()

    def served(self, current: host_state.HostState) -> dict[str, dict[str, bool]]:
        """Return nothing: without its nodes such a driver has a fault."""
        return {}

    def lost(self, devices: Sequence[str]) -> str:
        """As of `Uacce`."""
        return f"{', '.join(devices)} was a device node before, and is none now."


def of(settings: driver_config.Config) -> Uacce | Plain:
    """Return the class of a driver."""
    return Uacce(settings) if isinstance(settings, driver_config.Uacce) else Plain(settings)


def _loaded_by_others(names: Sequence[str]) -> str:
    return f"Others have loaded {', '.join(names)}; the install policy is IfNotPresent, so they stay as they are."
