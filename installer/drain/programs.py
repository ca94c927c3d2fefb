"""The programs that come after the driver: their pods go before a change, and their successors wait for its end.

Such a program holds the driver for as long as it runs, as Onload's control plane does, so no unload would ever end.
Its DaemonSet makes each pod anew, whose first container waits until the announcement of the change is gone.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from installer.drain import cluster, device_holders
from installer.host import chroot
from runtime import driver_config, errors, process, pulse

POLL_S = 1.0
"""The pause between two looks at the pods."""


@dataclass(frozen=True)
class Programs:
    """The pods of this node that come after the driver."""

    _host: chroot.Host
    _settings: driver_config.Config
    _api: cluster.Cluster
    _node: str

    @property
    def selector(self) -> str:
        """The label selector of the pods; empty where there are none."""
        return self._settings.programs

    def without(self, holders: tuple[device_holders.Holder, ...]) -> tuple[device_holders.Holder, ...]:
        """Return the device holders that are none of these pods; all of them if the API server does not tell."""
        if not holders or not self.selector:
            return holders
        try:
            known = self._found()
        except errors.Failure:
            return holders
        keys, uids = {f"{self._namespace}/{name}" for name in known}, set(known.values())
        return tuple(holder for holder in holders if holder.pod not in keys and holder.uid not in uids)

    def take_away(self, check: Callable[[], object]) -> str:
        """Delete the pods, and wait until they are gone; return why one is not at the end of a drain's time.

        Called while the change is announced: pods that are made from then on wait. Raises `Cancelled`, and what `check`
        raises, which is called before each look.
        """
        end_s = time.monotonic() + self._settings.drain.timeout_seconds
        first: dict[str, str] | None = None
        asked: set[str] = set()
        while True:
            pulse.beat()
            if self._host.stop.is_set():
                raise process.Cancelled("The change was interrupted, as the installer ends.")
            check()
            try:
                found = self._found()
                first = found if first is None else first
                left = {name: uid for name, uid in found.items() if uid in first.values()}
                for name, uid in left.items():
                    if uid not in asked:
                        self._api.delete(self._namespace, name, uid)
                        asked.add(uid)
                said = f"Pods of programs that come after the driver are still there: {', '.join(sorted(left))}."
                if not left:
                    return ""
            except errors.Failure as failure:
                said = f"The pods of programs that come after the driver cannot be taken away: {failure}"
            if time.monotonic() >= end_s:
                return said
            self._host.stop.wait(POLL_S)

    @property
    def _namespace(self) -> str:
        return self._settings.daemon_set.namespace

    def _found(self) -> dict[str, str]:
        return self._api.pods(self._namespace, self.selector, self._node)
