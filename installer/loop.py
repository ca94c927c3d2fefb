"""The loop: reads the state of the host, changes it if it differs from the config, and publishes the result.

A change that failed is tried again after a pause.
"""

import contextlib
import fcntl
import logging
import os
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from installer import change_steps, paths
from installer.change import prepare, transaction
from installer.decide import decision, driver_class
from installer.drain import device_users
from installer.host import chroot, host_state, kmod, record, root
from installer.report import driver_state, left, node_labels
from runtime import clocks, driver_config, errors, files, killable, process, pulse, state

LOG = logging.getLogger(__name__)

AGAIN_S = 600.0
"""The shortest pause between two tries that disturb device holders."""

_STAGING_S = 60.0
"""The first pause after a failure that disturbed no holder, such as a mirror that is down."""

_DISTURBANCES = 3
"""The number of failures that disturb device users, after which time alone ends no pause."""

_LONGEST_S = 7200.0
_DOUBLINGS = 10

_LOOK_S = 60.0
"""The pause between two looks at a host that needs no change."""

TURN_S = 10.0
"""The pause between two attempts to take a Lease; each node adds its own share, so that they do not ask together."""

_SETTLED_S = 30.0
"""The time in which the kernel finishes loading or unloading a module, as udev has it do at boot."""

_AGAIN_S = 5.0
"""The pause between two looks at a host that the installer of another recipe is changing."""

_NOT_ALONE = (
    "Another recipe's installer is changing this host, or one of an earlier release holds its lock; this one waits for"
    " its end."
)

_STUCK_S = 5.0
"""The pause between two looks at a module that it does not finish loading or unloading."""


