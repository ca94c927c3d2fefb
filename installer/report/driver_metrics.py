"""The installer's metrics, collected at each scrape.

templates/monitoring/prometheusrule-kae.yaml alerts on their names and labels. Node, policy and pool are added
by the PodMonitor.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from prometheus_client import core, registry

from installer.report import driver_state
from runtime import metrics


@dataclass(eq=False)
class Collector(registry.Collector):
    """Collects the metrics in the metrics server's thread; it only reads the state."""

    _published: driver_state.DriverState
    _held_s: Callable[[], float | None]
    """Returns the seconds since a Lease was taken."""

    def collect(self) -> Iterator[core.Metric]:
        """Return the metric families."""
        published, gauge, counter = self._published, core.GaugeMetricFamily, core.CounterMetricFamily
        states = {name: int(name == published.state) for name in driver_state.STATES}
        yield _filled(
            gauge("kae_driver_state", "1 for the state of the host, 0 for the others.", labels=["state"]), states
        )
        held = "For how long the host has held a Lease; 0 without one."
        yield gauge("kae_driver_lease_held_seconds", held, value=self._held_s() or 0)
        yield _filled(counter("kae_driver_changes", "Changes that ended.", labels=["result"]), published.changes)
        # The loop's thread may add a step meanwhile.
        seconds, failures = dict(published.steps), dict(published.failures)
        yield _filled(gauge("kae_driver_step_seconds", "How long a step took the last time.", labels=["step"]), seconds)
        yield _filled(counter("kae_driver_step_failures", "Steps that failed.", labels=["step"]), failures)
        yield from self._driver()

    def _driver(self) -> Iterator[core.Metric]:
        host = self._published.host
        info = core.GaugeMetricFamily(
            "kae_driver_info",
            "1, with the driver that was installed; version and source are empty where we installed none.",
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
            changed.add_metric([], datetime.fromisoformat(host.record.since).timestamp())
        yield changed


def _filled(family: core.GaugeMetricFamily | core.CounterMetricFamily, values: Mapping[str, float]) -> core.Metric:
    for label, value in sorted(values.items()):
        family.add_metric([label], value)
    return family


def registry_of(published: driver_state.DriverState, held_s: Callable[[], float | None]) -> registry.CollectorRegistry:
    """Return a registry of these metrics and of the process metrics."""
    return metrics.registry_of(Collector(published, held_s))
