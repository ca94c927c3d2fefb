"""Take, renew and give back one of the Leases that admit a policy's hosts to a swap.

Only the own clock since boot counts, much as in client-go's leader election: a Lease is free when it has no holder, or
when it was seen unchanged for its whole duration. The times written into it are for people. A Lease whose holder began
a swap is never free: a host that vanished then may have been killed by the very driver that others would load next.
"""

import functools
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from compiler.kube import lease_objects
from installer.drain import cluster
from runtime import clocks, driver_config, errors, pulse

LOG = logging.getLogger(__name__)

DURATION_S = 900
"""A Lease that is not renewed for this long is free again."""

RENEW_S = 60
"""The pause between two renewals; a sixth of it after a failed one."""

MARGIN_S = 120
"""A Lease stops being safe this long before others may take it: requests can hang, and begun steps take time."""

WATCH_S = 300
"""The longest pause between two reads of another host's Lease; after a longer one its duration counts from zero.

No host can renew while the API server is down, and all would seem dead when it is back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watched:
    """Another host's Lease, and the first and last time it was seen unchanged."""

    lease: lease_objects.Lease
    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """The Lease that this host holds, as far as it knows."""

    name: str
    since_s: float
    renewed_s: float | None = None
    """The start of the last successful renewal, which is before others saw it."""
    leaving: bool = False
    swap: str = ""
    """The mark of a swap as it was last written."""


