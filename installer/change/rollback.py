"""The rollback to the driver that the host had when a change began."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import msgspec

from installer import change_steps
from installer.change import prepare, swap
from installer.decide import driver_class, verification
from installer.drain import device_users
from installer.host import chroot, host_state, pci, record, rpm
from runtime import driver_config, errors, process


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
        """Restore the previous driver, and raise a failure with the `error` of the attempt and what became of the host.

        Raises:
            Crashed: As `error`; the previous driver is restored.
            device_users.Blocked: A device was opened after the drain; the previous driver is restored.
            process.Unkillable: The kernel does not answer.
            errors.Failure: Any other; the previous driver is restored unless the text says otherwise.
        """
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
                last = _last_try(attempt, str(ended)) if isinstance(ended, Crashed) else None
                change_steps.run(self.verification_steps(last), progress)
        if failures:
            with chroot.logged():
                self._host.remove(self._host.own.changing)
            with chroot.logged():
                self._survived()
            said = " ".join(dict.fromkeys(failures))
            raise errors.Failure(f"{_said(error)} The previous driver cannot be restored: {said}") from error
        if isinstance(error, swap.InUse):
            self._preparation.leave(keeps_turn=attempt.current.record.halts)
        raise ended from error

    def steps(self, tried: record.Driver | None) -> Iterator[change_steps.Step]:
        """Yield the steps back from the driver that was tried, each useful even after the failure of another.

        Raises:
            errors.Failure: The state of the host cannot be read.
        """
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

    def _survived(self) -> None:
        """Record that a rollback came to its end, so that a later boot is not taken for a crash in it."""
        change = record.read(self._host).change
        if change is not None:
            record.update(self._host, change=msgspec.structs.replace(change, back=""))

    def _ended(self, attempt: prepare.Attempt, error: Exception) -> errors.Failure:
        """Return the failure that tells of an error and of the rollback."""
        kept, tried, said = attempt.before.kept, attempt.target, _said(error)
        if isinstance(error, swap.InUse):
            return device_users.Blocked(f"{said} The driver stays as it was.")
        gone = ", ".join(self._gone(attempt.before.foreign))
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

    def _gone(self, packages: tuple[str, ...]) -> list[str]:
        present: set[str] = set()
        with contextlib.suppress(errors.Failure):
            present.update(rpm.installed(self._host, packages).values())
        return [name for name in packages if name not in present]


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, errors.Failure) else f"{type(error).__name__}: {error}."


def _last_try(attempt: prepare.Attempt, reason: str) -> record.FailedTry:
    """Return the try to record with a rollback, so that no kill between the two lets the driver be tried again."""
    return record.FailedTry(
        digest=attempt.decided.asked,
        state="Failed",
        reason=reason,
        failures=1,
        boot=attempt.current.boot,
        until_s=record.NEVER_S,
        outlasts_boot=True,
    )
