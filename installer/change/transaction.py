"""A change of the host's driver, from staging to verification: its steps, their order, and what a failure does.

Up to the step begin-change the running driver is not touched. From then on the record holds the previous state, which
a failure and a crash of the host restore; after a kill, the next run resumes from the record.
"""

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from installer import change_steps, store
from installer.change import prepare, swap
from installer.decide import decision, desired, driver_class, verification
from installer.drain import device_users
from installer.host import chroot, host_state, kmod, pci, record, rpm
from runtime import clocks, driver_config, driver_work, errors, process

NODES_S = 5.0

_POLL_S = 0.05


class Crashed(errors.Failure):
    """The host went down during a change; it is back in its previous state, and the record forbids another try."""


@dataclass(frozen=True)
class Rollback:
    """The rollback to the state that the record of a begun change holds."""

    _host: chroot.Host
    _settings: driver_config.Config
    _swap: swap.Swap
    _preparation: prepare.Preparation

    def run(self, attempt: prepare.Attempt, error: Exception, progress: change_steps.Progress) -> NoReturn:
        """Restore the previous driver, and raise the `error` of the attempt, with what became of the host."""
        # As `Crashed`, as `device_users.Blocked` where a device was opened after the drain, as `process.Unkillable`
        # where the kernel does not answer, else as `Failure`; the driver is restored unless the text says otherwise.
        ended = self._ended(attempt, error)
        failures: list[str] = []

        @contextlib.contextmanager
        def noted() -> Iterator[None]:
            try:
                yield
            except process.Unkillable:
                raise  # No step can help.
            except Exception as failure:  # Also a mistake of our own.
                failures.append(_said(failure))

        with noted():
            for step in self.steps(attempt.target):
                # The remaining steps still run: a host with half of its devices is better than one with none.
                with noted():
                    change_steps.run((step,), progress)
            if not failures:
                last = None
                if isinstance(ended, Crashed):
                    # Recorded with the rollback, so that no kill between the two lets the driver be tried again.
                    last = record.FailedTry(
                        digest=attempt.decided.asked,
                        state="Failed",
                        reason=str(ended),
                        failures=1,
                        boot=attempt.current.boot,
                        until_s=record.NEVER_S,
                        outlasts_boot=True,
                    )
                change_steps.run(self.verification_steps(last), progress)
        if failures:
            with chroot.logged():
                self._host.remove(self._host.own.changing)
            with chroot.logged():
                # The rollback came to its end, so a later boot is not to be taken for a crash: neither in it nor in the
                # change, unless there was one, or a module is dead, which only a boot removes.
                if (change := record.read(self._host).change) is not None:
                    dead = isinstance(ended, Crashed) or kmod.in_transition(self._host, self._settings.all_modules)
                    asked = change.asked if dead else ""
                    record.update(self._host, change=msgspec.structs.replace(change, back="", asked=asked))
            said = " ".join(dict.fromkeys(failures))
            raise errors.Failure(f"{_said(error)} The previous driver cannot be restored: {said}") from error
        if isinstance(error, swap.InUse):
            self._preparation.leave(keeps_turn=attempt.current.record.halts)
        raise ended from error

    def steps(self, tried: record.Driver | None) -> Iterator[change_steps.Step]:
        """Yield the steps back from the driver that was tried, each useful even after the failure of another."""
        current = host_state.read(self._host, self._settings)
        before = current.record.change or record.Change()
        if before.touched:
            yield from self._files(current, before, tried)
        if before.loaded:
            yield self._swap.reload((*before.loaded, *before.above), anew=before.touched)
            yield from self._swap.enable(before.vfs)
        rule = "" if self._settings.device_nodes is None else f", and '{self._host.own.rule}'"
        if rule or before.modes:
            reason = f"Restores the modes of device nodes{rule}."
            yield change_steps.Step("restore-permissions", reason, lambda: self._permit(before))

    def verification_steps(self, attempt: record.FailedTry | None = None) -> Iterator[change_steps.Step]:
        """Yield the last steps, which follow if all others succeeded; they record this try, if it is given."""
        before = record.read(self._host).change or record.Change()
        proves = "Verifies that each device that had an entry has one again."
        yield change_steps.Step("prove-old-driver", proves, lambda: self._verify(before))
        records = f"Records in '{self._host.own.record}' that it is installed as before."
        yield change_steps.Step("record-old-driver", records, lambda: self._record(before, attempt))
        yield self._swap.allow()
        ends = "Lets the device plugin allocate devices again; keeps the Lease, which stops other hosts."
        yield change_steps.Step("end-change", ends, lambda: self._host.remove(self._host.own.changing))

    def _files(
        self, current: host_state.HostState, before: record.Change, tried: record.Driver | None
    ) -> Iterator[change_steps.Step]:
        kept = before.kept
        erased = {*before.packages, *(tried.packages if tried else ())} - set(kept.packages if kept else ())
        yield from self._swap.unload(current)
        yield from self._swap.files(kept, erased, restores=True)
        yield self._swap.options(kept.options if kept else {}, "Writes the previous parameters.")

    def _permit(self, before: record.Change) -> None:
        if before.rule != host_state.text(self._host, self._host.own.rule):
            if before.rule is not None:
                self._host.write(self._host.own.rule, before.rule)
            elif self._settings.device_nodes is not None:
                self._host.remove(self._host.own.rule)
        for address, entry in pci.devices(self._host, self._settings).items():
            if entry.mode is not None and address in before.modes:
                self._host.permit(entry.path, before.modes[address], before.groups.get(address))

    def _verify(self, before: record.Change) -> None:
        current = host_state.read(self._host, self._settings)
        kept = before.kept
        loaded = {*current.loaded, *current.above}
        faults = [f"Module {name} is not loaded." for name in (*before.loaded, *before.above) if name not in loaded]
        # A driver for the kernel of another boot is not loaded. The previous driver of this boot may not have worked,
        # or may have been loaded from elsewhere, so only its files and modules are checked.
        if not faults and kept is not None and kept.kernel == current.kernel and before.touched:
            faults += [fault.text for fault in verification.in_place(before.loaded, current, kept)]
        lent = [function.address for function in current.functions if function.lent]
        if lost := sorted(set(before.served).difference(current.devices, lent)):
            faults.append(driver_class.of(self._settings).lost(lost))
        if faults:
            raise errors.Failure(" ".join(faults))

    def _record(self, before: record.Change, attempt: record.FailedTry | None) -> None:
        kept, known = before.kept, record.read(self._host)
        restored = msgspec.structs.replace(
            known,
            installed=kept if kept and kept.source != "kept" else None,
            change=None,
            attempt=attempt or known.attempt,
            boot=known.boot or before.boot or before.back,
        )
        record.write(self._host, restored)

    def _ended(self, attempt: prepare.Attempt, error: Exception) -> errors.Failure:
        """Return the failure that tells of an error and of the rollback."""
        kept, tried, said = attempt.before.kept, attempt.target, _said(error)
        if isinstance(error, swap.InUse):
            return device_users.Blocked(f"{said} The driver stays as it was.")
        present: set[str] = set()
        with contextlib.suppress(errors.Failure):
            present.update(rpm.installed(self._host, attempt.before.foreign).values())
        gone = ", ".join(name for name in attempt.before.foreign if name not in present)
        if gone or (kept is not None and kept.source == "kept" and tried is not None and tried.packages):
            # A foreign package cannot be rebuilt from its installed files.
            which = gone or "the packages that were replaced"
            said = f"{said} The previous modules and options are back; other files of {which} are gone."
        else:
            said = f"{said} The host is back in its previous state."
        if not isinstance(error, Crashed):
            return errors.Failure(said)
        return Crashed(
            f"{said} It is not tried again until the policy changes the driver or its parameters, or 'python -m"
            " installer retry' is called."
        )


