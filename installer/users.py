"""Those who use the host's devices: who they are, and how they are made to let go."""

from installer import cluster, config, drain, holders, observation
from installer import host as hosts
from runtime import errors


class Blocked(errors.Failure):
    """Somebody would not let go of a device, or is not asked to."""


class Users:
    """Pods that were given a device, and processes that have one open."""

    def __init__(self, host: hosts.Host, settings: config.Config, api: cluster.Cluster) -> None:
        """Nobody is asked yet."""
        self._host = host
        self._settings = settings
        self._api = api

    def present(self, seen: observation.Seen) -> tuple[str, ...]:
        """Who holds a device now, each in words.

        Raises:
            errors.Failure: The kubelet does not say.
        """
        return tuple(holder.text for holder in self._find(seen).holders)

    def drain(self, seen: observation.Seen) -> None:
        """Has them go, and waits for them.

        Raises:
            Blocked: Somebody holds a device at the deadline.
            host.Cancelled: The installer is to end.
        """
        limit_s = self._settings.drain.timeout_seconds
        ended = drain.Drain(
            find=lambda: self._find(seen),
            evict=self._api.evict,
            deadline_s=limit_s,
            enabled=self._settings.drain.enabled,
            stop=self._host.stop,
        ).run()
        if isinstance(ended, drain.Stayed):
            who = ", ".join(holder.text for holder in ended.holders) or "somebody"
            notes = f" {' '.join(ended.notes)}" if ended.notes else ""
            raise Blocked(f"After {limit_s} s a device is still held by {who}.{notes} The driver stays as it was.")

    def _find(self, seen: observation.Seen) -> holders.Found:
        resources = {kind.resource for kind in self._settings.kinds}
        entries = [found.entry for found in seen.functions if found.entry is not None]
        return holders.find(self._host, resources, entries)
