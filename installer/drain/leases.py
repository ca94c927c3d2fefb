"""The right to swap a driver: one of a policy's Leases, shared by all its hosts.

No clock but the own monotonic one counts, as in client-go's leader election: a Lease is free when nobody holds it, or
when it was seen unchanged for its whole duration. The times written into it are for people.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from installer import config
from installer.drain import cluster
from runtime import errors

LOG = logging.getLogger(__name__)

DURATION_S = 900
"""A Lease that is not renewed for so long is free again."""

RENEW_S = 60
"""Between two renewals; a sixth of it after one that failed."""

MARGIN_S = 120
"""So long before others may take it, it is not safe any more: for requests that hang, and for what was begun."""

WATCH_S = 300
"""Between two looks at a Lease of somebody else, at most; else its watching begins anew.

While the API server was down nobody could renew, and everybody would be taken for dead when it is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """A Lease of somebody else as it was first seen, and how long it was seen so."""

    lease: cluster.Lease
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The Lease that is ours, as far as we know."""

    name: str
    since_s: float
    lease: cluster.Lease | None = None
    """As it was last read or written; None for one that a process before this one took."""
    renewed_s: float | None = None
    """When the renewal that succeeded was begun, hence before others saw it."""
    leaving: bool = False
    """It is to be given back."""


class Right:
    """The right of one host, held or not. From `take` to `give_back` a thread renews it.

    Threads may share it. Where it raises, it is `cluster.Unreachable` or `cluster.Refused`.
    """

    def __init__(
        self,
        api: cluster.Cluster,
        settings: config.Leases,
        node: str,
        clock: Callable[[], float] = time.monotonic,
        renew_s: float = RENEW_S,
    ) -> None:
        self.stolen = ""
        """Who has the Lease since we lost it, in a sentence; empty while it was not lost."""
        self.others: tuple[str, ...] = ()
        """Why the last `take` found none free: a sentence for each Lease."""
        self._api = api
        self._namespace = settings.namespace
        self._names = settings.names
        self._node = node
        self._clock = clock
        self._renew_s = renew_s
        self._held: _Held | None = None
        self._doubtful = ""
        self._watched: dict[str, _Watched] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def name(self) -> str | None:
        """The Lease that is ours; also one that is still to be given back."""
        held = self._held
        return held.name if held is not None else None

    @property
    def held_s(self) -> float | None:
        """For how long it is ours, as far as this process knows."""
        held = self._held
        return self._clock() - held.since_s if held is not None else None

    def is_safe(self) -> bool:
        """Whether nobody else can have it: it was renewed lately, is not stolen and is not to be given back."""
        held = self._held
        if held is None or held.renewed_s is None or held.leaving:
            return False
        return self._clock() - held.renewed_s < DURATION_S - MARGIN_S

    def take(self) -> bool:
        """Takes the first Lease that is free, the own one before all others, and has it renewed; false: none is free.

        Who waits calls it again at least every five minutes. Two are never taken: what became of a call whose answer
        got lost is cleared up by the next one.
        """
        with self._lock:
            self.stolen, self.others = "", ()
            if self._held is not None:
                self._held = replace(self._held, leaving=False)
                self._renew()
            else:
                self._take_one()
            if self._held is not None:
                self._start()
            return self._held is not None

    def resume(self, name: str) -> bool:
        """Holds what a process before this one took, if it is still ours; false: it is not, or nobody can say now.

        Never raises. In the latter case `name` is set, and it is asked until somebody answers.
        """
        with self._lock:
            self.stolen = ""
            self._held = _Held(name=name, since_s=self._clock())
            self._attempt(self._renew)
            if self._held is not None:
                self._start()
        return self.is_safe()

    def renew(self) -> None:
        """Renews it now, which otherwise the thread does; that somebody else has it is no failure, but `stolen`."""
        with self._lock:
            if self._held is not None:
                self._renew()

    def give_back(self) -> bool:
        """Lets somebody else have it; false: nobody could be told yet, and the thread goes on trying.

        Never raises: a host that is done is not held up.
        """
        with self._lock:
            if self._held is not None:
                self._held = replace(self._held, leaving=True)
                self._attempt(self._renew)
                self._wake.set()
            return self._held is None

    def close(self) -> None:
        """Ends the thread; a Lease that is held stays ours for its duration, and a later process can resume it."""
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join(1)  # No longer: it may be waiting for an API server that does not answer.

    def _take_one(self) -> None:
        found: dict[str, cluster.Lease | None] = {}
        refusals = []
        for name in self._names:
            try:
                found[name] = self._api.lease(self._namespace, name)
            except cluster.Refused as refusal:
                # One may be named by the config and not yet by the Role.
                refusals.append(refusal)
        self.others = tuple(map(str, refusals))
        if refusals and not found:
            raise refusals[0]
        ours = [name for name, lease in found.items() if lease is not None and lease.holder == self._node]
        free = [name for name, lease in found.items() if name not in ours and self._is_free(name, lease)]
        # A write whose answer got lost may still arrive; a second one to the same Lease makes it fail.
        free.sort(key=lambda name: name != self._doubtful)
        if any(self._claim(name, found[name]) for name in ours + free):
            for name in ours:
                self._vacate(name, found[name])

    def _claim(self, name: str, lease: cluster.Lease | None) -> bool:
        began_s = self._clock()
        try:
            written = self._write(name, lease)
        except cluster.Conflict:
            self.others = (*self.others, f"The Lease {name} was taken by another host in this moment.")
            return False
        except cluster.Unreachable:
            self._doubtful = name
            raise
        self._doubtful, self.others = "", ()
        self._held = _Held(name=name, since_s=began_s, lease=written, renewed_s=began_s)
        LOG.info("The right to swap the driver is taken.", extra={"lease": name})
        return True

    def _renew(self) -> None:
        """Writes the Lease that is held, or gives it back; another one's is lost. The lock is ours."""
        held = self._held
        if held is None:
            return
        began_s = self._clock()
        lease = held.lease
        for last in (False, True):
            if lease is None:
                lease = self._api.lease(self._namespace, held.name)
            if lease is not None and lease.holder != self._node:
                self._lose(held, lease.holder)
                return
            try:
                self._settle(held, lease, began_s)
                return
            except cluster.Conflict:
                if last:
                    raise
                lease = None

    def _settle(self, held: _Held, lease: cluster.Lease | None, began_s: float) -> None:
        if not held.leaving:
            self._held = replace(held, lease=self._write(held.name, lease), renewed_s=began_s)
            return
        if lease is not None:
            self._api.update_lease(self._namespace, replace(lease, holder="", acquired=""))
        self._held = None
        LOG.info("The right to swap the driver is given back.", extra={"lease": held.name})

    def _lose(self, held: _Held, holder: str) -> None:
        self._held = None
        if held.leaving:
            return
        taken = f"is held by {holder} now" if holder else "was given to nobody"
        self.stolen = f"The Lease {held.name} {taken}."
        LOG.warning("The right to swap the driver is lost.", extra={"lease": held.name, "holder": holder})

    def _write(self, name: str, lease: cluster.Lease | None) -> cluster.Lease:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")  # metav1.MicroTime
        if lease is None:
            fresh = cluster.Lease(
                name=name, holder=self._node, acquired=now, renewed=now, duration_s=DURATION_S, transitions=0
            )
            return self._api.create_lease(self._namespace, fresh)
        if lease.holder != self._node:
            lease = replace(lease, holder=self._node, acquired=now, transitions=lease.transitions + 1)
        return self._api.update_lease(self._namespace, replace(lease, renewed=now, duration_s=DURATION_S))

    def _vacate(self, name: str, lease: cluster.Lease | None) -> None:
        """Gives back a second one, which somebody must have put into our name."""
        if lease is not None and name != self.name:
            self._attempt(lambda: self._api.update_lease(self._namespace, replace(lease, holder="", acquired="")))

    def _is_free(self, name: str, lease: cluster.Lease | None) -> bool:
        if lease is None or not lease.holder:
            return True
        now_s = self._clock()
        watched = self._watched.get(name)
        if watched is None or watched.lease != lease or now_s - watched.last_s > WATCH_S:
            watched = _Watched(lease=lease, first_s=now_s, last_s=now_s)
        self._watched[name] = replace(watched, last_s=now_s)
        if now_s - watched.first_s >= DURATION_S:
            LOG.warning("A Lease has expired.", extra={"lease": name, "holder": lease.holder})
            return True
        since = f" since {lease.acquired}" if lease.acquired else ""
        self.others = (*self.others, f"The Lease {name} is held by {lease.holder}{since}.")
        return False

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)
            self._thread.start()

    def _keep(self) -> None:
        """The thread: until nothing is held, or it is closed."""
        failed = False
        while True:
            self._wake.wait(self._renew_s / 6 if failed else self._renew_s)
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
                self._wake.clear()
                failed = not self._attempt(self._renew, repeated=failed)
                if self._held is None:
                    self._thread = None
                    return

    def _attempt(self, action: Callable[[], object], *, repeated: bool = False) -> bool:
        try:
            action()
        except errors.Failure as failure:
            if not repeated:
                LOG.warning("A Lease cannot be written now; it is tried again.", extra={"reason": str(failure)})
            return False
        if repeated:
            LOG.info("The Lease can be written again.")
        return True
