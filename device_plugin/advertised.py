"""What the kubelet is told of one resource: a pure function of what was found."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from device_plugin import health, sysfs

_SEPARATOR = "::"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A function that is offered, and what is wrong with it."""

    function: sysfs.Function
    reasons: tuple[health.Reason, ...]

    @property
    def healthy(self) -> bool:
        """Whether the kubelet may give it to a container."""
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One of the shares in which a device is offered."""

    id: str
    healthy: bool
    numa_node: int | None


def replicas(devices: Iterable[Device], count: int, numa_nodes: frozenset[int]) -> tuple[Replica, ...]:
    """The shares of devices, `count` each.

    A NUMA node is told only if every device has one that the machine knows: the kubelet would never place a device
    without one as soon as another has one, nor one on a node that it does not know (kubelet's topology manager).
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
    """The id of a share; the first one's is the bare address, so that raising the number leaves what is given alone."""
    return f"{address}{_SEPARATOR}{index}" if index else address


def address_of(replica: str) -> str:
    """The PCI address in the id of a share."""
    return replica.partition(_SEPARATOR)[0]


def by_resource(devices: Iterable[Device]) -> Mapping[str, tuple[Device, ...]]:
    """The devices of each resource, in the order given."""
    found: dict[str, tuple[Device, ...]] = {}
    for device in devices:
        resource = device.function.kind.resource
        found[resource] = (*found.get(resource, ()), device)
    return found
