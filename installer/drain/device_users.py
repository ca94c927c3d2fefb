"""The users of the host's devices, and their drain."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from installer.decide import driver_class
from installer.drain import cluster, device_holders, eviction, processes
from installer.host import chroot, host_state, pci
from runtime import driver_config, errors

_NAMED = 8
"""The number of holders that a sentence names; a shared device may have 128."""


class Blocked(errors.Failure):
    """A device is still held."""


class Spared(Blocked):
    """A device is held, and the config has not changed, so no pod is evicted."""


@dataclass
class DeviceUsers:
    """The pods that were given a device, and the processes that have one open."""

    _host: chroot.Host
    _settings: driver_config.Config
    _api: cluster.Cluster
    _kubelet: Path
    """Its root folder on the host."""
    evictions: int = 0
    """The number of evicted pods."""

    def present(self, current: host_state.HostState) -> tuple[str, ...]:
        """Return the device holders, each in words; raise `Failure` if the kubelet does not answer."""
        return tuple(holder.text for holder in self._find(current).holders)

    def openers(self) -> tuple[str, ...]:
        """Return who has a device open now, in words, without the kubelet; raise `Failure` if they are unknown."""
        return tuple(
            holder.text
            for holder in processes.find(self._host, pci.devices(self._host, self._settings).values(), self._counting)
        )

    def drain(self, current: host_state.HostState, check: Callable[[], object]) -> None:
        """Evict the pods, and wait until no device is held.

        Raises:
            Blocked: A device is held at the deadline.
            process.Cancelled: The installer ends.
            errors.Failure: That of `check`, which is called before each look and each eviction.
        """
        limit_s = self._settings.drain.timeout_seconds
        ended = eviction.Drain(
            find=lambda: self._find(current),
            evict=self._evict,
            deadline_s=limit_s,
            enabled=self._settings.drain.enabled,
            stop=self._host.stop,
            check=check,
        ).run()
        if ended is not None:
            first = sorted(ended.holders, key=lambda holder: bool(holder.pod))  # Who blocks.
            who = listed([holder.text for holder in first]) or "an unknown holder"
            notes = "".join(f" {note}" for note in ended.notes[:_NAMED])
            raise Blocked(f"After {limit_s} s a device is still held by {who}.{notes} The driver stays as it was.")

    @property
    def _counting(self) -> tuple[str, ...]:
        return driver_class.of(self._settings).counting

    def _evict(self, namespace: str, pod: str, uid: str) -> cluster.EvictionAnswer:
        answer = self._api.evict(namespace, pod, uid)
        self.evictions += answer.outcome is cluster.Outcome.ACCEPTED
        return answer

    def _find(self, current: host_state.HostState) -> device_holders.Holders:
        resources, entries = self._settings.resources, current.devices.values()
        found = device_holders.find(self._host, resources, entries, self._kubelet, self._counting)
        guests = (
            f"virtual function {function.address} (driver {function.driver}, as for a virtual machine)"
            for function in pci.guests(pci.functions(self._host, self._settings))
        )
        return replace(found, holders=(*found.holders, *(processes.Holder(text=guest) for guest in guests)))


def listed(texts: Sequence[str]) -> str:
    """Return the first of these, and the number of the others."""
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f", and {more} more" if more > 0 else "")
