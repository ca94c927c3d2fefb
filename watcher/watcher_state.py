"""The watcher's state, for readiness, metrics and the log."""

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class State:
    """Written by the program's threads, read by the thread of the metrics server."""

    nodes: int = 0
    """The number of nodes in the last full list."""
    kept: int = 0
    """The number of nodes whose loss has not settled, so that the inventory keeps their old state."""
    commits: int = 0
    holds: int = 0
    """The number of snapshots pushed to the branch of held snapshots."""
    races: int = 0
    """The number of pushes refused because somebody else was faster."""
    held: str = ""
    """The reason why a snapshot waits for a person; empty when none does."""
    success_s: float | None = None
    """The last time when the nodes were listed and the repository was reached, in seconds since 1970."""
    troubles: dict[str, str] = field(default_factory=dict)
    """The current failures of the API server (nodes) and of git (repository), a sentence each."""
    failures: dict[str, int] = field(default_factory=lambda: {"nodes": 0, "repository": 0})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def trouble(self, part: str, reason: str) -> bool:
        """Record a failure of a part; return whether it is new."""
        with self.lock:
            self.failures[part] += 1
            news = self.troubles.get(part) != reason
            self.troubles[part] = reason
            return news

    def well(self, part: str) -> bool:
        """Record that a part works; return whether it failed before."""
        with self.lock:
            return self.troubles.pop(part, None) is not None

    def fails(self, part: str) -> bool:
        """Return whether a part fails now."""
        with self.lock:
            return part in self.troubles

    @property
    def reason(self) -> str:
        """Return why the watcher is not ready; empty when it is."""
        with self.lock:
            return " ".join(self.troubles.values()) or ("" if self.success_s else "Nothing was listed yet.")