@dataclass
class Loop:
    """The loop of one installer."""

    _host: chroot.Host
    _settings: driver_config.Config
    _changer: transaction.Changer
    _digest: str
    """That of the desired driver."""
    _published: driver_state.DriverState
    turn_s: float = TURN_S
    mended_s: float | None = None
    """When the last change ended well (`time.monotonic`)."""
    _reason: str = ""
    """The reason of the change in progress."""
    _waiting_s: float | None = None
    """The start of the state Waiting."""
    _directory: state.ProgramDir | None = None
    _unwritten: record.FailedTry | None = None
    """The last failed try, if it could not be written to the host's disk."""
    keeper: left.Keeper | None = None
    """Of an installer that ends once the driver is right, or another's, and leaves the host to the reporter."""
    _alone: bool = False
    """True when the last look had the lock of the host."""

    def run(self, directory: state.ProgramDir) -> None:
        """Run until `host.stop` is set; raise `Failure` if the state of the host cannot be read."""
        self._directory = directory
        directory.set_unready(left.UNSEEN)
        # `stop` may interrupt a look, or the wait for another installer.
        with contextlib.suppress(process.Cancelled), lock(self._host) as own:
            with self._turn() as mine:
                if mine:
                    self._changer.discard()
            while not self._host.stop.is_set():
                if not own.acquire():
                    raise errors.Failure(f"'{self._host.own.lock}' was removed, and another installer has it now.")
                pause_s = self.cycle()
                if self.keeper is not None and self._ends(self.keeper):
                    return
                pulse.wait(self._host.stop, pause_s)
        directory.set_unready("The installer has ended.")

    def cycle(self) -> float:
        """Read the state of the host once, make a change if needed, and return the seconds until the next look."""
        if stuck := self._stuck():
            return self._publish("Stuck", stuck, _STUCK_S)
        with self._turn() as mine:
            self._alone = mine
            try:
                current = host_state.read(self._host, self._settings)
            except (killable.Hangs, process.TooSlow, process.Unkillable) as hanging:
                return self._publish("Stuck", f"The host cannot be looked at: {hanging}", _LOOK_S)
            self._published.host = current
            self._published.served = driver_class.of(self._settings).served(current)
            return self._act(current) if mine else self._look(current)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[bool]:
        """Return a context with the lock of the host, which is true if no other recipe's installer has it."""
        with chroot.changing(paths.LOCK):
            shared = files.Lock(self._host.path(paths.LOCK))
        with contextlib.closing(shared), _earlier_turn(self._host) as mine:
            yield mine and shared.acquire()

    def _ends(self, keeper: left.Keeper) -> bool:
        """Leave the host to the reporter, if it is settled, and return whether it is."""
        current = self._published.host
        # A Lease that stays held would halt the other hosts, perhaps for ever.
        if not (self._published.ready and self._alone) or current is None or keeper.holds:
            return False
        # Nobody else would take back the announcement.
        if os.path.lexists(self._host.path(self._host.own.changing)):
            return False
        node_labels.publish(self._host, self._settings, self._published, expires=False)
        # What `settle` has done is in no look.
        keeper.end(msgspec.structs.replace(current, record=record.read(self._host), changing=False))
        LOG.info("The installer ends: the reporter looks at the host from now on.")
        return True

    def _look(self, current: host_state.HostState) -> float:
        """Publish the state of a host that the installer of another recipe is changing; change nothing."""
        decided = decision.decide(self._settings, current, self._digest)
        if decided.outcome is decision.Outcome.CHANGE:
            return self._publish("Queued", _NOT_ALONE, _AGAIN_S)
        return self._settled(decided) if decided.outcome is not decision.Outcome.WAIT else _AGAIN_S

    def _act(self, current: host_state.HostState) -> float:
        if self._changer.allow(current):
            return 0
        if self._host.resolved(self._host.own.retry).exists():
            self._host.remove(self._host.own.retry)
            current = self._retried(current)
        decided = decision.decide(self._settings, current, self._digest)
        if decided.outcome is decision.Outcome.WAIT:
            return self._wait(current, decided.reasons[0])
        current = self._changer.note(current)
        if decided.outcome is decision.Outcome.CHANGE:
            return self._change(current, decided)
        self._waiting_s = None
        self._unwritten = None
        with chroot.logged():  # A Lease that cannot be given back expires; the host needs no change all the same.
            self._changer.settle(current, decided)
        return self._settled(decided)

    def _settled(self, decided: decision.Decision) -> float:
        return self._publish(decided.settled, decided.reasons[0], _LOOK_S)

    def _stuck(self) -> str:
        """Return why nothing can be done while the kernel does not end to load or unload a module; else nothing."""
        # No program is run for it, as one could hang, too.
        end_s = time.monotonic() + (0 if self._published.state == "Stuck" else _SETTLED_S)
        while states := kmod.in_transition(self._host, self._settings.all_modules):
            if time.monotonic() >= end_s or self._host.stop.wait(1):
                name, doing = next(iter(states.items()))
                if doing == "coming":
                    return (
                        f"The kernel does not finish loading module {name}: its start hangs, or a kernel oops ended it"
                        " (see dmesg on the host). Only a reboot helps; then call 'python -m installer retry'."
                    )
                users: tuple[str, ...] = ()
                with contextlib.suppress(errors.Failure):
                    users = self._changer.preparation.devices.openers()
                who = f" It waits for {', '.join(users)}: end that, or reboot." if users else " Reboot the host."
                who += " After a reboot call 'python -m installer retry'."
                return f"The kernel does not finish unloading module {name}, as rmmod hangs in it.{who}"
        return ""

    def _change(self, current: host_state.HostState, decided: decision.Decision) -> float:
        last = self._unwritten or current.record.attempt
        if last is not None and (left_s := last.left_s(decided.asked, current.boot)) > 0:
            return self._pause(current, decided, last, left_s)
        if decided.blocked:
            self._changer.preparation.leave(keeps_turn=current.record.halts)  # No change can begin.
            return self._publish("Blocked", " ".join(decided.impossible), _LOOK_S)
        if decided.disturbs and self.mended_s is not None and time.monotonic() - self.mended_s < AGAIN_S:
            reason = f"It was repaired a moment ago, and is broken again: {decided.reasons[0]}"
            return self._publish("Failed", reason, _LOOK_S)
        self._reason = decided.reasons[0]
        if self._published.state != "Queued":  # A change in the queue is published when it has a Lease.
            self._publish("Changing", self._reason, 0)
        return self._tried(current, decided)

    def _tried(self, current: host_state.HostState, decided: decision.Decision) -> float:
        preparation, changes = self._changer.preparation, self._published.changes
        try:
            self._changer.run(current, decided, self._progress)
        except prepare.Queued as queued:
            if preparation.evicted:
                return self._failed(current, decided, "Queued", queued)
            turn_s = self.turn_s * (1 + zlib.crc32(os.environ.get("NODE_NAME", "").encode()) % 100 / 200)
            return self._publish("Queued", str(queued), turn_s)
        except device_users.Spared as spared:
            return self._publish("Blocked", str(spared), _LOOK_S)
        except device_users.Blocked as blocked:
            changes["abandoned"] += 1
            return self._failed(current, decided, "Blocked", blocked)
        except process.Cancelled:
            return 0
        except transaction.Crashed as crashed:
            changes["failed"] += 1
            self._unwritten = None
            LOG.error("%s", crashed)
            return self._publish("Failed", str(crashed), _LOOK_S)
        except errors.Failure as failure:
            changes["failed"] += 1
            return self._failed(
                current, decided, "Stuck" if isinstance(failure, process.Unkillable) else "Failed", failure
            )
        changes["succeeded"] += 1
        self._unwritten = None
        self.mended_s = time.monotonic()
        return 0

    def _failed(
        self, current: host_state.HostState, decided: decision.Decision, name: str, failure: errors.Failure
    ) -> float:
        """Record a failed try, and when the next one may begin."""
        LOG.error("%s", failure)
        preparation, last, reason = self._changer.preparation, self._unwritten or current.record.attempt, str(failure)
        waited = isinstance(failure, prepare.Queued | device_users.Blocked)
        disturbed = preparation.evicted if waited else decided.disturbs and preparation.disturbed
        counts = (last.failures, last.disturbed) if last is not None and last.digest == decided.asked else (0, 0)
        failures, disturbances = counts[0] + 1, counts[1] + disturbed
        least_s = AGAIN_S if disturbed or name == "Blocked" else _STAGING_S
        # After months of failures the power alone would exceed a float.
        until_s = clocks.since_boot_s() + min(least_s * 2 ** min(failures - 1, _DOUBLINGS), _LONGEST_S)
        if disturbed and disturbances >= _DISTURBANCES:
            name, until_s = "Failed", record.NEVER_S
            reason += (
                f" Device users were disturbed {disturbances} times in vain, so it is not tried again until the policy"
                " changes, the host boots, or 'python -m installer retry' is called."
            )
        # The same disk may have failed the try. To end here would mean to try again at once.
        self._unwritten = record.FailedTry(
            digest=decided.asked,
            state=name,
            reason=reason,
            failures=failures,
            boot=current.boot,
            until_s=until_s,
            disturbed=disturbances,
            halts=current.record.halts,
        )
        with chroot.logged():
            record.update(self._host, attempt=self._unwritten)
            self._unwritten = None
            # `retry` ends a pause that a person sees; a request from before this pause would end it unseen.
            self._host.remove(self._host.own.retry)
        return self._publish(name, reason, _LOOK_S)

    def _retried(self, current: host_state.HostState) -> host_state.HostState:
        """Return the state of the host without what keeps the installer from a try, and record that."""
        known, last = current.record, self._unwritten or current.record.attempt
        # A change whose record is lost was begun all the same: a crash of this try has to be known as one.
        change = record.Change() if current.unproved else known.change
        if last is not None:
            known = msgspec.structs.replace(known, attempt=msgspec.structs.replace(last, until_s=0))
        if change is not None:
            known = msgspec.structs.replace(known, change=msgspec.structs.replace(change, back=""))
        self._unwritten = known.attempt
        with chroot.logged():
            record.write(self._host, known)  # After a kill or a crash the pause must not hide a change that was begun.
            self._unwritten = None
        return msgspec.structs.replace(current, record=known, unproved=False)

    def _wait(self, current: host_state.HostState, reason: str) -> float:
        now_s = time.monotonic()
        self._waiting_s = now_s if self._waiting_s is None else self._waiting_s
        # In a change that did not end, the Lease keeps the fleet from the same fate.
        if now_s - self._waiting_s >= AGAIN_S and current.record.change is None:
            with chroot.logged():
                self._changer.preparation.give_back()
        return self._publish("Waiting", reason, _LOOK_S)

    def _pause(
        self, current: host_state.HostState, decided: decision.Decision, last: record.FailedTry, left_s: float
    ) -> float:
        change, preparation = current.record.change, self._changer.preparation
        if change is not None and last.outlasts_boot:
            # This driver crashed the host before a change to another one began and did not end: the host goes back.
            change = msgspec.structs.replace(change, asked=decided.asked, boot="")
            record.update(self._host, change=change, attempt=msgspec.structs.replace(last, until_s=0))
            return 0
        if change is None and current.changing:
            preparation.leave(keeps_turn=True)
        if last.state not in ("Failed", "Stuck") and not last.halts:
            with chroot.logged():
                preparation.give_back()
        return self._publish(last.state, last.reason, min(left_s, _LOOK_S))

    def _publish(self, name: str, reason: str, pause_s: float) -> float:
        if self._published.update(name, reason):
            LOG.info("%s: %s", name, reason, extra={"state": name})
        if self.keeper is not None:
            self.keeper.keep(self._published, self.mended_s)
        node_labels.publish(self._host, self._settings, self._published, expires=True)
        if self._directory is not None:
            # Written at once: people read the reason during a change, and the DaemonSet's rollout waits for readiness.
            if self._published.ready:
                self._directory.set_ready(reason)
            else:
                self._directory.set_unready(reason)
        return pause_s

    def _progress(self, step: change_steps.Step, event: str, seconds: float) -> None:
        if step.queues and event == "failed":
            event = "put off"  # To wait in the queue is no failure.
        if self._published.state == "Queued":
            if step.queues and event != "done":
                return  # This step runs many times an hour.
            self._publish("Changing", self._reason, 0)
        self._published.step(step.name, event, seconds)
        fields = {"step": step.name, "seconds": round(seconds, 3)}
        if event == "begun":
            LOG.info("%s", step.reason, extra={"step": step.name})
            if step.queues:
                # The API server's client takes seconds to be imported, and its answer may take more.
                self._publish("Queued", step.reason, 0)
        else:
            LOG.info("The step %s is %s.", step.name, event, extra=fields)


@contextlib.contextmanager
def _earlier_turn(host: chroot.Host) -> Iterator[bool]:
    """Return a context with the lock of the host for earlier releases, which is false if one of those has it."""
    try:
        # What is no file, or a link, is not theirs: a device plugin may write there.
        lock = root.opened(host.root, paths.EARLIER_LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, foreign=paths.RUN)
    except OSError:
        yield True  # None of them was started since the boot.
        return
    try:
        mine = False
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        yield mine
    finally:
        os.close(lock)


@contextlib.contextmanager
def lock(host: chroot.Host, *, wait: bool = True) -> Iterator[files.Lock]:
    """Hold the lock of this recipe's only installer; without `wait` raise `Failure` if another one has it."""
    # After a forced deletion a pod starts beside the previous one.
    with chroot.changing(host.own.lock):
        own = files.Lock(host.path(host.own.lock))
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
            if pulse.wait(host.stop, files.RETRY_S):
                raise process.Cancelled("The installer is to end; another one is at work on this host.")
        yield own