class Changer:
    """Changes one host."""

    def __init__(
        self, host: chroot.Host, settings: driver_config.Config, drivers: store.Store, preparation: prepare.Preparation
    ) -> None:
        self._host = host
        self._settings = settings
        self._drivers = drivers
        self.preparation = preparation
        self._swap = swap.Swap(host, settings, drivers, preparation.devices)
        self._rollback = Rollback(host, settings, self._swap, preparation)

    def plan(self, current: host_state.HostState, decided: decision.Decision) -> tuple[change_steps.Step, ...]:
        """Return all steps of a change, without running them."""
        if decided.impossible:
            return ()
        attempt = self.preparation.attempt(current, decided)
        attempt.target = self._target(current, decided)
        staging = self._staging(attempt)
        if attempt.target is None and self._settings.state == "Present":
            # So much is known of a driver before it is staged.
            attempt.target = record.Driver(
                id="",
                digest=decided.digest,
                source=self._settings.source.name,
                version=self._settings.driver_version,
                kernel="",
                packages=driver_work.packages(self._settings),
                files=tuple(file.to for file in self._settings.files),
                **desired.loading(self._settings),
            )
        preparation = self.preparation.steps(attempt)
        if decided.back:
            return (*preparation, *self._rollback.steps(attempt.target), *self._rollback.verification_steps())
        return (*staging, *preparation, *self._steps(attempt))

    def run(self, current: host_state.HostState, decided: decision.Decision, progress: change_steps.Progress) -> None:
        """Make the change.

        Raises:
            prepare.Queued: No Lease is free; nothing was touched.
            device_users.Blocked: A device was in use until the deadline; nothing was unloaded.
            process.Cancelled: `host.stop` was set; nothing was unloaded.
            Crashed: The host went down during the change, and this call restored its previous state.
            process.Unkillable: The kernel does not answer; the record has the way back, and the announcement stays.
            errors.Failure: The change failed, and was rolled back unless the text says otherwise.
        """
        if decided.back and decided.impossible:
            raise errors.Failure(decided.impossible[0])  # Another rollback might crash the host, too.
        attempt = None
        try:
            attempt = self.preparation.attempt(current, decided)
            self._prepare(attempt, progress)
            if decided.back:
                raise Crashed(decided.reasons[0])
            with self._host.finishing():
                change_steps.run(self._steps(attempt), progress)
        except (process.Cancelled, prepare.Queued, device_users.Blocked) as ended:
            # Evicted pods do not come back at once, so the next installer finds the devices free, and swaps.
            resumes = isinstance(ended, process.Cancelled) and self.preparation.evicted
            self.preparation.leave(keeps_turn=resumes or current.record.halts)
            raise
        except Exception as error:
            # Also a mistake of our own: half a change helps nobody.
            if attempt is None or record.read(self._host).change is None:
                self.preparation.leave(keeps_turn=current.record.halts)
                raise
            if isinstance(error, process.Unkillable):
                raise
            # A crash may have made the rollback necessary, and it may crash the host, too.
            change, boot = record.read(self._host).change, current.boot
            if change is not None and change.boot != boot:
                change = msgspec.structs.replace(change, back=boot, asked=decided.asked)
                record.update(self._host, change=change)
            with self._host.finishing():
                self._rollback.run(attempt, error, progress)

    def allow(self, current: host_state.HostState) -> bool:
        """Load the driver as a boot would, if a stop after its record left it blocked; return whether it was."""
        blocked = self._host.own.blocked
        if current.record.change is not None or current.unproved or not self._host.resolved(blocked).exists():
            return False
        self._host.remove(blocked)
        with contextlib.suppress(process.Unkillable):  # No program is started after it; the next look says Stuck.
            for name in desired.modules(self._settings, current.functions):
                if name in current.files:
                    with chroot.logged():
                        kmod.load(self._host, name)
        return True

    def note(self, current: host_state.HostState) -> host_state.HostState:
        """Record the resources that pods may be given from now on, as a later config may have others."""
        known = current.record
        resources = desired.resources(self._settings, known)
        if resources == known.resources or self._settings.state == "Absent":
            return current
        with chroot.logged():
            record.update(self._host, resources=resources)
        return msgspec.structs.replace(current, record=msgspec.structs.replace(known, resources=resources))

    def discard(self) -> None:
        """Remove what a killed installer left of a staging, which may hold a repository's password."""
        with chroot.logged():
            self._drivers.discard()

    def settle(self, current: host_state.HostState, decided: decision.Decision) -> None:
        """Remove the leftovers of an interrupted change from a host that needs none."""
        with chroot.logged():  # What is in its place, as a folder with files, halts no other host.
            if current.changing:
                self._host.remove(self._host.own.changing)
        self.preparation.give_back()
        # The call above may have changed the record.
        known = record.read(self._host)
        settled = msgspec.structs.replace(known, attempt=None)
        if known.installed is not None:
            # As after a change: no pod is evicted for a fault from now on. The same content may have another tag now.
            named = msgspec.structs.replace(
                known.installed,
                version=self._settings.driver_version,
                **desired.loading(self._settings),
            )
            settled = msgspec.structs.replace(settled, installed=named, asked=decided.asked, boot=current.boot)
        if settled != known:
            record.write(self._host, settled)
        self.preparation.free_unknown()

    def _target(self, current: host_state.HostState, decided: decision.Decision) -> record.Driver | None:
        """Return the driver to install; None before it is staged, and for a removal."""
        if self._settings.state == "Absent":
            return None
        installed = current.record.installed
        if decided.replace or installed is None:
            return self._drivers.find(decided.digest)
        return msgspec.structs.replace(installed, **desired.loading(self._settings))

    def _staging(self, attempt: prepare.Attempt) -> tuple[change_steps.Step, ...]:
        staged = attempt.target is not None or self._settings.state == "Absent" or attempt.decided.back
        return () if staged else self._drivers.steps(attempt.decided.digest)

    def _prepare(self, attempt: prepare.Attempt, progress: change_steps.Progress) -> None:
        """Run the steps up to begin-change, which `host.stop` interrupts."""
        current, decided = attempt.current, attempt.decided
        if decided.impossible:
            raise errors.Failure(" ".join(decided.impossible))
        attempt.target = self._target(current, decided)
        if staging := self._staging(attempt):
            change_steps.run(staging, progress, self._host.stop)
            attempt.target = self._target(current, decided)
            if attempt.target is None:
                drivers = self._host.own.drivers
                raise errors.Failure(f"The staged driver in '{drivers}' was changed or removed by others.")
        if not decided.back:
            self.preparation.refuse(attempt, staged=bool(staging))
        change_steps.run(self.preparation.steps(attempt), progress, self._host.stop)

    def _steps(self, attempt: prepare.Attempt) -> Iterator[change_steps.Step]:
        current, target, before, decided = attempt.current, attempt.target, attempt.before, attempt.decided
        counts = swap.counts(self._settings, current, before.vfs)
        if decided.disturbs:
            yield self._swap.block(target)
        if decided.reload:
            yield from self._swap.unload(current)
        elif decided.disturbs:
            counts = swap.differing(counts, current)
            yield from self._swap.disable(current, counts)
        if decided.replace:
            wanted = target.packages if target else ()
            yield from self._swap.files(target, {*before.packages, *before.foreign} - set(wanted))
        elif decided.repairs(verification.Sort.LIBRARIES):
            yield self._swap.libraries(target)
        texts = target.options if target else {}
        yield self._swap.options(texts, "Writes the parameters to /etc/modprobe.d, for this load and later boots.")
        if target is None:
            yield from self._swap.forbid()
            if before.kept is not None and before.kept.replaced:
                yield self._swap.reload(before.kept.replaced, anew=False)
        else:
            yield from self._loading(attempt, counts)
        yield from self._closing(attempt)

    def _loading(self, attempt: prepare.Attempt, counts: Mapping[str, int]) -> Iterator[change_steps.Step]:
        current, decided = attempt.current, attempt.decided
        needed = desired.modules(self._settings, current.functions)
        if decided.reload:
            yield self._swap.load((*needed, *attempt.before.above))
        elif decided.adds:
            yield self._swap.add([name for name in needed if name not in current.loaded])
        kept = attempt.before.kept
        # The kernel's own modules that made way for the previous driver, and do not for this one.
        back = tuple(name for name in (kept.replaced if kept else ()) if name not in self._settings.all_modules)
        if decided.reload and back:
            yield self._swap.reload(back, anew=False)
        if decided.disturbs:
            yield from self._swap.enable(counts)
        yield from self._swap.permit()

    def _closing(self, attempt: prepare.Attempt) -> Iterator[change_steps.Step]:
        what = driver_class.of(self._settings).proved
        proves = f"Verifies modules, {what} and device nodes, as exit codes do not show all faults."
        yield change_steps.Step("prove-driver", proves, lambda: self._verify(attempt))
        records = f"Records the installed driver in '{self._host.own.record}'."
        yield change_steps.Step("record-driver", records, lambda: self._record(attempt))
        if attempt.decided.disturbs:
            # After the record: until then a crash restores the previous driver, and boots load neither.
            yield self._swap.allow()
            ends = "Lets the device plugin allocate devices again, and gives the Lease back."
            yield change_steps.Step("end-change", ends, lambda: self._end(attempt))

    def _verify(self, attempt: prepare.Attempt) -> None:
        if attempt.target is not None:
            # A driver may look for its devices after modprobe has ended.
            end_s = time.monotonic() + NODES_S
            wanted = len(set(self._settings.nodes))
            while len(pci.nodes(self._host, self._settings)) < wanted and time.monotonic() < end_s:
                time.sleep(_POLL_S)
        current = host_state.read(self._host, self._settings)
        if attempt.target is None:
            back = attempt.before.kept.replaced if attempt.before.kept is not None else ()
            remaining = [f"module {name} is loaded" for name in current.loaded if name not in back]
        else:
            faults = verification.faults(self._settings, current, attempt.target, attempt.before.served)
            remaining = [fault.text.rstrip(".") for fault in faults] + self._without_queue(current)
        if remaining:
            others = dict.fromkeys(said.path for said in current.options_elsewhere if said.module in current.loaded)
            hint = f" Parameters of its modules are set in {', '.join(others)}, too." if others else ""
            raise errors.Failure(f"The verification of the driver failed: {'; '.join(remaining)}.{hint}")

    def _without_queue(self, current: host_state.HostState) -> list[str]:
        """Return a sentence for each device that gives no queue: an entry in sysfs is no proof that it works."""
        entries = pci.entries(desired.enabled(self._settings, current.functions))
        nodes = {entry.path: address for address, entry in entries.items()}
        numbers = zip(nodes.values(), self._host.queue_outcomes(list(nodes)), strict=True) if nodes else ()
        return [f"Device {address} gives no queue: {os.strerror(number)}" for address, number in numbers if number]

    def _record(self, attempt: prepare.Attempt) -> None:
        target, current = attempt.target, attempt.current
        if target is not None and target.packages:
            # The files that rpm has placed are known only now.
            files = kmod.chosen(self._host, current.kernel, desired.modules(self._settings, current.functions))
            placed = {name: file.digest for name, file in files.items()}
            target = msgspec.structs.replace(target, digests=target.digests | placed)
        if target is not None:
            left = sorted({*target.wanted, *map(kmod.name_of, target.modules)} & current.others.keys())
            target = msgspec.structs.replace(target, replaced=self._replaced(attempt.before), left=tuple(left))
        proof = {"since": clocks.utc(), "asked": attempt.decided.asked, "boot": current.boot}
        # After a removal nobody holds a device, and none can be given.
        resources = desired.resources(self._settings, current.record) if target is not None else ()
        record.update(self._host, installed=target, change=None, attempt=None, resources=resources, **proof)

    def _replaced(self, before: record.Change) -> tuple[str, ...]:
        """Return the kernel's own modules that made way for this driver, or for an earlier one of the recipe."""
        kept = before.kept
        brought = {kmod.name_of(name) for name in kept.modules} if kept is not None else set()
        own = (*(kept.replaced if kept is not None else ()), *(name for name in before.loaded if name not in brought))
        return tuple(dict.fromkeys(name for name in own if name in self._settings.replaced))

    def _end(self, attempt: prepare.Attempt) -> None:
        self._host.remove(self._host.own.changing)
        # The previous driver stays in the store, so that a return to it needs no network.
        before = attempt.before.kept
        self._drivers.prune((attempt.target, before if before and before.kernel == attempt.current.kernel else None))
        self.preparation.give_back()


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, errors.Failure) else f"{type(error).__name__}: {error}."
