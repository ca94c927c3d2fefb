"""How the host stands: what metrics and the readiness file tell of the installer's work."""

from collections import Counter
from datetime import datetime

from installer.host import host_state

STATES = ("Ready", "Foreign", "Waiting", "Queued", "Changing", "Blocked", "Failed")
"""Ready: the driver is as told. Foreign: one that others installed stays. Waiting: the kernel is another pool's.
Queued: waits for a Lease. Changing: holders leave, modules change. Blocked: holders stayed. Failed: it did not work."""


class State:
    """Written by the program's thread, read by that of the metrics server."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self.state = ""
        self.reason = "The host has not been looked at yet."
        self.step_name: str | None = None
        """The step that is being taken."""
        self.steps: dict[str, float] = {}
        """Steps, and how many seconds each took the last time."""
        self.failures: Counter[str] = Counter()
        """Steps that failed."""
        self.changes: Counter[str] = Counter({"succeeded": 0, "failed": 0, "abandoned": 0})
        """Changes that ended."""
        self.host: host_state.HostState | None = None
        """The host at the last look."""

    @property
    def ready(self) -> bool:
        """Whether the host has the driver that it is to have."""
        return self.state in ("Ready", "Foreign")

    def observed(self, host: host_state.HostState) -> None:
        """The host was looked at."""
        self.host = host

    def stand(self, state: str, reason: str) -> bool:
        """The host stands so; whether that is news."""
        news = (state, reason) != (self.state, self.reason)
        self.state, self.reason = state, reason
        return news

    def step(self, name: str, event: str, seconds: float) -> None:
        """A step was begun, is done, or failed."""
        self.step_name = name if event == "begun" else None
        if event != "begun":
            self.steps[name] = seconds
        if event == "failed":
            self.failures[name] += 1

    def count(self, result: str) -> None:
        """A change ended: succeeded, failed, or abandoned."""
        self.changes[result] += 1


def seconds_of(moment: str) -> float:
    """Seconds since 1970 of a time as RFC 3339 writes it."""
    return datetime.fromisoformat(moment).timestamp()
