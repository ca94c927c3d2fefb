"""Those who use the host's devices: who they are, and how they are made to let go."""

from collections.abc import Sequence

from installer import config
from installer.drain import cluster, device_holders, eviction
from installer.host import chroot, host_state, pci
from runtime import errors

_NAMED = 8
"""So many holders are named in a sentence; a device that is shared may have 128."""


class Blocked(errors.Failure):
    """Somebody would not let go of a device, or is not asked to."""


class Spared(Blocked):
    """Nobody is asked to let go, as nothing new was asked of us; it is looked again soon."""


class DeviceUsers:
    """Pods that were given a device, and processes that have one open."""

    def __init__(self, host: chroot.Host, settings: config.Config, api: cluster.Cluster) -> None:
        """Nobody is asked yet."""
        self._host = host
        self._settings = settings
        self._api = api
        self.evictions = 0
        """How many pods have been made to go."""

    def present(self, current: host_state.HostState) -> tuple[str, ...]:
        """Who holds a device now, each in words.

        Raises:
            errors.Failure: The kubelet does not say.
        """
        return tuple(holder.text for holder in self._find(current).holders)

    def drain(self, current: host_state.HostState) -> None:
        """Has them go, and waits for them.

        Raises:
            Blocked: Somebody holds a device at the deadline.
            process.Cancelled: The installer is to end.
        """
        limit_s = self._settings.drain.timeout_seconds
        ended = eviction.Drain(
            find=lambda: self._find(current),
            evict=self._evict,
            deadline_s=limit_s,
            enabled=self._settings.drain.enabled,
            stop=self._host.stop,
        ).run()
        if isinstance(ended, eviction.Stayed):
            who = listed([holder.text for holder in ended.holders]) or "somebody"
            notes = "".join(f" {note}" for note in ended.notes[:_NAMED])
            raise Blocked(f"After {limit_s} s a device is still held by {who}.{notes} The driver stays as it was.")

    def _evict(self, namespace: str, pod: str) -> cluster.Answer:
        answer = self._api.evict(namespace, pod)
        self.evictions += answer.outcome is cluster.Outcome.ACCEPTED
        return answer

    def _find(self, current: host_state.HostState) -> device_holders.Found:
        resources = {kind.resource for kind in self._settings.kinds}
        entries = [found.entry for found in current.functions if found.entry is not None]
        found = device_holders.find(self._host, resources, entries)
        now = pci.found(self._host, self._settings.vendor, self._settings.kinds)
        guests = (device_holders.Guest(address=one.address, driver=one.driver or "") for one in pci.guests(now))
        return device_holders.Found(holders=(*found.holders, *guests), notes=found.notes)


def listed(texts: Sequence[str]) -> str:
    """The first of these, and how many more there are."""
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f", and {more} more" if more > 0 else "")
