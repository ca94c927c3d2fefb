"""How the watcher stands: what readiness, metrics and the log tell of it."""

import threading
from dataclasses import dataclass, field


@dataclass(slots=True)
class Standing:
    """Written by the program's threads, read by that of the metrics server."""

    nodes: int = 0
    """In the last full list."""
    kept: int = 0
    """Nodes that are shown with what they had, as its loss is not settled."""
    commits: int = 0
    holds: int = 0
    """Snapshots that were pushed to the branch of those that wait for a person."""
    races: int = 0
    """Pushes that came after somebody else's."""
    held: str = ""
    """Why a snapshot waits for a person; empty where none does."""
    success_s: float | None = None
    """When the nodes had been listed and the repository was reached, in seconds since 1970."""
    troubles: dict[str, str] = field(default_factory=dict)
    """What fails now: of the API server (nodes) and of git (repository), a sentence each."""
    failures: dict[str, int] = field(default_factory=lambda: {"nodes": 0, "repository": 0})
    lock: threading.Lock = field(default_factory=threading.Lock)

    def trouble(self, part: str, reason: str) -> bool:
        """Something of this part fails; whether that is news."""
        with self.lock:
            self.failures[part] += 1
            news = self.troubles.get(part) != reason
            self.troubles[part] = reason
            return news

    def well(self, part: str) -> bool:
        """Something of this part works; whether that is news."""
        with self.lock:
            return self.troubles.pop(part, None) is not None

    def fails(self, part: str) -> bool:
        """Whether something of this part fails now."""
        with self.lock:
            return part in self.troubles

    @property
    def reason(self) -> str:
        """Why the watcher is not ready; empty where it is."""
        with self.lock:
            return " ".join(self.troubles.values()) or ("" if self.success_s else "Nothing was listed yet.")