@dataclass
class Claim:
    """One host's claim to a Lease, which a thread renews from `take` to `give_back`; threads may share it."""

    _api: cluster.Cluster
    _settings: driver_config.Leases
    _node: str
    clock: Callable[[], float] = clocks.since_boot_s
    renew_s: float = RENEW_S
    acquired: str = ""
    """When this host took its Lease, as that says: so `resume` knows it again after the node was renamed."""
    others: tuple[str, ...] = ()
    """A sentence for each Lease that the last `take` did not find free."""
    _held: _Held | None = None
    _resumes: bool = False
    """True until the resumed Lease was written."""
    _doubtful: str = ""
    _watched: dict[str, _Watched] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wake: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    @property
    def name(self) -> str | None:
        """The name of the held Lease, even while it is to be given back."""
        held = self._held
        return held.name if held is not None else None

    @property
    def held_s(self) -> float | None:
        """The seconds since this process took or resumed the Lease; None without one."""
        held = self._held
        return self.clock() - held.since_s if held is not None else None

    def is_safe(self) -> bool:
        """Return whether no other host can hold the Lease: it was renewed lately and is not to be given back."""
        held = self._held
        if held is None or held.renewed_s is None or held.leaving:
            return False
        return self.clock() - held.renewed_s < DURATION_S - MARGIN_S

    def take(self) -> bool:
        """Take the first free Lease, an own one before all others, and keep it renewed; return False when none is free.

        A waiting host calls it at least every five minutes. It never takes two: the next call finds out what became
        of a write whose answer got lost.
        """
        with self._lock:
            self.others = ()
            if self._held is not None and self._held.name not in self._settings.names:
                self._renew()  # It gives back the Lease of the policy that this host had before.
            if self._held is not None:
                self._held = replace(self._held, leaving=False)
                self._renew()
            else:
                self._take_one()
            if self._held is not None:
                self._start()
            return self._held is not None

    def resume(self, name: str, acquired: str = "") -> bool:
        """Hold the Lease that an earlier process took then; return False when it is lost, or without an answer."""
        # It never raises. Without an answer `name` is set, and the thread asks until there is one. A Lease that the
        # config does not name, as that of a former policy, is given back.
        with self._lock:
            self.acquired, self._resumes = acquired, bool(acquired)
            self._held = _Held(name=name, since_s=self.clock(), leaving=name not in self._settings.names)
            self._attempt(self._renew)
            if self._held is not None:
                self._start()
        return self.is_safe()

    def renew(self, *, swap: bool = False) -> None:
        """Renew the Lease now; a lost one is no failure. `swap` begins one, so that nobody takes the Lease over."""
        with self._lock:
            self._renew(clocks.utc(timespec="microseconds") if swap else "")

    def give_back(self) -> bool:
        """Give the Lease back; return False without an answer, after which the thread retries. It never raises."""
        with self._lock:
            if self._held is not None:
                self._held = replace(self._held, leaving=True)
                self._attempt(self._renew)
                self._wake.set()
            return self._held is None

    def free_all(self) -> None:
        """Free every Lease of the config that is in this host's name and that it does not hold."""
        with self._lock:
            for name in self._settings.names:
                lease = self._api.lease(self._settings.namespace, name)
                if lease is not None and lease.holder and lease.holder == self._node and name != self.name:
                    self._free(lease)
                    LOG.warning("A Lease of a former change of this host is given back.", extra={"lease": name})

    def close(self) -> None:
        """End the thread; a held Lease stays this host's for its duration, and a later process can resume it."""
        thread, self._thread = self._thread, None
        self._wake.set()
        if thread is not None:
            thread.join(1)  # Not longer: it may be waiting for an unreachable API server.

    def _take_one(self) -> None:
        present: dict[str, lease_objects.Lease | None] = {}
        refusals = []
        for name in self._settings.names:
            pulse.beat()
            try:
                present[name] = self._api.lease(self._settings.namespace, name)
            except cluster.Refused as refusal:
                # The config may name a Lease before the Role does.
                refusals.append(refusal)
        self.others = tuple(map(str, refusals))
        if refusals and not present:
            raise refusals[0]
        own = [name for name, lease in present.items() if lease is not None and self._is_own(lease)]
        free = [name for name, lease in present.items() if name not in own and self._is_free(name, lease)]
        # A write whose answer got lost may still arrive; a second one to the same Lease makes it fail.
        free.sort(key=lambda name: name != self._doubtful)
        if any(self._take_named(name, present[name]) for name in own + free):
            for name in own:
                if name != self.name:  # Another client put a second Lease in this host's name.
                    self._attempt(functools.partial(self._free, present[name]))

    def _take_named(self, name: str, lease: lease_objects.Lease | None) -> bool:
        began_s = self.clock()
        try:
            written = self._write(name, lease)
        except cluster.Conflict:
            self.others = (*self.others, f"The Lease {name} was taken by another host at the same moment.")
            return False
        except cluster.Unreachable:
            self._doubtful = name
            raise
        self._doubtful, self.others = "", ()
        self._held = _Held(name=name, since_s=began_s, renewed_s=began_s, swap=written.swap)
        LOG.info("The Lease is taken.", extra={"lease": name})
        return True

    def _renew(self, swap: str = "") -> None:
        """Renew or give back the held Lease; drop it where another host has it. The caller holds the lock."""
        held = self._held
        if held is None:
            return
        began_s = self.clock()
        try:
            lease = self._api.lease(self._settings.namespace, held.name)
            if lease is not None and not self._is_own(lease):
                self._held = None
                LOG.warning("The Lease is lost.", extra={"lease": held.name, "holder": lease.holder})
            elif held.leaving:
                self._free(lease)
                self._held = None
                LOG.info("The Lease is given back.", extra={"lease": held.name})
            else:
                written = self._write(held.name, lease, swap or held.swap)
                self._held = replace(held, renewed_s=began_s, swap=written.swap)
        except cluster.Forbidden:
            if held.name in self._settings.names:
                # Nothing more begins under it. As it may carry the mark of a swap, it is given back when that works.
                self._held = replace(held, renewed_s=None)
                raise
            self._held = None  # The Role names the Leases of present policies; that of a former one expires.
            LOG.warning("The Lease of a former policy is left to expire.", extra={"lease": held.name})

    def _free(self, lease: lease_objects.Lease | None) -> None:
        if lease is not None:
            self._api.write_lease(self._settings.namespace, replace(lease, holder="", acquired="", swap=""))

    def _write(self, name: str, lease: lease_objects.Lease | None, swap: str = "") -> lease_objects.Lease:
        now = clocks.utc(timespec="microseconds")  # metav1.MicroTime
        lease = lease or lease_objects.Lease(name=name)
        if lease.holder != self._node:
            acquired, mark = (lease.acquired, lease.swap) if self._is_own(lease) else (now, "")
            transitions = lease.transitions + bool(lease.version)
            lease = replace(lease, holder=self._node, acquired=acquired, transitions=transitions, swap=mark)
        lease = replace(lease, renewed=now, duration_s=DURATION_S, swap=swap or lease.swap)
        written = self._api.write_lease(self._settings.namespace, lease)
        self.acquired, self._resumes = written.acquired, False
        return written

    def _is_own(self, lease: lease_objects.Lease) -> bool:
        former = self._resumes and bool(lease.holder) and lease.acquired == self.acquired
        return former or lease.holder == self._node

    def _is_free(self, name: str, lease: lease_objects.Lease | None) -> bool:
        if lease is None or not lease.holder:
            return True
        if lease.swap:
            said = f"The Lease {name} is held by {lease.holder}, which began a swap at {lease.swap}"
            self.others = (*self.others, f"{said}: it stays taken until that host is done, or a person deletes it.")
            return False
        now_s = self.clock()
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
        """Renew until no Lease is held, or until `close`: the thread's function."""
        failed = False
        while True:
            self._wake.wait(self.renew_s / 6 if failed else self.renew_s)
            with self._lock:
                if self._thread is not threading.current_thread():
                    return
                self._wake.clear()
                # A Lease that outlives the work would halt the other hosts for ever.
                failed = not (pulse.hangs() or self._attempt(self._renew, repeated=failed))
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
