"""The steps before a driver is touched: the Lease, the announcement, and the drain."""

import contextlib
import functools
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from installer import config, paths, store
from installer.change import announcement
from installer.decide import change_steps, decision
from installer.drain import device_users, leases
from installer.host import chroot, host_state, pci, record
from runtime import errors, process, readings

LOG = logging.getLogger(__name__)

_WITHDRAWN_S = 5.0
"""The time in which a running device plugin sees the announcement."""

_ADMITTED_S = 1.0
"""The time until the kubelet lists a pod that was being admitted."""

_POLL_S = 0.05


class Queued(errors.Failure):
    """No Lease is free, or the API server does not answer; the installer asks again."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """A change in progress."""

    current: host_state.HostState
    before: record.Change
    """The state before the change, which a killed installer may have begun."""
    held: tuple[str, ...]
    """The device holders, each in words."""
    asked: str
    """The digest of the whole config and of the driver."""
    target: record.Driver | None = None
    """The driver to install, once it is in the store; None removes the driver."""


@dataclass
class Preparation:
    """The steps before a driver is touched."""

    _host: chroot.Host
    _settings: config.Config
    _drivers: store.Store
    devices: device_users.DeviceUsers
    """The users of the devices."""
    _claim: leases.Claim
    _evictions: int = 0
    _begun: bool = False
    _knows: bool = False
    """True when `free_unknown` is done."""

    def attempt(self, current: host_state.HostState, decided: decision.Decision) -> Attempt:
        """Return a new attempt with the state before it."""
        self._evictions, self._begun = self.devices.evictions, current.record.change is not None
        before = current.record.change or self._before(current)
        if decided.back:
            before = msgspec.structs.replace(before, back=current.boot)
        else:
            touched = before.touched or not (decided.reload and current.loaded)
            before = msgspec.structs.replace(before, touched=touched, boot=current.boot, asked=decided.asked, back="")
        return Attempt(
            current=current,
            before=before,
            held=self.devices.present(current) if decided.disturbs else (),
            asked=decided.asked,
        )

    def _before(self, current: host_state.HostState) -> record.Change:
        installed = current.record.installed
        modes = {function.address: function.entry.mode for function in current.functions if function.entry}
        return record.Change(
            kept=installed,
            loaded=tuple(current.loaded),
            above=tuple(current.above),
            served=tuple(function.address for function in current.entries()),
            vfs={function.address: function.vfs for function in current.functions if function.vfs},
            modes={address: mode for address, mode in modes.items() if mode is not None},
            groups={function.address: function.entry.group for function in current.functions if function.entry},
            rule=host_state.text(self._host, paths.RULE),
            packages=installed.packages if installed else (),
            foreign=tuple(sorted(set(current.owners.values()))),
            touched=False,
        )

    def steps(self, attempt: Attempt, reason: str) -> tuple[change_steps.Step, ...]:
        """Return the steps after which no device is in use."""
        current = attempt.current
        if attempt.held and self._is_unasked(attempt):
            return (self._sparing(attempt, reason),)
        others = (
            current.record.installed is None and current.record.change is None and (current.loaded or current.options)
        )
        announce = functools.partial(announcement.announce, self._host, reason)
        announces = f"Writes '{paths.CHANGING}': the device plugin allocates no more devices."
        begins = "Records the state of the host, and closes the device nodes; from here on a failure restores both."
        return (
            *(self._keeping(attempt) if others else self._mending(attempt)),
            *(self._queueing() if attempt.held else ()),
            change_steps.Step("announce-change", announces, announce),
            *(self._draining(attempt) if current.entries() or pci.guests(current.functions) else ()),
            change_steps.Step("begin-change", begins, lambda: self._begin(attempt)),
        )

    @property
    def evicted(self) -> bool:
        """True when a pod was evicted since the last `attempt`."""
        return self.devices.evictions > self._evictions

    @property
    def disturbed(self) -> bool:
        """True when a pod was evicted since the last `attempt`, or the change began under a Lease."""
        return self.evicted or (self._begun and record.read(self._host).lease is not None)

    def leave(self, *, keeps_turn: bool = False) -> None:
        """Withdraw the announcement, discard the staging, and give the Lease back unless `keeps_turn`.

        Failures are logged, not raised: another one is being handled.
        """
        for act in (
            lambda: announcement.withdraw(self._host),
            self._drivers.discard,
            *(() if keeps_turn else (self.give_back,)),
        ):
            try:
                act()
            except errors.Failure as failure:
                LOG.warning("%s", failure)

    def give_back(self) -> None:
        """Give the Lease back, if this host has one, now or later; raise `Failure` if the record cannot be written."""
        noted = record.read(self._host).lease
        if (noted or self._claim.name) and self._claim.give_back() and noted:
            record.update(self._host, lease=None)

    def free_unknown(self) -> None:
        """Free the Leases in this host's name that it knows nothing of: once, as soon as the API server answers.

        A host that was installed anew, or whose record was moved away, would halt the others by one with the mark of a
        swap.
        """
        with contextlib.suppress(errors.Failure):
            if not self._knows:
                self._claim.free_all()
                self._knows = True

    def _is_unasked(self, attempt: Attempt) -> bool:
        current = attempt.current
        known = current.record
        same = (known.asked, known.boot) == (attempt.asked, current.boot)
        return same and known.installed is not None and known.change is None

    def _sparing(self, attempt: Attempt, reason: str) -> change_steps.Step:
        def wait() -> None:
            raise device_users.Spared(
                f"{reason} The config has not changed, so no pod is evicted for the repair, which waits until no"
                f" device is held: {device_users.listed(attempt.held)}."
            )

        waits = "Waits for the device holders: this driver was verified, and the config has not changed since."
        return change_steps.Step("spare-users", waits, wait)

    def _keeping(self, attempt: Attempt) -> Iterable[change_steps.Step]:
        reason = "Copies the driver of others to the store for a rollback."
        yield change_steps.Step("keep-driver", reason, lambda: self._keep(attempt))

    def _mending(self, attempt: Attempt) -> Iterable[change_steps.Step]:
        before, known = attempt.before, attempt.current.record
        kept = before.kept if known.change is None and before.served and attempt.target is not None else None
        if kept is not None and kept.kernel == attempt.current.kernel and not self._drivers.has(kept):
            reason = "Copies the installed driver to the store again, where it is damaged or gone, for a rollback."
            yield change_steps.Step("keep-driver", reason, lambda: self._drivers.mend(kept))

    def _queueing(self) -> Iterable[change_steps.Step]:
        names = ", ".join(self._settings.leases.names)
        reason = f"Takes a Lease, as devices are in use: the first free one of {names}."
        yield change_steps.Step("take-lease", reason, self._take)

    def _draining(self, attempt: Attempt) -> Iterable[change_steps.Step]:
        what = "evicts" if self._settings.drain.enabled else "waits for"
        limit = self._settings.drain.timeout_seconds
        who = f", for at most {limit} s: {device_users.listed(attempt.held)}" if attempt.held else "; there is none now"
        reason = f"Waits until the device plugin has withdrawn its devices, and {what} device holders{who}."
        yield change_steps.Step("drain-devices", reason, lambda: self._drain(attempt))

    def _keep(self, attempt: Attempt) -> None:
        attempt.before = msgspec.structs.replace(attempt.before, kept=self._drivers.keep(attempt.current))

    def _take(self) -> None:
        try:
            taken = self._claim.take()
        except errors.Failure as failure:
            raise Queued(f"No Lease can be taken, and devices are in use: {failure}") from failure
        if not taken:
            raise Queued(f"It is not this host's turn: {' '.join(self._claim.others)}")
        record.update(self._host, lease=self._claim.name)

    def _drain(self, attempt: Attempt) -> None:
        self._wait_for_plugin()
        if not attempt.held:
            # A pod may have been given a device just before the announcement.
            attempt.held = self.devices.present(attempt.current)
            if attempt.held:
                self._take()
        if attempt.held:
            self.devices.drain(attempt.current, self._check_lease)

    def _wait_for_plugin(self) -> None:
        links = self._host.path(paths.LINKS)
        if not readings.names(links):
            return
        # The device plugin removes its links when it withdraws the devices. A dead one does neither, but then the
        # kubelet allocates no device either.
        end_s = time.monotonic() + _WITHDRAWN_S
        while readings.names(links) and time.monotonic() < end_s:
            if self._host.stop.wait(_POLL_S):
                raise process.Cancelled("The change was interrupted, as the installer ends.")
        self._host.stop.wait(_ADMITTED_S)

    def _check_lease(self) -> None:
        if not self._claim.is_safe():
            raise Queued("The Lease was lost before anything was unloaded; the host is unchanged.")

    def _begin(self, attempt: Attempt) -> None:
        if attempt.held:
            # The mark in the Lease keeps others from taking it over from a host that its new driver has killed.
            try:
                self._claim.renew(swap=True)
            except errors.Failure as failure:
                raise Queued(f"The Lease cannot be written, so the change does not begin: {failure}") from failure
            self._check_lease()
        packages = {*attempt.before.packages, *(attempt.target.packages if attempt.target else ())}
        change = msgspec.structs.replace(attempt.before, packages=tuple(sorted(packages)))
        last = attempt.current.record.attempt
        if last is not None and (record.same_load(last.digest, attempt.asked) or not last.outlasts_boot):
            last = msgspec.structs.replace(last, until_s=0)  # From here on a pause would hide the change.
        record.update(self._host, change=change, attempt=last)
        # Only now: the record has their modes, and no container that was being created can copy a mode of 0.
        self._begun = True
        announcement.close(self._host, attempt.current.functions, attempt.before.modes)
