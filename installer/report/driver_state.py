"""The state of the installer's work, for metrics and the readiness file."""

from collections import Counter
from dataclasses import dataclass, field

from installer.host import host_state

STATES = ("Ready", "Foreign", "Waiting", "Queued", "Changing", "Blocked", "Stuck", "Failed")
"""Ready: the driver is as the policy asks. Foreign: a driver of others stays. Waiting: the kernel is another pool's.
Queued: waits for a Lease. Changing: a change is in progress. Blocked: holders stayed, or something on the host is in
the way. Stuck: the kernel does not finish what it began. Failed: a change failed."""


@dataclass
class DriverState:
    """The state that the loop's thread writes and the metrics server's thread reads."""

    state: str = ""
    reason: str = "The host has not been looked at yet."
    steps: dict[str, float] = field(default_factory=dict)
    """Steps, and the seconds that each took the last time."""
    failures: Counter[str] = field(default_factory=Counter)
    """The number of failures of each step."""
    changes: Counter[str] = field(default_factory=lambda: Counter({"succeeded": 0, "failed": 0, "abandoned": 0}))
    """The number of changes with each result."""
    host: host_state.HostState | None = None
    """The last state of the host."""

    @property
    def ready(self) -> bool:
        """True when the host has the driver that it should have."""
        return self.state in ("Ready", "Foreign")

    def update(self, state: str, reason: str) -> bool:
        """Store a state and its reason; return whether either is new."""
        news = (state, reason) != (self.state, self.reason)
        self.state, self.reason = state, reason
        return news

    def step(self, name: str, event: str, seconds: float) -> None:
        """Store that a step was begun, is done, or failed."""
        if event != "begun":
            self.steps[name] = seconds
        if event == "failed":
            self.failures[name] += 1
