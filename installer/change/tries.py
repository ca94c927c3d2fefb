"""The tries of a change that failed, and the pauses after them."""

from dataclasses import dataclass, replace

import msgspec

from installer.host import chroot, host_state, record
from runtime import clocks

AGAIN_S = 600.0
"""The shortest pause between two tries that disturb device holders."""

_STAGING_S = 60.0
"""The first pause after a failure that disturbed no holder, such as a mirror that is down."""

_DISTURBANCES = 3
"""The number of failures that disturb device users, after which time alone ends no pause."""

_LONGEST_S = 7200.0
_DOUBLINGS = 10


@dataclass
class Tries:
    """The failed tries of a host, of which its record keeps the last."""

    _host: chroot.Host
    _unwritten: record.FailedTry | None = None
    """The last failed try, if it could not be written to the host's disk."""

    def last(self, current: host_state.HostState) -> record.FailedTry | None:
        """Return the last failed try."""
        return self._unwritten or current.record.attempt

    def forget(self) -> None:
        """Forget a try that the record does not hold, as another one has ended since."""
        self._unwritten = None

    def failed(
        self, current: host_state.HostState, asked: str, state: str, reason: str, *, disturbed: bool
    ) -> record.FailedTry:
        """Record a failed try, and return it; `asked` is the digest of what was tried."""
        last = self.last(current)
        counts = (last.failures, last.disturbed) if last is not None and last.digest == asked else (0, 0)
        failures, disturbances = counts[0] + 1, counts[1] + disturbed
        least_s = AGAIN_S if disturbed or state == "Blocked" else _STAGING_S
        # After months of failures the power alone would exceed a float.
        until_s = clocks.since_boot_s() + min(least_s * 2 ** min(failures - 1, _DOUBLINGS), _LONGEST_S)
        if disturbed and disturbances >= _DISTURBANCES:
            state, until_s = "Failed", record.NEVER_S
            reason += (
                f" Device users were disturbed {disturbances} times in vain, so it is not tried again until the policy"
                " changes, the host boots, or 'python -m installer retry' is called."
            )
        attempt = record.FailedTry(
            digest=asked,
            state=state,
            reason=reason,
            failures=failures,
            boot=current.boot,
            until_s=until_s,
            disturbed=disturbances,
            halts=current.record.halts,
        )
        # The same disk may have failed the try. To end here would mean to try again at once.
        self._unwritten = attempt
        with chroot.logged():
            record.update(self._host, attempt=attempt)
            self._unwritten = None
            # `retry` ends a pause that a person sees; a request from before this pause would end it unseen.
            self._host.remove(self._host.own.retry)
        return attempt

    def retried(self, current: host_state.HostState) -> host_state.HostState:
        """Return the state of the host without what keeps the installer from a try, and record that."""
        known = current.record
        # A change whose record is lost was begun all the same: a crash of this try has to be known as one.
        change = record.Change() if current.unproved else known.change
        last = self.last(current)
        if last is not None:
            known = msgspec.structs.replace(known, attempt=msgspec.structs.replace(last, until_s=0))
        if change is not None:
            known = msgspec.structs.replace(known, change=msgspec.structs.replace(change, back=""))
        self._unwritten = known.attempt
        with chroot.logged():
            record.write(self._host, known)  # After a kill or a crash the pause must not hide a change that was begun.
            self._unwritten = None
        return replace(current, record=known, unproved=False)
