"""The loop: reads the state of the host, changes it if it differs from the config, and publishes the result."""

import contextlib
import logging
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from installer import config, paths
from installer.change import prepare, transaction
from installer.decide import change_steps, decision, desired
from installer.drain import device_users
from installer.host import chroot, host_state, kmod, record
from installer.report import advice, driver_state
from runtime import clocks, errors, files, process, state

LOG = logging.getLogger(__name__)

_LOOK_S = 60.0
"""The pause between two looks at a host that needs no change."""

TURN_S = 10.0
"""The pause between two attempts to take a Lease; each node adds its own share, so that they do not ask together."""

_AGAIN_S = 600.0
"""The shortest pause between two tries that disturb device holders."""

_STAGING_S = 60.0
"""The first pause after a failure that disturbed no holder, such as a mirror that is down."""

_DISTURBANCES = 3
"""The number of failures that disturb device users, after which time alone ends no pause."""

_SETTLED_S = 30.0
"""The time in which the kernel finishes loading or unloading a module, as udev has it do at boot."""

_STUCK_S = 5.0
"""The pause between two looks at a module that it does not finish loading or unloading."""

_LONGEST_S = 7200.0
_DOUBLINGS = 10


@dataclass
class Loop:
    """The loop of one installer."""

    _host: chroot.Host
    _settings: config.Config
    _changer: transaction.Changer
    _digest: str
    """That of the desired driver."""
    _published: driver_state.DriverState
    turn_s: float = TURN_S
    _mended_s: float | None = None
    _reason: str = ""
    """The reason of the change in progress."""
    _last: record.FailedTry | None = None
    """The last failed try, if it could not be written to the host's disk."""
    _waiting_s: float | None = None
    """The start of the state Waiting."""
    _directory: state.ProgramDir | None = None

    def run(self, directory: state.ProgramDir) -> None:
        """Run until `host.stop` is set; raise `Failure` if the state of the host cannot be read."""
        self._directory = directory
        directory.set_unready("Another installer is at work on this host, or the host has not been looked at yet.")
        # `stop` may interrupt a look, or the wait for another installer.
        with contextlib.suppress(process.Cancelled), lock(self._host):
            self._changer.discard()
            while not self._host.stop.is_set():
                self._host.stop.wait(self.cycle())
        directory.set_unready("The installer has ended.")

    def cycle(self) -> float:
        """Read the state of the host once, make a change if needed, and return the seconds until the next look."""
        if stuck := self._stuck():
            return self._publish("Stuck", stuck, _STUCK_S)
        current = host_state.read(self._host, self._settings)
        self._published.host = current
        if self._changer.allow(current):
            return 0
        if self._host.path(paths.RETRY).exists():
            self._host.remove(paths.RETRY)
            current = self._retried(current)
        decided = decision.decide(self._settings, current, self._digest, matches)
        if decided.outcome is decision.Outcome.CHANGE:
            return self._change(current, decided)
        if decided.outcome is decision.Outcome.WAIT:
            return self._wait(current, decided.reasons[0])
        self._last = self._waiting_s = None
        try:
            self._changer.settle(current, decided)
        except errors.Failure as failure:
            # A Lease that cannot be given back expires; the host needs no change all the same.
            LOG.warning("%s", failure)
        foreign = "Blocked" if decided.blocked else "Foreign"
        name = "Ready" if decided.outcome is decision.Outcome.RIGHT else foreign
        return self._publish(name, decided.reasons[0], _LOOK_S)

    def _stuck(self) -> str:
        """Return why nothing can be done while the kernel does not end to load or unload a module; else nothing.

        No program is run for it, as one could hang, too.
        """
        end_s = time.monotonic() + (0 if self._published.state == "Stuck" else _SETTLED_S)
        while states := kmod.in_transition(self._host, self._settings.all_modules):
            if time.monotonic() >= end_s or self._host.stop.wait(1):
                users: tuple[str, ...] = ()
                with contextlib.suppress(errors.Failure):
                    users = self._changer.preparation.devices.openers()
                return advice.stuck(states, users)
        return ""

    def _change(self, current: host_state.HostState, decided: decision.Decision) -> float:
        pause_s = self._pause(current)
        if pause_s is not None or decided.blocked:
            return self._stand_back(current, decided) if pause_s is None else pause_s
        if decided.disturbs and self._mended_s is not None and time.monotonic() - self._mended_s < _AGAIN_S:
            reason = f"It was repaired a moment ago, and is broken again: {decided.reasons[0]}"
            return self._publish("Failed", reason, _LOOK_S)
        self._begin(decided.reasons[0])
        try:
            self._changer.run(current, decided, self._digest, self._progress)
        except prepare.Queued as queued:
            if self._changer.preparation.evicted:
                return self._failed(current, "Queued", str(queued), disturbed=True)
            turn_s = self.turn_s * (1 + zlib.crc32(os.environ.get("NODE_NAME", "").encode()) % 100 / 200)
            return self._publish("Queued", str(queued), turn_s)
        except device_users.Spared as spared:
            return self._publish("Blocked", str(spared), _LOOK_S)
        except device_users.Blocked as blocked:
            self._published.changes["abandoned"] += 1
            return self._failed(current, "Blocked", str(blocked), disturbed=self._changer.preparation.evicted)
        except process.Cancelled:
            return 0
        except transaction.Crashed as crashed:
            self._published.changes["failed"] += 1
            self._last = None
            LOG.error("%s", crashed)
            return self._publish("Failed", str(crashed), _LOOK_S)
        except errors.Failure as failure:
            self._published.changes["failed"] += 1
            name = "Stuck" if isinstance(failure, process.Unkillable) else "Failed"
            disturbed = decided.disturbs and self._changer.preparation.disturbed
            return self._failed(current, name, str(failure), disturbed=disturbed)
        self._published.changes["succeeded"] += 1
        self._last = None
        self._mended_s = time.monotonic()
        return 0

    def _retried(self, current: host_state.HostState) -> host_state.HostState:
        """Return the state of the host without what keeps the installer from a try."""
        known = current.record
        # A change whose record is lost was begun all the same: a crash of this try has to be known as one.
        change = record.Change() if current.unproved else known.change
        last = self._last or known.attempt
        if last is not None:
            known = msgspec.structs.replace(known, attempt=msgspec.structs.replace(last, until_s=0))
        if change is not None:
            known = msgspec.structs.replace(known, change=msgspec.structs.replace(change, back=""))
        try:
            record.write(self._host, known)  # After a kill or a crash the pause must not hide a change that was begun.
            self._last = None
        except errors.Failure as failure:
            self._last = known.attempt
            LOG.warning("%s", failure)
        return replace(current, record=known, unproved=False)

    def _wait(self, current: host_state.HostState, reason: str) -> float:
        now_s = time.monotonic()
        self._waiting_s = now_s if self._waiting_s is None else self._waiting_s
        # In a change that did not end, the Lease keeps the fleet from the same fate.
        if now_s - self._waiting_s >= _AGAIN_S and current.record.change is None:
            self._yield_turn()
        return self._publish("Waiting", reason, _LOOK_S)

    @property
    def _asked(self) -> str:
        return desired.asked(self._settings, self._digest)

    def _pause(self, current: host_state.HostState) -> float | None:
        """Return the rest of the pause after a failed try; None if a try is due."""
        last = self._last or current.record.attempt
        left_s = last.left_s(self._asked, current.boot) if last is not None else 0
        if last is None or left_s <= 0:
            return None
        change = current.record.change
        if change is not None and last.outlasts_boot:
            # This driver crashed the host before a change to another one began and did not end: the host goes back.
            change = msgspec.structs.replace(change, asked=self._asked, boot="")
            record.update(self._host, change=change, attempt=msgspec.structs.replace(last, until_s=0))
            return 0
        if change is None and current.changing:
            self._changer.preparation.leave(keeps_turn=True)
        if last.state not in ("Failed", "Stuck") and not last.halts:
            self._yield_turn()
        return self._publish(last.state, last.reason, min(left_s, _LOOK_S))

    def _stand_back(self, current: host_state.HostState, decided: decision.Decision) -> float:
        self._changer.preparation.leave(keeps_turn=current.record.halts)  # No change can begin.
        return self._publish("Blocked", " ".join(decided.impossible), _LOOK_S)

    def _begin(self, reason: str) -> None:
        """Publish that a change begins; one in the queue is published when it has a Lease."""
        self._reason = reason
        if self._published.state != "Queued":
            self._publish("Changing", reason, 0)

    def _failed(self, current: host_state.HostState, name: str, reason: str, *, disturbed: bool) -> float:
        LOG.error("%s", reason)
        last = self._last or current.record.attempt
        counts = (last.failures, last.disturbed) if last is not None and last.digest == self._asked else (0, 0)
        failures, disturbances = counts[0] + 1, counts[1] + disturbed
        least_s = _AGAIN_S if disturbed or name == "Blocked" else _STAGING_S
        # After months of failures the power alone would exceed a float.
        pause_s = min(least_s * 2 ** min(failures - 1, _DOUBLINGS), _LONGEST_S)
        until_s = clocks.since_boot_s() + pause_s
        if disturbed and disturbances >= _DISTURBANCES:
            name, until_s = "Failed", record.NEVER_S
            reason += (
                f" Device users were disturbed {disturbances} times in vain, so it is not tried again until the policy"
                " changes, the host boots, or 'python -m installer retry' is called."
            )
        attempt = record.FailedTry(
            digest=self._asked,
            state=name,
            reason=reason,
            failures=failures,
            boot=current.boot,
            until_s=until_s,
            disturbed=disturbances,
            halts=current.record.halts,
        )
        self._last = None
        try:
            record.update(self._host, attempt=attempt)
            # `retry` ends a pause that a person sees; a request from before this pause would end it unseen.
            self._host.remove(paths.RETRY)
        except errors.Failure as failure:
            # The same disk may have failed the try. To end here would mean to try again at once.
            self._last = attempt
            LOG.warning("%s", failure)
        return self._publish(name, reason, min(pause_s, _LOOK_S))

    def _yield_turn(self) -> None:
        try:
            self._changer.preparation.give_back()
        except errors.Failure as failure:
            LOG.warning("%s", failure)

    def _publish(self, name: str, reason: str, pause_s: float) -> float:
        if self._published.update(name, reason):
            LOG.info("%s: %s", name, reason, extra={"state": name})
        if self._directory is not None:
            # Written at once: people read the reason during a change, and the DaemonSet's rollout waits for readiness.
            if self._published.ready:
                self._directory.set_ready(reason)
            else:
                self._directory.set_unready(reason)
        return pause_s

    def _progress(self, step: change_steps.Step, event: str, seconds: float) -> None:
        if step.name == "take-lease" and event == "failed":
            event = "put off"  # To wait in the queue is no failure.
        if self._published.state == "Queued":
            if step.name == "take-lease" and event != "done":
                return  # This step runs many times an hour.
            self._publish("Changing", self._reason, 0)
        self._published.step(step.name, event, seconds)
        fields = {"step": step.name, "seconds": round(seconds, 3)}
        if event == "begun":
            LOG.info("%s", step.reason, extra={"step": step.name})
            if step.name == "take-lease":
                # The API server's client takes seconds to be imported, and its answer may take more.
                self._publish("Queued", step.reason, 0)
        else:
            LOG.info("The step %s is %s.", step.name, event, extra=fields)


def matches(pattern: str, kernel: str) -> bool:
    """Return whether an RE2 pattern occurs in a kernel's release; the compiler validates it with the same engine."""
    import re2  # noqa: PLC0415 - only pools with mappings need it

    return re2.search(pattern, kernel) is not None


@contextlib.contextmanager
def lock(host: chroot.Host, *, wait: bool = True) -> Iterator[None]:
    """Hold the lock of the host's only installer: after a forced deletion the next pod starts beside the previous one.

    Raises:
        errors.Failure: Another installer holds the lock and `wait` is false, or the lock file cannot be created.
        process.Cancelled: `host.stop` was set during the wait.
    """
    with chroot.changing(paths.LOCK):
        own = files.Lock(host.path(paths.LOCK))
    with contextlib.closing(own):
        warned = False
        while not own.acquire():
            if not wait:
                raise errors.Failure(
                    "The installer of this host is at work: to remove the driver, set driver.state to Absent in its"
                    " policy."
                )
            if not warned:
                LOG.warning("Another installer is at work on this host; waiting for its end.")
                warned = True
            if host.stop.wait(files.RETRY_S):
                raise process.Cancelled("The installer is to end; another one is at work on this host.")
        yield
