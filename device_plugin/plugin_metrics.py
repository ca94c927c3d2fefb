"""The plugin's metrics, computed for each scrape.

templates/monitoring/prometheusrule-kae.yaml alerts on their names and labels. The PodMonitor adds node and policy.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from prometheus_client import core, registry

from device_plugin import plugin
from device_plugin.kubelet import advertised, registration
from runtime import metrics


class Collector(registry.Collector):
    """Read a plugin and its registrations; the thread of the metrics server calls it, so it changes nothing."""

    def __init__(self, node: plugin.Plugin, registrations: Sequence[registration.Registration]) -> None:
        self._node = node
        self._registrations = registrations

    def collect(self) -> Iterator[core.Metric]:
        """Yield the metric families."""
        devices = self._node.devices
        offered = self._node.offered
        yield _devices([resource.name for resource in self._node.settings.resources], offered)
        yield _reasons(offered)
        yield _free_queues(devices)
        yield from self._results()
        allocations = core.CounterMetricFamily(
            "kae_device_plugin_allocations", "Answers to Allocate.", labels=["resource", "result"]
        )
        for labels, count in self._node.allocations.items():
            allocations.add_metric(labels, count)
        yield allocations

    def _results(self) -> Iterator[core.Metric]:
        registered = core.GaugeMetricFamily(
            "kae_device_plugin_registered", "1 while the kubelet watches the resource.", labels=["resource"]
        )
        registrations = core.CounterMetricFamily(
            "kae_device_plugin_registrations",
            "Registrations, by result.",
            labels=["resource", "result"],
        )
        for each in self._registrations:
            registered.add_metric([each.resource], int(each.registered))
            for result, count in each.results.items():
                registrations.add_metric([each.resource, result], count)
        yield registered
        yield registrations


def _devices(resources: Sequence[str], devices: Sequence[advertised.AnyDevice]) -> core.Metric:
    family = core.GaugeMetricFamily(
        "kae_device_plugin_devices",
        "Advertised devices; a shared device counts once.",
        labels=["resource", "health", "numa_node"],
    )
    counts: Counter[tuple[str, str, str]] = Counter()
    for resource in resources:
        # A kind without devices is zero, not absent.
        if not any(device.resource == resource for device in devices):
            counts[resource, "Healthy", ""] = 0
    for device in devices:
        for healthy, name in ((True, "Healthy"), (False, "Unhealthy")):
            counts[device.resource, name, _node_name(device)] += (device.healthy == healthy) * len(device.ids)
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _reasons(devices: Sequence[advertised.AnyDevice]) -> core.Metric:
    family = core.GaugeMetricFamily(
        "kae_device_plugin_unhealthy",
        "1 for each reason for which a device is unhealthy.",
        labels=["resource", "device", "reason"],
    )
    for device in devices:
        for reason in device.reasons:
            family.add_metric([device.resource, device.ids[0], reason.code], 1)
    return family


def _free_queues(devices: Sequence[advertised.Device]) -> core.Metric:
    family = core.GaugeMetricFamily(
        "kae_device_plugin_free_queues",
        "Unused queues of a device, at the last scan.",
        labels=["resource", "device"],
    )
    for device in devices:
        entry = device.function.entry
        if entry is not None and entry.free_queues is not None:
            family.add_metric([device.function.kind.resource, device.function.address], entry.free_queues)
    return family


def _node_name(device: advertised.AnyDevice) -> str:
    return "" if device.numa_node is None else str(device.numa_node)


def registry_of(node: plugin.Plugin, registrations: Sequence[registration.Registration]) -> registry.CollectorRegistry:
    """Return a registry of these metrics and of the process metrics."""
    return metrics.registry_of(Collector(node, registrations))
