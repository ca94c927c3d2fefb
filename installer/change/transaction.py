"""A change of the host's driver, from the first look to the proof: which steps, in which order, and what if one fails.

Up to the step begin-change nothing that runs is touched, and a failure leaves things as they are. From then on the
record says what the host was like, and a failure puts that back; after a kill, the next run goes on from the record.
"""

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from installer import config, paths
from installer.change import prepare, rollback, swap
from installer.decide import change_steps, decision, desired, verification
from installer.drain import device_users
from installer.host import chroot, disk_space, host_state
from installer.store import record, store
from runtime import errors, process

Progress = Callable[[change_steps.Step, str, float], None]
"""Told of each step, what became of it (begun, done or failed), and the seconds that it took."""


class Changer:
    """Changes one host."""

    def __init__(
        self, host: chroot.Host, settings: config.Config, drivers: store.Store, preparation: prepare.Preparation
    ) -> None:
        """Nothing is done before `run`."""
        self._host = host
        self._settings = settings
        self._drivers = drivers
        self._preparation = preparation
        self._swap = swap.Swap(host, settings, drivers)

    def plan(
        self, current: host_state.HostState, decided: decision.Decision, digest: str
    ) -> tuple[change_steps.Step, ...]:
        """All steps of a change, for people; nothing is done."""
        if decided.impossible:
            return ()
        attempt = self._preparation.attempt(current, decided)
        attempt.target = self._target(current, decided, digest) or self._expected(digest)
        preparation = self._preparation.steps(attempt, decided.reasons[0]) if decided.disturbs else ()
        return (*self._staging(decided, digest), *preparation, *self._steps(attempt, decided))

    def run(self, current: host_state.HostState, decided: decision.Decision, digest: str, progress: Progress) -> None:
        """Makes the change.

        Raises:
            approach.Queued: It is not this host's turn; nothing was touched.
            users.Blocked: A device was in use until the deadline; nothing was unloaded.
            process.Cancelled: The installer is to end, and nothing was unloaded.
            errors.Failure: It failed, and the host has again what it had, where the text says nothing else.
        """
        attempt = None
        try:
            attempt = self._preparation.attempt(current, decided)
            self._prepare(attempt, decided, digest, progress)
            with self._host.finishing():
                execute(self._steps(attempt, decided), progress)
        except process.Cancelled:
            # Who was evicted does not come back at once: the next installer finds nobody to evict, and swaps.
            self._preparation.leave(keeps_turn=self._preparation.evicted)
            raise
        except (prepare.Queued, device_users.Blocked):
            self._preparation.leave()
            raise
        except errors.Failure as error:
            if attempt is None or record.read(self._host).change is None:
                self._preparation.leave()
                raise
            with self._host.finishing():
                self._put_back(attempt, error, progress)

    @property
    def evicted(self) -> bool:
        """Whether the last try has made somebody go."""
        return self._preparation.evicted

    def yield_turn(self) -> None:
        """Lets another host have its turn, where that could not be said before.

        Raises:
            errors.Failure: The record cannot be written.
        """
        self._preparation.give_back()

    def settle(self, current: host_state.HostState, decided: decision.Decision) -> None:
        """Removes what an interrupted change left on a host that is right."""
        if current.changing:
            self._host.remove(paths.CHANGING)
        self._preparation.give_back()
        # To give the Lease back may have changed the record.
        known = record.read(self._host)
        settled = msgspec.structs.replace(known, attempt=None)
        if known.installed is not None:
            # What breaks from now on is nobody's wish, as after a change, and nobody is evicted for it. The same
            # content may have another tag now.
            named = msgspec.structs.replace(known.installed, version=self._settings.driver_version)
            settled = msgspec.structs.replace(settled, installed=named, asked=decided.asked, boot=current.boot)
        if settled != known:
            record.write(self._host, settled)

    def _target(self, current: host_state.HostState, decided: decision.Decision, digest: str) -> record.Driver | None:
        if self._settings.state == "Absent":
            return None
        installed = current.record.installed
        if decided.replace or installed is None:
            return self._drivers.find(digest)
        return msgspec.structs.replace(installed, options=desired.options(self._settings))

    def _expected(self, digest: str) -> record.Driver | None:
        """What will be in the store, as far as it is known before it is staged."""
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
        if self._settings.state == "Absent" or not decided.replace or self._drivers.find(digest) is not None:
            return ()
        return self._drivers.steps(digest)

    def _prepare(self, attempt: prepare.Attempt, decided: decision.Decision, digest: str, progress: Progress) -> None:
        """Everything up to begin-change; the end of the installer breaks it off."""
        if decided.impossible:
            raise errors.Failure(" ".join(decided.impossible))
        execute(self._staging(decided, digest), progress, self._host.stop)
        attempt.target = self._target(attempt.current, decided, digest)
        if decided.replace:
            disk_space.check(self._host, attempt.target, self._drivers)
        if decided.disturbs:
            execute(self._preparation.steps(attempt, decided.reasons[0]), progress, self._host.stop)

    def _steps(self, attempt: prepare.Attempt, decided: decision.Decision) -> tuple[change_steps.Step, ...]:
        current, target = attempt.current, attempt.target
        steps: list[change_steps.Step] = []
        counts = swap.counts(self._settings, current, attempt.before.vfs)
        if decided.reload:
            steps += self._swap.unload(current)
        elif decided.disturbs:
            counts = swap.differing(counts, current)
            steps += self._swap.disable(current, counts)
        if decided.replace:
            wanted = target.packages if target else ()
            steps += self._swap.files(target, set(attempt.before.packages) - set(wanted))
        texts = target.options if target else {}
        steps += self._swap.options(texts, "Keeps the parameters in /etc/modprobe.d, for this load and for any boot.")
        if target is None:
            steps += self._swap.forget_rule()
        else:
            if decided.reload:
                steps += self._swap.load(desired.modules(self._settings, current.functions))
            if decided.disturbs:
                steps += self._swap.enable(counts)
            steps += self._swap.permit()
        return (*steps, *self._closing(attempt, decided))

    def _closing(self, attempt: prepare.Attempt, decided: decision.Decision) -> tuple[change_steps.Step, ...]:
        steps = [
            change_steps.Step(
                name="prove-driver",
                reason="Looks at modules, parameters, entries and device nodes: an exit code proves nothing.",
                act=lambda: self._verify(attempt),
            ),
            change_steps.Step(
                name="record-driver",
                reason=f"Notes in '{paths.RECORD}' what is installed now.",
                act=lambda: self._record(attempt),
            ),
        ]
        if decided.disturbs:
            steps.append(
                change_steps.Step(
                    name="end-change",
                    reason="Lets the device plugin give devices again, and another host have its turn.",
                    act=lambda: self._end(attempt),
                )
            )
        return tuple(steps)

    def _verify(self, attempt: prepare.Attempt) -> None:
        current = host_state.read(self._host, self._settings)
        if attempt.target is None:
            remaining = [f"module {name} is loaded" for name in current.loaded]
        else:
            found = verification.faults(self._settings, current, attempt.target, attempt.before.served)
            remaining = [fault.text.rstrip(".") for fault in found]
        if remaining:
            others = dict.fromkeys(
                path for module in current.loaded for path in host_state.options_elsewhere(self._host, module)
            )
            hint = f" Parameters of its modules are set in {', '.join(others)}, too." if others else ""
            raise errors.Failure(f"The driver is not what it should be: {'; '.join(remaining)}.{hint}")

    def _record(self, attempt: prepare.Attempt) -> None:
        record.install(self._host, attempt.target, asked=attempt.asked, boot=attempt.current.boot)

    def _end(self, attempt: prepare.Attempt) -> None:
        self._host.remove(paths.CHANGING)
        # The one before stays at hand: to go back to it needs no network.
        before = attempt.before.kept
        self._drivers.prune((attempt.target, before if before and before.kernel == attempt.current.kernel else None))
        self._preparation.give_back()

    def _put_back(self, attempt: prepare.Attempt, error: errors.Failure, progress: Progress) -> None:
        back = rollback.Rollback(self._host, self._settings, self._swap)
        failures: dict[str, None] = {}
        try:
            for step in back.steps(attempt.target):
                try:
                    execute((step,), progress)
                except errors.Failure as failure:
                    # What can still be put back is: a host with half of its devices serves more than one with none.
                    failures[str(failure)] = None
            if not failures:
                execute(back.verification_steps(), progress)
        except errors.Failure as failure:
            failures[str(failure)] = None
        if failures:
            self._host.remove(paths.CHANGING)
            raise errors.Failure(
                f"{error} The driver that was there cannot be put back: {' '.join(failures)}"
            ) from error
        kept, tried = attempt.before.kept, attempt.target
        if kept is not None and kept.source == "kept" and tried is not None and tried.packages:
            # Theirs cannot be made again out of what was installed.
            raise errors.Failure(
                f"{error} The host has again the modules and options of others; what else was in packages that ours"
                " replaced is gone."
            ) from error
        raise errors.Failure(f"{error} The host has again what it had before.") from error


def execute(steps: Sequence[change_steps.Step], progress: Progress, stop: threading.Event | None = None) -> None:
    """Takes one step after the other, and tells of each; begins none any more once `stop` is set.

    Raises:
        process.Cancelled: `stop` is set.
        errors.Failure: A step's own.
    """
    for step in steps:
        if stop is not None and stop.is_set():
            raise process.Cancelled(f"The installer is to end, so it does not begin with {step.name}.")
        began = time.monotonic()
        progress(step, "begun", 0)
        try:
            step.act()
        except errors.Failure:
            progress(step, "failed", time.monotonic() - began)
            raise
        progress(step, "done", time.monotonic() - began)
