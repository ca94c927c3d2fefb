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
from installer.host import disk_space, host_state
from installer.host import host as hosts
from installer.store import record, store
from runtime import errors

Progress = Callable[[change_steps.Step, str, float], None]
"""Told of each step, what became of it (begun, done or failed), and the seconds that it took."""


class Changer:
    """Changes one host."""

    def __init__(self, host: hosts.Host, settings: config.Config, drivers: store.Store, near: prepare.Approach) -> None:
        """Nothing is done before `run`."""
        self._host = host
        self._settings = settings
        self._drivers = drivers
        self._approach = near
        self._swap = swap.Swap(host, settings, drivers)

    def plan(self, seen: host_state.Seen, judged: decision.Verdict, digest: str) -> tuple[change_steps.Step, ...]:
        """All steps of a change, for people; nothing is done."""
        if judged.impossible:
            return ()
        attempt = self._approach.attempt(seen, judged)
        attempt.target = self._target(seen, judged, digest) or self._expected(digest)
        near = self._approach.steps(attempt, judged.reasons[0]) if judged.disturbs else ()
        return (*self._staging(judged, digest), *near, *self._steps(attempt, judged))

    def run(self, seen: host_state.Seen, judged: decision.Verdict, digest: str, progress: Progress) -> None:
        """Makes the change.

        Raises:
            approach.Queued: It is not this host's turn; nothing was touched.
            users.Blocked: A device was in use until the deadline; nothing was unloaded.
            hosts.Cancelled: The installer is to end, and nothing was unloaded.
            errors.Failure: It failed, and the host has again what it had, where the text says nothing else.
        """
        attempt = None
        try:
            attempt = self._approach.attempt(seen, judged)
            self._come_near(attempt, judged, digest, progress)
            with self._host.finishing():
                execute(self._steps(attempt, judged), progress)
        except hosts.Cancelled:
            # Who was evicted does not come back at once: the next installer finds nobody to evict, and swaps.
            self._approach.leave(keeps_turn=self._approach.evicted)
            raise
        except (prepare.Queued, device_users.Blocked):
            self._approach.leave()
            raise
        except errors.Failure as error:
            if attempt is None or record.read(self._host).change is None:
                self._approach.leave()
                raise
            with self._host.finishing():
                self._put_back(attempt, error, progress)

    @property
    def evicted(self) -> bool:
        """Whether the last try has made somebody go."""
        return self._approach.evicted

    def yield_turn(self) -> None:
        """Lets another host have its turn, where that could not be said before.

        Raises:
            errors.Failure: The record cannot be written.
        """
        self._approach.give_back()

    def settle(self, seen: host_state.Seen, judged: decision.Verdict) -> None:
        """Removes what an interrupted change left on a host that is right."""
        if seen.changing:
            self._host.remove(paths.CHANGING)
        self._approach.give_back()
        # To give the Lease back may have changed the record.
        known = record.read(self._host)
        settled = msgspec.structs.replace(known, attempt=None)
        if known.installed is not None:
            # What breaks from now on is nobody's wish, as after a change, and nobody is evicted for it. The same
            # content may have another tag now.
            named = msgspec.structs.replace(known.installed, version=self._settings.driver_version)
            settled = msgspec.structs.replace(settled, installed=named, asked=judged.asked, boot=seen.boot)
        if settled != known:
            record.write(self._host, settled)

    def _target(self, seen: host_state.Seen, judged: decision.Verdict, digest: str) -> record.Driver | None:
        if self._settings.state == "Absent":
            return None
        installed = seen.record.installed
        if judged.replace or installed is None:
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

    def _staging(self, judged: decision.Verdict, digest: str) -> tuple[change_steps.Step, ...]:
        if self._settings.state == "Absent" or not judged.replace or self._drivers.find(digest) is not None:
            return ()
        return self._drivers.steps(digest)

    def _come_near(self, attempt: prepare.Attempt, judged: decision.Verdict, digest: str, progress: Progress) -> None:
        """Everything up to begin-change; the end of the installer breaks it off."""
        if judged.impossible:
            raise errors.Failure(" ".join(judged.impossible))
        execute(self._staging(judged, digest), progress, self._host.stop)
        attempt.target = self._target(attempt.seen, judged, digest)
        if judged.replace:
            disk_space.check(self._host, attempt.target, self._drivers)
        if judged.disturbs:
            execute(self._approach.steps(attempt, judged.reasons[0]), progress, self._host.stop)

    def _steps(self, attempt: prepare.Attempt, judged: decision.Verdict) -> tuple[change_steps.Step, ...]:
        seen, target = attempt.seen, attempt.target
        steps: list[change_steps.Step] = []
        counts = swap.counts(self._settings, seen, attempt.before.vfs)
        if judged.reload:
            steps += self._swap.unload(seen)
        elif judged.disturbs:
            counts = swap.differing(counts, seen)
            steps += self._swap.disable(seen, counts)
        if judged.replace:
            wanted = target.packages if target else ()
            steps += self._swap.files(target, set(attempt.before.packages) - set(wanted))
        texts = target.options if target else {}
        steps += self._swap.options(texts, "Keeps the parameters in /etc/modprobe.d, for this load and for any boot.")
        if target is None:
            steps += self._swap.forget_rule()
        else:
            if judged.reload:
                steps += self._swap.load(desired.modules(self._settings, seen.functions))
            if judged.disturbs:
                steps += self._swap.enable(counts)
            steps += self._swap.permit()
        return (*steps, *self._closing(attempt, judged))

    def _closing(self, attempt: prepare.Attempt, judged: decision.Verdict) -> tuple[change_steps.Step, ...]:
        steps = [
            change_steps.Step(
                name="prove-driver",
                reason="Looks at modules, parameters, entries and device nodes: an exit code proves nothing.",
                act=lambda: self._prove(attempt),
            ),
            change_steps.Step(
                name="record-driver",
                reason=f"Notes in '{paths.RECORD}' what is installed now.",
                act=lambda: self._record(attempt),
            ),
        ]
        if judged.disturbs:
            steps.append(
                change_steps.Step(
                    name="end-change",
                    reason="Lets the device plugin give devices again, and another host have its turn.",
                    act=lambda: self._end(attempt),
                )
            )
        return tuple(steps)

    def _prove(self, attempt: prepare.Attempt) -> None:
        seen = host_state.look(self._host, self._settings)
        if attempt.target is None:
            remaining = [f"module {name} is loaded" for name in seen.loaded]
        else:
            found = verification.faults(self._settings, seen, attempt.target, attempt.before.served)
            remaining = [fault.text.rstrip(".") for fault in found]
        if remaining:
            others = dict.fromkeys(
                path for module in seen.loaded for path in host_state.options_elsewhere(self._host, module)
            )
            hint = f" Parameters of its modules are set in {', '.join(others)}, too." if others else ""
            raise errors.Failure(f"The driver is not what it should be: {'; '.join(remaining)}.{hint}")

    def _record(self, attempt: prepare.Attempt) -> None:
        record.install(self._host, attempt.target, asked=attempt.asked, boot=attempt.seen.boot)

    def _end(self, attempt: prepare.Attempt) -> None:
        self._host.remove(paths.CHANGING)
        # The one before stays at hand: to go back to it needs no network.
        before = attempt.before.kept
        self._drivers.prune((attempt.target, before if before and before.kernel == attempt.seen.kernel else None))
        self._approach.give_back()

    def _put_back(self, attempt: prepare.Attempt, error: errors.Failure, progress: Progress) -> None:
        back = rollback.Retreat(self._host, self._settings, self._swap)
        failures: dict[str, None] = {}
        try:
            for step in back.steps(attempt.target):
                try:
                    execute((step,), progress)
                except errors.Failure as failure:
                    # What can still be put back is: a host with half of its devices serves more than one with none.
                    failures[str(failure)] = None
            if not failures:
                execute(back.proof(), progress)
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
        hosts.Cancelled: `stop` is set.
        errors.Failure: A step's own.
    """
    for step in steps:
        if stop is not None and stop.is_set():
            raise hosts.Cancelled(f"The installer is to end, so it does not begin with {step.name}.")
        began = time.monotonic()
        progress(step, "begun", 0)
        try:
            step.act()
        except errors.Failure:
            progress(step, "failed", time.monotonic() - began)
            raise
        progress(step, "done", time.monotonic() - began)
