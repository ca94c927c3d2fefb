"""The watcher's state, for readiness, the log and metrics."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime import metrics

if TYPE_CHECKING:
    from prometheus_client import core, registry


@dataclass(slots=True)
class State:
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
    troubles: dict[str, str] = field(default_factory=dict)
    """What is wrong now, a sentence each: with `nodes` (the API server), the `repository` (git), or the `loss`."""
    failures: dict[str, int] = field(default_factory=lambda: {"nodes": 0, "repository": 0, "loss": 0})

    @property
    def reason(self) -> str:
        """Return why the watcher is not ready; empty when it is."""
        return " ".join(self.troubles.values()) or ("" if self.success_s else "Nothing was listed yet.")


def registry_of(state: State) -> "registry.CollectorRegistry":
    """Return a registry of the metrics, computed for each scrape, and of those of the process.

    templates/monitoring/prometheusrule-kae.yaml alerts on their names.
    """
    from prometheus_client import core, registry  # noqa: PLC0415 - saves five megabytes in a watcher without metrics

    gauge, counter = core.GaugeMetricFamily, core.CounterMetricFamily

    class Collector(registry.Collector):
        def collect(self) -> "Iterator[core.Metric]":
            yield gauge("kae_watcher_nodes", "Nodes in the last full list.", state.nodes)
            kept = "Nodes kept in their old state, as their loss has not settled."
            yield gauge("kae_watcher_nodes_kept", kept, state.kept)
            refused = "Nodes kept in their old state, as too much is lost."
            yield gauge("kae_watcher_nodes_refused", refused, state.refused)
            yield gauge("kae_watcher_interval_seconds", "The configured time between full lists.", state.interval_s)
            reached = "When the repository was reached last."
            if state.success_s is not None:
                yield gauge("kae_watcher_last_success_timestamp_seconds", reached, state.success_s)
            yield counter("kae_watcher_commits", "Commits pushed.", state.commits)
            lost = "Pushes refused because somebody else was faster."
            yield counter("kae_watcher_lost_races", lost, state.races)
            failed = "Failures by part: nodes (the API server), repository (git), or loss (refused)."
            failures = counter("kae_watcher_failures", failed, labels=["part"])
            for part, count in state.failures.items():
                failures.add_metric([part], count)
            yield failures

    return metrics.registry_of(Collector())
