"""The installer's metrics, collected at each scrape.

templates/monitoring/prometheusrule-kae.yaml alerts on their names and labels. Node, policy and pool are added
by the PodMonitor.
"""

from collections.abc import Callable, Iterator

import prometheus_client
from prometheus_client import core, registry

from installer.report import driver_state


class Collector(registry.Collector):
    """Collects the metrics in the metrics server's thread; it only reads the state."""

    def __init__(self, published: driver_state.DriverState, held_s: Callable[[], float | None]) -> None:
        """Take the state; `held_s` returns the seconds since a Lease was taken."""
        self._published = published
        self._held_s = held_s

    def collect(self) -> Iterator[core.Metric]:
        """Return the metric families."""
        state = core.GaugeMetricFamily(
            "kae_driver_state", "1 for the state of the host, 0 for the others.", labels=["state"]
        )
        for name in driver_state.STATES:
            state.add_metric([name], int(name == self._published.state))
        yield state
        yield core.GaugeMetricFamily(
            "kae_driver_lease_held_seconds",
            "For how long the host has held a Lease; 0 without one.",
            value=self._held_s() or 0,
        )
        changes = core.CounterMetricFamily("kae_driver_changes", "Changes that ended.", labels=["result"])
        for result, count in sorted(self._published.changes.items()):
            changes.add_metric([result], count)
        yield changes
        yield from self._steps()
        yield from self._driver()

    def _steps(self) -> Iterator[core.Metric]:
        seconds = core.GaugeMetricFamily(
            "kae_driver_step_seconds", "How long a step took the last time.", labels=["step"]
        )
        # The loop's thread may add a step meanwhile.
        for name, took_s in sorted(dict(self._published.steps).items()):
            seconds.add_metric([name], took_s)
        yield seconds
        failures = core.CounterMetricFamily("kae_driver_step_failures", "Steps that failed.", labels=["step"])
        for name, count in sorted(dict(self._published.failures).items()):
            failures.add_metric([name], count)
        yield failures

    def _driver(self) -> Iterator[core.Metric]:
        host = self._published.host
        info = core.GaugeMetricFamily(
            "kae_driver_info",
            "1, with the driver that was installed; version and source are empty where KAE installed none.",
            labels=["version", "source", "kernel"],
        )
        installed = host.record.installed if host else None
        if host is not None:
            source, version = (installed.source, installed.version) if installed else ("", "")
            info.add_metric([version, source, host.kernel], 1)
        yield info
        changed = core.GaugeMetricFamily(
            "kae_driver_last_change_timestamp_seconds", "When the last change ended well, in seconds since 1970."
        )
        if host is not None and host.record.since:
            changed.add_metric([], driver_state.seconds_of(host.record.since))
        yield changed


def registry_of(published: driver_state.DriverState, held_s: Callable[[], float | None]) -> registry.CollectorRegistry:
    """Return a registry of these metrics and of the process metrics."""
    made = registry.CollectorRegistry()
    made.register(Collector(published, held_s))
    prometheus_client.ProcessCollector(registry=made)
    return made
