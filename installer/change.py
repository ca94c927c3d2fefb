"""A change of the host's driver, from the first look to the proof: which steps, in which order, and what if one fails.

Up to the step begin-change nothing that runs is touched, and a failure leaves things as they are. From then on the
record says what the host was like, and a failure puts that back; after a kill, the next run goes on from the record.
"""

import time
from collections.abc import Callable, Sequence

import msgspec

from installer import (
    approach,
    config,
    observation,
    outline,
    places,
    proof,
    record,
    retreat,
    store,
    swap,
    users,
    verdict,
    wish,
)
from installer import host as hosts
from runtime import errors

Progress = Callable[[outline.Step, str, float], None]
"""Told of each step, what became of it (begun, done or failed), and the seconds that it took."""


class Changer:
    """Changes one host."""

    def __init__(
        self, host: hosts.Host, settings: config.Config, drivers: store.Store, near: approach.Approach
    ) -> None:
        """Nothing is done before `run`."""
        self._host = host
        self._settings = settings
        self._drivers = drivers
        self._approach = near
        self._swap = swap.Swap(host, settings, drivers)

    def plan(self, seen: observation.Seen, judged: verdict.Verdict, digest: str) -> tuple[outline.Step, ...]:
        """All steps of a change, for people; nothing is done."""
        attempt = self._approach.attempt(seen, disturbs=judged.disturbs)
        attempt.target = self._target(seen, judged, digest) or self._expected(digest)
        return (*self._staging(judged, digest), *self._steps(attempt, judged))

    def run(self, seen: observation.Seen, judged: verdict.Verdict, digest: str, progress: Progress) -> None:
        """Makes the change.

        Raises:
            approach.Queued: It is not this host's turn; nothing was touched.
            users.Blocked: A device was in use until the deadline; nothing was unloaded.
            hosts.Cancelled: The installer is to end, and nothing was unloaded.
            errors.Failure: It failed, and the host has again what it had, where the text says nothing else.
        """
        attempt = self._approach.attempt(seen, disturbs=judged.disturbs)
        try:
            execute(self._staging(judged, digest), progress)
            attempt.target = self._target(seen, judged, digest)
            execute(self._steps(attempt, judged), progress)
        except (approach.Queued, users.Blocked, hosts.Cancelled):
            self._approach.leave()
            raise
        except errors.Failure as error:
            if record.read(self._host).change is None:
                self._approach.leave()
                raise
            self._put_back(attempt, error, progress)

    def settle(self, seen: observation.Seen) -> None:
        """Removes what an interrupted change left on a host that is right."""
        if seen.changing:
            self._host.remove(places.CHANGING)
        self._approach.give_back()
        if seen.record.attempt is not None:
            record.update(self._host, attempt=None)

    def _target(self, seen: observation.Seen, judged: verdict.Verdict, digest: str) -> record.Driver | None:
        if self._settings.state == "Absent":
            return None
        installed = seen.record.installed
        if judged.replace or installed is None:
            return self._drivers.find(digest)
        return msgspec.structs.replace(installed, options=wish.options(self._settings))

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
            packages=wish.packages(settings),
            options=wish.options(settings),
        )

    def _staging(self, judged: verdict.Verdict, digest: str) -> tuple[outline.Step, ...]:
        if self._settings.state == "Absent" or not judged.replace or self._drivers.find(digest) is not None:
            return ()
        return self._drivers.steps(digest)

    def _steps(self, attempt: approach.Attempt, judged: verdict.Verdict) -> tuple[outline.Step, ...]:
        seen, target = attempt.seen, attempt.target
        steps: list[outline.Step] = []
        if judged.disturbs:
            steps += self._approach.steps(attempt, judged.reasons[0])
            steps += self._swap.unload(seen) if judged.reload else self._swap.disable(seen)
        if judged.replace:
            wanted = target.packages if target else ()
            steps += self._swap.files(target, set(attempt.before.packages) - set(wanted))
        texts = target.options if target else {}
        steps += self._swap.options(texts, "Keeps the parameters in /etc/modprobe.d, for this load and for any boot.")
        if target is None:
            steps += self._swap.forget_rule()
        else:
            if judged.reload:
                steps += self._swap.load(wish.modules(self._settings, seen.functions))
            if judged.disturbs:
                steps += self._swap.enable(swap.counts(self._settings, seen, attempt.before.vfs))
            steps += self._swap.permit()
        return (*steps, *self._closing(attempt, judged))

    def _closing(self, attempt: approach.Attempt, judged: verdict.Verdict) -> tuple[outline.Step, ...]:
        steps = [
            outline.Step(
                name="prove-driver",
                reason="Looks at modules, parameters, entries and device nodes: an exit code proves nothing.",
                act=lambda: self._prove(attempt),
            ),
            outline.Step(
                name="record-driver",
                reason=f"Notes in '{places.RECORD}' what is installed now.",
                act=lambda: self._record(attempt),
            ),
        ]
        if judged.disturbs:
            steps.append(
                outline.Step(
                    name="end-change",
                    reason="Lets the device plugin give devices again, and another host have its turn.",
                    act=lambda: self._end(attempt),
                )
            )
        return tuple(steps)

    def _prove(self, attempt: approach.Attempt) -> None:
        seen = observation.look(self._host, self._settings)
        if attempt.target is None:
            remaining = [f"module {name} is loaded" for name in seen.loaded]
        else:
            found = proof.faults(self._settings, seen, attempt.target, attempt.before.served)
            remaining = [fault.text.rstrip(".") for fault in found]
        if remaining:
            raise errors.Failure(f"The driver is not what it should be: {'; '.join(remaining)}.")

    def _record(self, attempt: approach.Attempt) -> None:
        asked = wish.of_settings(self._settings)
        record.install(self._host, attempt.target, asked=asked, boot=attempt.seen.boot)

    def _end(self, attempt: approach.Attempt) -> None:
        self._host.remove(places.CHANGING)
        # The one before stays at hand: to go back to it needs no network.
        before = attempt.before.kept
        self._drivers.prune((attempt.target, before if before and before.kernel == attempt.seen.kernel else None))
        self._approach.give_back()

    def _put_back(self, attempt: approach.Attempt, error: errors.Failure, progress: Progress) -> None:
        back = retreat.Retreat(self._host, self._settings, self._swap)
        try:
            execute(back.steps(attempt.target), progress)
        except errors.Failure as second:
            self._host.remove(places.CHANGING)
            raise errors.Failure(f"{error} The driver that was there cannot be put back: {second}") from error
        raise errors.Failure(f"{error} The host has again what it had before.") from error


def execute(steps: Sequence[outline.Step], progress: Progress) -> None:
    """Takes one step after the other, and tells of each."""
    for step in steps:
        began = time.monotonic()
        progress(step, "begun", 0)
        try:
            step.act()
        except errors.Failure:
            progress(step, "failed", time.monotonic() - began)
            raise
        progress(step, "done", time.monotonic() - began)
