"""The devices that the kubelet sees of one resource: a pure function of the functions found."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from device_plugin.host import health, sysfs

_SEPARATOR = "::"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An advertised function, and the reasons why it is unhealthy."""

    function: sysfs.Function
    reasons: tuple[health.Reason, ...]

    @property
    def healthy(self) -> bool:
        """Return whether the kubelet may give it to a container."""
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One of the shares of a device."""

    id: str
    healthy: bool
    numa_node: int | None


def split(
    functions: Iterable[sysfs.Function], reasons: Callable[[sysfs.Function], tuple[health.Reason, ...]]
) -> tuple[tuple[Device, ...], dict[str, str]]:
    """Return the advertised devices, each with its reasons, and why the others are withheld, by address."""
    devices, withheld = [], {}
    for function in functions:
        if why := health.withheld(function):
            withheld[function.address] = why
        else:
            devices.append(Device(function=function, reasons=reasons(function)))
    return tuple(devices), withheld


def replicas(devices: Iterable[Device], count: int, numa_nodes: frozenset[int]) -> tuple[Replica, ...]:
    """Return the shares of devices, `count` each.

    They name a NUMA node only if every device has one that the machine knows: the kubelet's topology manager never
    places a device without a node once another device has one, nor a device on a node that it does not know.
    """
    offered = tuple(devices)
    placed = all(device.function.numa_node in numa_nodes for device in offered)
    return tuple(
        Replica(
            id=replica_id(device.function.address, index),
            healthy=device.healthy,
            numa_node=device.function.numa_node if placed else None,
        )
        for device in offered
        for index in range(count)
    )


def replica_id(address: str, index: int) -> str:
    """Return the id of a share; the first is the bare address, so that a larger count leaves allocated shares alone."""
    return f"{address}{_SEPARATOR}{index}" if index else address


def address_of(replica: str) -> str:
    """Return the PCI address in the id of a share."""
    return replica.partition(_SEPARATOR)[0]


def by_resource(devices: Iterable[Device]) -> Mapping[str, tuple[Device, ...]]:
    """Return the devices of each resource, in the order given."""
    groups: dict[str, list[Device]] = {}
    for device in devices:
        groups.setdefault(device.function.kind.resource, []).append(device)
    return {resource: tuple(group) for resource, group in groups.items()}
