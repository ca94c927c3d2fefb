"""A change of the host's driver, from staging to verification: its steps, their order, and what a failure does.

Up to the step begin-change the running driver is not touched. From then on the record holds the previous state, which
a failure and a crash of the host restore; after a kill, the next run resumes from the record.
"""

import contextlib
import functools
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Sequence

import msgspec

from installer import config, paths, store
from installer.change import announcement, prepare, rollback, swap
from installer.decide import change_steps, decision, desired, obstacles, verification
from installer.drain import device_users
from installer.host import chroot, disk_space, host_state, kmod, record, rpm
from runtime import errors, process

LOG = logging.getLogger(__name__)

Progress = Callable[[change_steps.Step, str, float], None]
"""Called with each step, its event (begun, done or failed), and the seconds that it took."""


class Crashed(errors.Failure):
    """The host went down during a change; it is back in its previous state, and the record forbids another try."""


class Changer:
    """Changes one host."""

    def __init__(
        self, host: chroot.Host, settings: config.Config, drivers: store.Store, preparation: prepare.Preparation
    ) -> None:
        self._host = host
        self._settings = settings
        self._drivers = drivers
        self.preparation = preparation
        self._swap = swap.Swap(host, settings, drivers, preparation.devices)

    def plan(
        self, current: host_state.HostState, decided: decision.Decision, digest: str
    ) -> tuple[change_steps.Step, ...]:
        """Return all steps of a change, without running them."""
        if decided.impossible:
            return ()
        attempt = self.preparation.attempt(current, decided)
        attempt.target = self._target(current, decided, digest) or self._expected(digest)
        preparation = self.preparation.steps(attempt, decided.reasons[0]) if decided.disturbs else ()
        if decided.back:
            previous = rollback.Rollback(self._host, self._settings, self._swap)
            return (*preparation, *previous.steps(attempt.target), *previous.verification_steps())
        return (*self._staging(decided, digest), *preparation, *self._steps(attempt, decided))

    def run(self, current: host_state.HostState, decided: decision.Decision, digest: str, progress: Progress) -> None:
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
            self._prepare(attempt, decided, digest, progress)
            if decided.back:
                raise Crashed(decided.reasons[0])
            with self._host.finishing():
                execute(self._steps(attempt, decided), progress)
        except process.Cancelled:
            # Evicted pods do not come back at once, so the next installer finds the devices free, and swaps.
            self.preparation.leave(keeps_turn=self.preparation.evicted or current.record.halts)
            raise
        except (prepare.Queued, device_users.Blocked):
            self.preparation.leave(keeps_turn=current.record.halts)
            raise
        except Exception as error:
            # Also a mistake of our own: half a change helps nobody.
            if attempt is None or record.read(self._host).change is None:
                self.preparation.leave(keeps_turn=current.record.halts)
                raise
            if isinstance(error, process.Unkillable):
                raise
            with self._host.finishing():
                self._roll_back(attempt, error, progress)

    def allow(self, current: host_state.HostState) -> bool:
        """Load the driver as a boot would, if a stop after its record left it blocked; return whether it was."""
        if current.record.change is not None or current.unproved or not self._host.path(paths.BLOCKED).exists():
            return False
        self._host.remove(paths.BLOCKED)
        for name in desired.modules(self._settings, current.functions):
            try:
                if name in current.files:
                    kmod.load(self._host, name)
            except errors.Failure as failure:
                LOG.warning("%s", failure)
        return True

    def discard(self) -> None:
        """Remove what a killed installer left of a staging, which may hold a repository's password."""
        try:
            self._drivers.discard()
        except errors.Failure as failure:
            LOG.warning("%s", failure)

    def settle(self, current: host_state.HostState, decided: decision.Decision) -> None:
        """Remove the leftovers of an interrupted change from a host that needs none."""
        if current.changing:
            announcement.withdraw(self._host)
        self.preparation.give_back()
        # The call above may have changed the record.
        known = record.read(self._host)
        settled = msgspec.structs.replace(known, attempt=None)
        if known.installed is not None:
            # As after a change: no pod is evicted for a fault from now on. The same content may have another tag now.
            named = msgspec.structs.replace(known.installed, version=self._settings.driver_version)
            settled = msgspec.structs.replace(settled, installed=named, asked=decided.asked, boot=current.boot)
        if settled != known:
            record.write(self._host, settled)
        self.preparation.free_unknown()

    def _target(self, current: host_state.HostState, decided: decision.Decision, digest: str) -> record.Driver | None:
        if self._settings.state == "Absent":
            return None
        installed = current.record.installed
        if decided.replace or installed is None:
            return self._drivers.find(digest)
        return msgspec.structs.replace(installed, options=desired.options(self._settings))

    def _expected(self, digest: str) -> record.Driver | None:
        """Return what is known of the driver before it is staged."""
        if self._settings.state == "Absent":
            return None
        settings = self._settings
        return record.Driver(
            id="",
            digest=digest,
            source=settings.source.name,
            version=settings.driver_version,
            kernel="",
            packages=desired.packages(settings),
            options=desired.options(settings),
        )

    def _staging(self, decided: decision.Decision, digest: str) -> tuple[change_steps.Step, ...]:
        if self._settings.state == "Absent" or decided.back or not decided.replace:
            return ()
        if self._drivers.find(digest) is not None:
            return ()
        return self._drivers.steps(digest)

    def _prepare(self, attempt: prepare.Attempt, decided: decision.Decision, digest: str, progress: Progress) -> None:
        """Run the steps up to begin-change, which `host.stop` interrupts."""
        if decided.impossible:
            raise errors.Failure(" ".join(decided.impossible))
        staging = self._staging(decided, digest)
        execute(staging, progress, self._host.stop)
        attempt.target = self._target(attempt.current, decided, digest)
        if decided.reload and not decided.back:
            self._refuse(attempt, replace=decided.replace, again=bool(staging))
        if decided.replace and not decided.back:
            self._swap.refuse(attempt.target)
            disk_space.check(self._host, self._drivers.folder(attempt.target) if attempt.target else None)
        if decided.disturbs:
            execute(self.preparation.steps(attempt, decided.reasons[0]), progress, self._host.stop)

    def _refuse(self, attempt: prepare.Attempt, *, replace: bool, again: bool) -> None:
        """Raise a failure for modules that the kernel refuses, and for what came into the way during the staging."""
        target, why = attempt.target, attempt.current.signed_only
        if unsigned := self._drivers.unsigned(target) if target is not None and why else []:
            raise errors.Failure(
                f"The running kernel refuses modules without a signature ({why}), and there is none in"
                f" {', '.join(unsigned)}: sign them when the image is built, or choose another source."
            )
        if again and attempt.current.record.change is None:
            current = host_state.read(self._host, self._settings)
            if found := obstacles.find(self._settings, current, replace=replace):
                raise errors.Failure(" ".join(found))

    def _steps(self, attempt: prepare.Attempt, decided: decision.Decision) -> tuple[change_steps.Step, ...]:
        current, target = attempt.current, attempt.target
        steps: list[change_steps.Step] = []
        counts = swap.counts(self._settings, current, attempt.before.vfs)
        if decided.disturbs:
            steps += self._swap.block()
        if decided.reload:
            steps += self._swap.unload(current)
        elif decided.disturbs:
            counts = swap.differing(counts, current)
            steps += self._swap.disable(current, counts)
        if decided.replace:
            wanted = target.packages if target else ()
            steps += self._swap.files(target, {*attempt.before.packages, *attempt.before.foreign} - set(wanted))
        elif any(fault.sort is verification.Sort.LIBRARIES for fault in decided.faults):
            steps += self._swap.libraries(target)
        texts = target.options if target else {}
        steps += self._swap.options(texts, "Writes the parameters to /etc/modprobe.d, for this load and later boots.")
        if target is None:
            remove = functools.partial(self._host.remove, paths.RULE)
            steps.append(change_steps.Step("remove-rule", f"Removes '{paths.RULE}'.", remove))
        else:
            if decided.reload:
                needed = desired.modules(self._settings, current.functions)
                steps += self._swap.load((*needed, *attempt.before.above))
            if decided.disturbs:
                steps += self._swap.enable(counts)
            steps += self._swap.permit()
        return (*steps, *self._closing(attempt, decided))

    def _closing(self, attempt: prepare.Attempt, decided: decision.Decision) -> tuple[change_steps.Step, ...]:
        proves = "Verifies modules, parameters, entries and device nodes, as exit codes do not show all faults."
        records = f"Records the installed driver in '{paths.RECORD}'."
        ends = "Lets the device plugin allocate devices again, and gives the Lease back."
        steps = (
            change_steps.Step("prove-driver", proves, lambda: self._verify(attempt)),
            change_steps.Step("record-driver", records, lambda: self._record(attempt)),
        )
        if not decided.disturbs:
            return steps
        # After the record: until then a crash restores the previous driver, and boots load neither.
        return (*steps, *self._swap.allow(), change_steps.Step("end-change", ends, lambda: self._end(attempt)))

    def _verify(self, attempt: prepare.Attempt) -> None:
        current = host_state.read(self._host, self._settings)
        if attempt.target is None:
            remaining = [f"module {name} is loaded" for name in current.loaded]
        else:
            faults = verification.faults(self._settings, current, attempt.target, attempt.before.served)
            remaining = [fault.text.rstrip(".") for fault in faults] + self._without_queue(current)
        if remaining:
            others = dict.fromkeys(said.path for said in current.options_elsewhere if said.module in current.loaded)
            hint = f" Parameters of its modules are set in {', '.join(others)}, too." if others else ""
            raise errors.Failure(f"The verification of the driver failed: {'; '.join(remaining)}.{hint}")

    def _without_queue(self, current: host_state.HostState) -> list[str]:
        """Return a sentence for each device that gives no queue: an entry in sysfs is no proof that it works."""
        enabled = desired.enabled(self._settings, current.entries())
        nodes = {f"/dev/{function.entry.name}": function.address for function in enabled if function.entry is not None}
        numbers = zip(nodes.values(), self._host.queue_outcomes(list(nodes)), strict=True) if nodes else ()
        return [f"Device {address} gives no queue: {os.strerror(number)}" for address, number in numbers if number]

    def _record(self, attempt: prepare.Attempt) -> None:
        target, current = attempt.target, attempt.current
        if target is not None and target.packages:
            # The files that rpm has placed are known only now.
            files = kmod.chosen(self._host, current.kernel, desired.modules(self._settings, current.functions))
            placed = {name: file.digest for name, file in files.items()}
            target = msgspec.structs.replace(target, digests=target.digests | placed)
        record.install(self._host, target, asked=attempt.asked, boot=current.boot)

    def _end(self, attempt: prepare.Attempt) -> None:
        announcement.withdraw(self._host)
        # The previous driver stays in the store, so that a return to it needs no network.
        before = attempt.before.kept
        self._drivers.prune((attempt.target, before if before and before.kernel == attempt.current.kernel else None))
        self.preparation.give_back()

    def _roll_back(self, attempt: prepare.Attempt, error: Exception, progress: Progress) -> None:
        previous = rollback.Rollback(self._host, self._settings, self._swap)
        failures: dict[str, None] = {}
        ended = self._ended(attempt, error)
        try:
            for step in previous.steps(attempt.target):
                try:
                    execute((step,), progress)
                except process.Unkillable:
                    raise
                except Exception as failure:
                    # The remaining steps still run: a host with half of its devices is better than one with none.
                    failures[_said(failure)] = None
            if not failures:
                execute(previous.verification_steps(_last_try(attempt, ended)), progress)
        except process.Unkillable:
            raise
        except Exception as failure:
            failures[_said(failure)] = None
        if failures:
            announcement.withdraw(self._host)
            raise errors.Failure(
                f"{_said(error)} The previous driver cannot be restored: {' '.join(failures)}"
            ) from error
        if isinstance(error, swap.InUse):
            self.preparation.leave()
        raise ended from error

    def _gone(self, packages: Sequence[str]) -> list[str]:
        present: Collection[str] = ()
        with contextlib.suppress(errors.Failure):
            present = rpm.installed(self._host, packages).values()
        return [name for name in packages if name not in present]

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


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, errors.Failure) else f"{type(error).__name__}: {error}."


def _last_try(attempt: prepare.Attempt, ended: errors.Failure) -> record.FailedTry | None:
    """Return the try to record with a rollback, so that no kill between the two lets the driver be tried again."""
    if not isinstance(ended, Crashed):
        return None
    boot, said = attempt.current.boot, str(ended)
    return record.FailedTry(
        digest=attempt.asked,
        state="Failed",
        reason=said,
        failures=1,
        boot=boot,
        until_s=record.NEVER_S,
        outlasts_boot=True,
    )


def execute(steps: Sequence[change_steps.Step], progress: Progress, stop: threading.Event | None = None) -> None:
    """Run the steps in order, and report each; once `stop` is set, no further step begins.

    Raises:
        process.Cancelled: `stop` is set.
        errors.Failure: A step's own.
    """
    for step in steps:
        if stop is not None and stop.is_set():
            raise process.Cancelled(f"The installer ends, so the step {step.name} does not begin.")
        began = time.monotonic()
        progress(step, "begun", 0)
        try:
            step.act()
        except Exception:
            progress(step, "failed", time.monotonic() - began)
            raise
        progress(step, "done", time.monotonic() - began)
