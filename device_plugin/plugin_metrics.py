"""The plugin's metrics.

templates/monitoring/prometheusrule-kae.yaml alerts on their names and labels. The PodMonitor adds node and policy.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from device_plugin import plugin
from device_plugin.kubelet import service
from runtime import metrics


def families(node: plugin.Plugin, registrations: Sequence[service.Served]) -> Iterator[metrics.Family]:
    """Yield the metrics."""
    shared = "Devices as the kubelet was told, Healthy or Unhealthy; a shared one counts once."
    counts = _counts(node)
    yield metrics.Family(
        "kae_device_plugin_devices", shared, sorted(counts.items()), labels=("resource", "health", "numa_node")
    )
    reasons = [
        ((device.resource, device.ids[0], reason.code), 1) for device in node.offered for reason in device.reasons
    ]
    unhealthy = "1 for each reason for which a device is unhealthy."
    yield metrics.Family("kae_device_plugin_unhealthy", unhealthy, reasons, labels=("resource", "device", "reason"))
    queues = [
        ((device.resource, device.function.address), device.function.entry.free_queues)
        for device in node.devices
        if device.function.entry is not None and device.function.entry.free_queues is not None
    ]
    free = "Unused queues of a device, at the last scan."
    yield metrics.Family("kae_device_plugin_free_queues", free, queues, labels=("resource", "device"))
    registered = [((each.resource,), int(each.registered)) for each in registrations]
    watches = "1 while the kubelet watches the resource."
    yield metrics.Family("kae_device_plugin_registered", watches, registered, labels=("resource",))
    results = [((each.resource, result), count) for each in registrations for result, count in each.results.items()]
    labels = ("resource", "result")
    offers = "What the kubelet said to an offer: succeeded or failed."
    yield metrics.Family("kae_device_plugin_registrations", offers, results, labels, counts=True)
    answers = "Answers to Allocate: succeeded or failed."
    yield metrics.Family("kae_device_plugin_allocations", answers, node.allocations.items(), labels, counts=True)


def _counts(node: plugin.Plugin) -> Counter[tuple[str, str, str]]:
    """Return the number of devices by resource, health and NUMA node."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for device in node.offered:
        numa_node = "" if device.numa_node is None else str(device.numa_node)
        for healthy, name in ((True, "Healthy"), (False, "Unhealthy")):
            counts[device.resource, name, numa_node] += (device.healthy == healthy) * len(device.ids)
    offered = {device.resource for device in node.offered}
    # A kind without devices is zero, not absent.
    counts.update({(name, "Healthy", ""): 0 for name in node.device_lists if name not in offered})
    return counts
