"""The refusals and steps before a driver is touched: the Lease, the announcement, and the drain."""

import contextlib
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from installer import change_steps, store
from installer.change import places
from installer.decide import decision, driver_class
from installer.drain import device_users, leases
from installer.host import chroot, host_state, kmod, libraries, record
from runtime import clocks, driver_config, errors, process, readings

_WITHDRAWN_S = 5.0
"""The time in which a running device plugin sees the announcement."""

_ADMITTED_S = 1.0
"""The time until the kubelet lists a pod that was being admitted."""

_POLL_S = 0.05


class Queued(errors.Failure):
    """No Lease is free, or the API server does not answer; the installer asks again."""


class Attempt(msgspec.Struct, kw_only=True):
    """A change in progress."""

    current: host_state.HostState
    before: record.Change
    """The state before the change, which a killed installer may have begun."""
    held: tuple[str, ...]
    """The device holders, each in words."""
    decided: decision.Decision
    target: record.Driver | None = None
    """The driver to install, once it is in the store; None removes the driver."""


@dataclass
class Preparation:
    """The steps before a driver is touched."""

    _host: chroot.Host
    _settings: driver_config.Config
    _drivers: store.Store
    devices: device_users.DeviceUsers
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
        held = self.devices.present(current) if decided.disturbs else ()
        return Attempt(current=current, before=before, held=held, decided=decided)

    def _before(self, current: host_state.HostState) -> record.Change:
        installed = current.record.installed
        devices = current.devices
        return record.Change(
            kept=installed,
            loaded=tuple(current.loaded),
            above=tuple(current.above),
            served=tuple(devices),
            vfs={function.address: function.vfs for function in current.functions if function.vfs},
            modes={address: entry.mode for address, entry in devices.items() if entry.mode is not None},
            groups={address: entry.group for address, entry in devices.items()},
            rule=host_state.text(self._host, self._host.own.rule),
            packages=installed.packages if installed else (),
            foreign=tuple(sorted(set(current.owners.values()))),
            touched=False,
        )

    def refuse(self, attempt: Attempt, *, staged: bool) -> None:
        """Raise `Failure` for a reason for which the change cannot succeed; with `staged` time has passed meanwhile."""
        target, decided, begun = attempt.target, attempt.decided, attempt.current.record.change is not None
        if decided.reload:
            signed_only = attempt.current.signed_only
            if target is not None and signed_only and (unsigned := self._drivers.unsigned(target)):
                raise errors.Failure(
                    f"The running kernel refuses modules without a signature ({signed_only}), and there is none in"
                    f" {', '.join(unsigned)}: sign them when the image is built, or choose another source."
                )
            if staged and not begun:
                current = host_state.read(self._host, self._settings)
                if found := decision.obstacles(self._settings, current, replace=decided.replace):
                    raise errors.Failure(" ".join(found))
        if decided.replace and target is not None and not begun:
            _check_places(self._host, target)
            self._compare(target, attempt.current)
        if decided.disturbs and not begun:
            places.check(self._host, self._places(attempt), grows=decided.replace and target is not None)
            places.attempt(self._host, (places.state(self._host),))

    def _compare(self, target: record.Driver, current: host_state.HostState) -> None:
        """Raise `Spared` if another recipe has a module of this driver in another version: both use one."""
        names = {kmod.name_of(file): file for file in target.modules}
        shared = sorted(names.keys() & current.others.keys())
        files = kmod.chosen(self._host, current.kernel, shared) if shared else {}
        for name, file in files.items():
            mine = kmod.of_file(self._host, f"{self._host.own.drivers}/{target.id}/modules/{names[name]}")
            if file.digest != mine.digest and (kmod.differ(mine, file) or not (mine.build or mine.version)):
                was, new = file.version or file.build, mine.version or mine.build
                raise device_users.Spared(
                    f"Module {name} of the driver of recipe '{current.others[name]}' on this host is {was}, and this"
                    f" driver brings {new}: one module serves both, so have both recipes bring the same."
                )

    def _places(self, attempt: Attempt) -> Iterator[places.Place]:
        if attempt.decided.replace:
            stored = self._drivers.folder(attempt.target) if attempt.target else None
            yield from places.of(self._host, attempt.current, attempt.target, stored)
        yield from places.common(self._host, self._settings, attempt.current)

    def steps(self, attempt: Attempt) -> Iterator[change_steps.Step]:
        """Yield the steps after which no device is in use; none if the change does not disturb their users."""
        if not attempt.decided.disturbs:
            return
        current, known, limit = attempt.current, attempt.current.record, self._settings.drain.timeout_seconds
        verified = known.installed is not None and known.change is None
        if attempt.held and verified and (known.asked, known.boot) == (attempt.decided.asked, current.boot):
            waits = "Waits for the device holders: this driver was verified, and the config has not changed since."
            yield change_steps.Step("spare-users", waits, lambda: self._spare(attempt))
            return
        if known.change is None:
            yield from self._keeping(attempt)
        if attempt.held:
            names = ", ".join(self._settings.leases.names)
            takes = f"Takes a Lease, as devices are in use: the first free one of {names}."
            yield change_steps.Step("take-lease", takes, self._take, queues=True)
        if known.change is None:  # Another one has to end, whatever is in its way.
            tries = "Writes, links and removes a file in each place that the change writes to."
            yield change_steps.Step("try-places", tries, lambda: self._try(attempt))
        announces = f"Writes '{self._host.own.changing}': the device plugin allocates no more devices."
        yield change_steps.Step("announce-change", announces, lambda: self._announce(attempt))
        if self._settings.programs and current.loaded:
            takes = f"Deletes the pods of this node with {self._settings.programs}, and waits until they are gone."
            check = self._check_lease if attempt.held else _nothing
            yield change_steps.Step("take-programs", takes, lambda: self.devices.take_programs(check))
        if driver_class.of(self._settings).may_be_held(current):
            what = "evicts" if self._settings.drain.enabled else "waits for"
            listed = f", for at most {limit} s: {device_users.listed(attempt.held)}"
            who = listed if attempt.held else "; there is none now"
            drains = f"Waits until the device plugin has withdrawn its devices, and {what} device holders{who}."
            yield change_steps.Step("drain-devices", drains, lambda: self._drain(attempt))
        begins = "Records the state of the host, and closes the device nodes; from here on a failure restores both."
        if self._settings.device_nodes is None and not current.nodes:
            begins = "Records the state of the host; from here on a failure restores it."
        yield change_steps.Step("begin-change", begins, lambda: self._begin(attempt))

    @property
    def evicted(self) -> bool:
        """True when a pod was evicted since the last `attempt`."""
        return self.devices.evictions > self._evictions

    @property
    def disturbed(self) -> bool:
        """True when a pod was evicted since the last `attempt`, or the change began under a Lease."""
        return self.evicted or (self._begun and record.read(self._host).lease is not None)

    def leave(self, *, keeps_turn: bool = False) -> None:
        """Withdraw the announcement, discard the staging, and give the Lease back unless `keeps_turn`; log failures."""
        # A change that has begun stays announced. Nothing is raised, as another failure is being handled.
        with chroot.logged():
            if record.read(self._host).change is None:
                self._host.remove(self._host.own.changing)
        with chroot.logged():
            self._drivers.discard()
        if not keeps_turn:
            with chroot.logged():
                self.give_back()

    def give_back(self) -> None:
        """Give the Lease back, now or later, if this host has one; raise `Failure` without a readable record."""
        # A host between two drivers halts the others.
        known = record.read(self._host)
        noted = known.lease
        if known.change is None and (noted or self._claim.name) and self._claim.give_back() and noted:
            record.update(self._host, lease=None)

    def free_unknown(self) -> None:
        """Free the Leases in this host's name that it knows nothing of: once, as soon as the API server answers."""
        # A host that was installed anew, or whose record was moved away, would halt the others by one with a swap.
        with contextlib.suppress(errors.Failure):
            if not self._knows:
                self._claim.free_all()
                self._knows = True

    def _keeping(self, attempt: Attempt) -> Iterator[change_steps.Step]:
        current, kept = attempt.current, attempt.before.kept
        if kept is None:
            if current.loaded or current.options:
                reason = "Copies the driver of others to the store for a rollback."
                yield change_steps.Step("keep-driver", reason, lambda: self._keep(attempt))
        elif (
            attempt.target is None
            or kept.kernel != current.kernel
            or not driver_class.of(self._settings).at_work(current)
        ):
            return  # Nothing that works could be lost.
        elif not self._drivers.has(kept):
            reason = "Copies the installed driver to the store again, where it is damaged or gone, for a rollback."
            yield change_steps.Step("keep-driver", reason, lambda: self._drivers.mend(kept))

    def _spare(self, attempt: Attempt) -> None:
        raise device_users.Spared(
            f"{attempt.decided.reasons[0]} The config has not changed, so no pod is evicted for the repair, which waits"
            f" until no device is held: {device_users.listed(attempt.held)}."
        )

    def _keep(self, attempt: Attempt) -> None:
        attempt.before = msgspec.structs.replace(attempt.before, kept=self._drivers.keep(attempt.current))

    def _take(self) -> None:
        try:
            taken = self._claim.take()
        except errors.Failure as failure:
            raise Queued(f"No Lease can be taken, and devices are in use: {failure}") from failure
        if not taken:
            raise Queued(f"It is not this host's turn: {' '.join(self._claim.others)}")
        record.update(self._host, lease=self._claim.name, acquired=self._claim.acquired)

    def _announce(self, attempt: Attempt) -> None:
        said = {"reason": attempt.decided.reasons[0], "since": clocks.utc()}
        self._host.write(self._host.own.changing, f"{json.dumps(said)}\n")

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
        links = self._host.path(self._host.own.links)
        # The device plugin removes its links when it withdraws the devices. A dead one does neither, but then the
        # kubelet allocates no device either; one of tokens has none, and hears of the announcement at once.
        end_s = time.monotonic() + _WITHDRAWN_S
        while readings.names(links) and time.monotonic() < end_s:
            if self._host.stop.wait(_POLL_S):
                raise process.Cancelled("The change was interrupted, as the installer ends.")
        self._host.stop.wait(_ADMITTED_S)

    def _check_lease(self) -> None:
        if not self._claim.is_safe():
            raise Queued("The Lease was lost before anything was unloaded; the host is unchanged.")

    def _try(self, attempt: Attempt) -> None:
        places.attempt(self._host, self._places(attempt))

    def _begin(self, attempt: Attempt) -> None:
        if attempt.current.record.change is None:
            self._try(attempt)  # A drain takes its time.
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
        if last is not None and (record.same_load(last.digest, attempt.decided.asked) or not last.outlasts_boot):
            last = msgspec.structs.replace(last, until_s=0)  # From here on a pause would hide the change.
        record.update(self._host, change=change, attempt=last)
        self._begun = True
        # Mode 0 keeps users other than root from opening a node. It keeps out neither root with CAP_DAC_OVERRIDE nor a
        # container that has a node of its own. Only now: the record has the modes, and a runtime, which copies a
        # node's mode into a container, creates none any more.
        for address, entry in attempt.current.devices.items():
            if entry.mode is not None and address in attempt.before.modes:
                with contextlib.suppress(errors.Failure):  # A node may vanish at any time.
                    self._host.permit(entry.path, 0)


def _nothing() -> None:
    """Check no Lease, as no device is in use."""


def _check_places(host: chroot.Host, target: record.Driver) -> None:
    """Raise `Failure` for what others put where this driver's files are to go."""
    ours = host.own.modules(target.kernel)
    found = [f"the link '{path}'" for path in (str(Path(ours).parent), ours) if host.path(path).is_symlink()]
    found += [f"the folder '{path}'" for path in target.modules.values() if host.path(path).is_dir()]
    if found:
        raise errors.Failure(f"No module can be placed on the host: move {found[0]} elsewhere.")
    if target.libraries:
        libraries.refuse(host, target)
