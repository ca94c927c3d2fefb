"""The watcher's state, for readiness, the log and metrics."""

from collections.abc import Iterator

import msgspec

from runtime import metrics


class State(msgspec.Struct):
    """Written by the program's thread, read by that of the metrics server."""

    interval_s: float
    """The configured time between full lists."""
    nodes: int = 0
    kept: int = 0
    refused: int = 0
    """The number of nodes whose loss is refused."""
    commits: int = 0
    races: int = 0
    success_s: float | None = None
    """The last time when the nodes were listed and the repository was reached, in seconds since 1970."""
    troubles: dict[str, str] = msgspec.field(default_factory=dict)
    """What is wrong now, a sentence each: with `nodes` (the API server), the `repository` (git), or the `loss`."""
    failures: dict[str, int] = msgspec.field(default_factory=lambda: {"nodes": 0, "repository": 0, "loss": 0})

    @property
    def reason(self) -> str:
        """Return why the watcher is not ready; empty when it is."""
        return " ".join(self.troubles.values()) or ("" if self.success_s else "Nothing was listed yet.")

    def families(self) -> Iterator[metrics.Family]:
        """Yield the metrics; templates/monitoring/prometheusrule-kae.yaml alerts on their names."""
        yield _one("kae_watcher_nodes", "Nodes in the last full list.", self.nodes)
        kept = "Nodes kept in their old state, as their loss has not settled."
        yield _one("kae_watcher_nodes_kept", kept, self.kept)
        refused = "Nodes kept in their old state, as too much is lost."
        yield _one("kae_watcher_nodes_refused", refused, self.refused)
        yield _one("kae_watcher_interval_seconds", "The configured time between full lists.", self.interval_s)
        if self.success_s is not None:
            reached = "When the repository was reached last."
            yield _one("kae_watcher_last_success_timestamp_seconds", reached, self.success_s)
        yield _one("kae_watcher_commits", "Commits pushed.", self.commits, counts=True)
        lost = "Pushes refused because somebody else was faster."
        yield _one("kae_watcher_lost_races", lost, self.races, counts=True)
        failed = "Failures by part: nodes (the API server), repository (git), or loss (refused)."
        parts = [((part,), count) for part, count in self.failures.items()]
        yield metrics.Family("kae_watcher_failures", failed, parts, labels=("part",), counts=True)


def _one(name: str, meaning: str, value: float, *, counts: bool = False) -> metrics.Family:
    return metrics.Family(name, meaning, [((), value)], counts=counts)
