"""The state of the installer's work, for the readiness file and metrics."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from installer.host import host_state
from runtime import metrics

STATES = ("Ready", "Foreign", "Waiting", "Queued", "Changing", "Blocked", "Stuck", "Failed")
"""Ready: the driver is as the policy asks. Foreign: a driver of others stays. Waiting: the kernel is another pool's.
Queued: waits for a Lease. Changing: a change is in progress. Blocked: holders stayed, or something on the host is in
the way. Stuck: the kernel does not finish what it began, or a look at the host hangs. Failed: a change failed."""


@dataclass
class DriverState:
    """The state that the loop's thread writes and the metrics server's thread reads."""

    state: str = ""
    reason: str = "The host has not been looked at yet."
    steps: dict[str, float] = field(default_factory=dict)
    """Steps, and the seconds that each took the last time."""
    failures: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("succeeded", "failed", "abandoned"), 0))
    host: host_state.HostState | None = None
    served: Mapping[str, Mapping[str, bool]] = field(default_factory=dict)
    """Whether each device has an entry, by kind."""

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
            self.failures[name] = self.failures.get(name, 0) + 1

    def families(self, held_s: float | None) -> Iterator[metrics.Family]:
        """Yield the metrics; `held_s` are the seconds since a Lease was taken."""
        # templates/monitoring/prometheusrule-kae.yaml alerts on their names and labels; the PodMonitor adds node,
        # policy, pool.
        states = {name: int(name == self.state) for name in STATES}
        yield _by("state", "kae_driver_state", "1 for the state of the host, 0 for the others.", states)
        held = "For how long the host has held a Lease; 0 without one."
        yield metrics.Family("kae_driver_lease_held_seconds", held, [((), held_s or 0)])
        ends = "Changes that ended: succeeded, failed, or abandoned at the deadline."
        yield _by("result", "kae_driver_changes", ends, self.changes, counts=True)
        # The loop's thread may add a step meanwhile.
        seconds, failures = dict(self.steps), dict(self.failures)
        lasted = "How long a step took the last time, from the end of the one before it."
        yield _by("step", "kae_driver_step_seconds", lasted, seconds)
        yield _by("step", "kae_driver_step_failures", "Steps that failed.", failures, counts=True)
        host = self.host
        installed = host.record.installed if host is not None else None
        source, version = (installed.source, installed.version) if installed is not None else ("", "")
        what = "1, with the driver that was installed; version and source are empty where we installed none."
        shown = [((version, source, host.kernel), 1)] if host is not None else []
        yield metrics.Family("kae_driver_info", what, shown, labels=("version", "source", "kernel"))
        dead = {kind: sum(not has for has in served.values()) for kind, served in self.served.items()}
        without = "Devices without an entry in /sys/class/uacce, which the readiness file names."
        yield _by("kind", "kae_driver_dead_devices", without, dead)
        since = host.record.since if host is not None else ""
        ended = "When the last change ended well, in seconds since 1970."
        moment = [((), datetime.fromisoformat(since).timestamp())] if since else []
        yield metrics.Family("kae_driver_last_change_timestamp_seconds", ended, moment)


def _by(label: str, name: str, meaning: str, values: Mapping[str, float], *, counts: bool = False) -> metrics.Family:
    numbers = [((value,), number) for value, number in sorted(values.items())]
    return metrics.Family(name, meaning, numbers, labels=(label,), counts=counts)
