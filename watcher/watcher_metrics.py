"""The watcher's metrics, computed for each scrape.

templates/monitoring/prometheusrule-kae.yaml alerts on their names.
"""

from collections.abc import Iterator

import prometheus_client
from prometheus_client import core, registry

from watcher import watcher_state


class Collector(registry.Collector):
    """Read the watcher's state; the thread of the metrics server calls it, so it changes nothing."""

    def __init__(self, shown: watcher_state.State, interval_s: float) -> None:
        """`interval_s` is the configured time between full lists."""
        self._shown = shown
        self._interval_s = interval_s

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metric families."""
        shown = self._shown
        gauges = (
            ("kae_watcher_nodes", "Nodes in the last full list.", shown.nodes),
            (
                "kae_watcher_nodes_kept",
                "Nodes kept in their old state, as their loss has not settled.",
                shown.kept,
            ),
            ("kae_watcher_interval_seconds", "The configured time between full lists.", self._interval_s),
            ("kae_watcher_held_back", "1 while a snapshot waits for a person.", int(bool(shown.held))),
        )
        for name, meaning, value in gauges:
            yield core.GaugeMetricFamily(name, meaning, value=value)
        if shown.success_s is not None:
            yield core.GaugeMetricFamily(
                "kae_watcher_last_success_timestamp_seconds",
                "When the nodes had been listed and the repository was reached, in seconds since 1970.",
                value=shown.success_s,
            )
        counters = (
            ("kae_watcher_commits", "Commits pushed.", shown.commits),
            ("kae_watcher_holds", "Snapshots pushed to the branch of held snapshots.", shown.holds),
            ("kae_watcher_lost_races", "Pushes refused because somebody else was faster.", shown.races),
        )
        for name, meaning, value in counters:
            yield core.CounterMetricFamily(name, meaning, value=value)
        failures = core.CounterMetricFamily(
            "kae_watcher_failures", "Failures by part: nodes (the API server) or repository (git).", labels=["part"]
        )
        for part, count in sorted(shown.failures.items()):
            failures.add_metric([part], count)
        yield failures


def registry_of(shown: watcher_state.State, interval_s: float) -> registry.CollectorRegistry:
    """Return a registry of these metrics and of the process metrics."""
    made = registry.CollectorRegistry()
    made.register(Collector(shown, interval_s))
    prometheus_client.ProcessCollector(registry=made)
    return made
