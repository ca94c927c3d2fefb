"""The plugin's metrics, made at the moment they are asked for.

Names and labels are those that templates/monitoring/prometheusrule-kae.yaml alerts on. Node and policy are added by the
PodMonitor.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

import prometheus_client
from prometheus_client import core, registry

from device_plugin import advertised, plugin, registration


class Collector(registry.Collector):
    """Reads a plugin and its endpoints; called from the thread of the metrics server, so it changes nothing."""

    def __init__(self, node: plugin.Plugin, endpoints: Sequence[registration.Endpoint]) -> None:
        self._node = node
        self._endpoints = endpoints

    def collect(self) -> Iterator[core.Metric]:
        """One family after the other."""
        devices = self._node.devices
        resources = [kind.resource for kind in self._node.settings.kinds]
        yield _devices(resources, devices)
        yield _reasons(devices)
        yield _free_queues(devices)
        yield from self._registrations()
        allocations = core.CounterMetricFamily(
            "kae_device_plugin_allocations", "Answers to Allocate.", labels=["resource", "result"]
        )
        for labels, count in self._node.allocations.items():
            allocations.add_metric(labels, count)
        yield allocations

    def _registrations(self) -> Iterator[core.Metric]:
        registered = core.GaugeMetricFamily(
            "kae_device_plugin_registered", "1 while the kubelet watches the resource.", labels=["resource"]
        )
        registrations = core.CounterMetricFamily(
            "kae_device_plugin_registrations", "What the kubelet said to an offer.", labels=["resource", "result"]
        )
        for place in self._endpoints:
            registered.add_metric([place.resource], int(place.registered))
            for result, count in place.registrations.items():
                registrations.add_metric([place.resource, result], count)
        yield registered
        yield registrations


def _devices(resources: Sequence[str], devices: Sequence[advertised.Device]) -> core.Metric:
    family = core.GaugeMetricFamily(
        "kae_device_plugin_devices",
        "Devices as the kubelet was told; one that is shared counts once.",
        labels=["resource", "health", "numa_node"],
    )
    counts: Counter[tuple[str, str, str]] = Counter()
    for resource in resources:
        # A kind without any device is zero, not absent.
        if not any(device.function.kind.resource == resource for device in devices):
            counts[resource, "Healthy", ""] = 0
    for device in devices:
        for healthy, name in ((True, "Healthy"), (False, "Unhealthy")):
            counts[device.function.kind.resource, name, _node_name(device)] += device.healthy == healthy
    for labels, count in sorted(counts.items()):
        family.add_metric(labels, count)
    return family


def _reasons(devices: Sequence[advertised.Device]) -> core.Metric:
    family = core.GaugeMetricFamily(
        "kae_device_plugin_unhealthy",
        "1 for each reason for which a device is unhealthy.",
        labels=["resource", "device", "reason"],
    )
    for device in devices:
        for reason in device.reasons:
            family.add_metric([device.function.kind.resource, device.function.address, reason.code], 1)
    return family


def _free_queues(devices: Sequence[advertised.Device]) -> core.Metric:
    family = core.GaugeMetricFamily(
        "kae_device_plugin_free_queues",
        "Queues of a device that nobody uses, at the last look.",
        labels=["resource", "device"],
    )
    for device in devices:
        entry = device.function.entry
        if entry is not None and entry.free_queues is not None:
            family.add_metric([device.function.kind.resource, device.function.address], entry.free_queues)
    return family


def _node_name(device: advertised.Device) -> str:
    numa_node = device.function.numa_node
    return "" if numa_node is None else str(numa_node)


def registry_of(node: plugin.Plugin, endpoints: Sequence[registration.Endpoint]) -> registry.CollectorRegistry:
    """A registry of these metrics alone, and of the process' own."""
    made = registry.CollectorRegistry()
    made.register(Collector(node, endpoints))
    prometheus_client.ProcessCollector(registry=made)
    return made
