"""The devices that the kubelet sees of one resource: a pure function of the functions found."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from device_plugin import config
from device_plugin.host import health, sysfs
from device_plugin.host.recipe import groups, resources

_SEPARATOR = "::"


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """An advertised function, and the reasons why it is unhealthy."""

    function: sysfs.Function
    reasons: tuple[health.Reason, ...]
    companions: tuple[str, ...] = ()
    """The addresses of functions that come with it, in one IOMMU group."""

    @property
    def healthy(self) -> bool:
        """Return whether the kubelet may give it to a container."""
        return not self.reasons

    @property
    def resource(self) -> str:
        """Return the extended resource."""
        return self.function.kind.resource

    @property
    def ids(self) -> tuple[str, ...]:
        """Return what it is called for the kubelet."""
        return (self.function.address,)

    @property
    def numa_node(self) -> int | None:
        """Return its NUMA node."""
        return self.function.numa_node


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is advertised of a resource without PCI functions: a group of device nodes, or all of its tokens."""

    resource: str
    ids: tuple[str, ...]
    reasons: tuple[health.Reason, ...]
    group: groups.Group | None = None

    @property
    def healthy(self) -> bool:
        """Return whether the kubelet may give it to a container."""
        return not self.reasons

    @property
    def numa_node(self) -> int | None:
        """Return its NUMA node; tokens have none."""
        return self.group.numa_node if self.group is not None else None


AnyDevice = Device | Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One of the shares of a device."""

    id: str
    healthy: bool
    numa_node: int | None


def split(
    functions: Iterable[sysfs.Function], judge: Callable[[sysfs.Function], tuple[health.Reason, ...]]
) -> tuple[tuple[Device, ...], dict[str, str]]:
    """Return the advertised devices, each with its reasons, and why the others are withheld, by address."""
    devices, withheld = [], {}
    known = {function.address: function for function in functions}
    for function in known.values():
        companions = _companions(function, known)
        first = min((function.address, *companions))
        if why := health.withheld(function):
            withheld[function.address] = why
        elif first != function.address:
            withheld[function.address] = f"It comes with {first}, in one IOMMU group."
        else:
            whole = _without_others(function) if companions else function
            devices.append(Device(function=whole, reasons=judge(whole), companions=companions))
    return tuple(devices), withheld


def _companions(function: sysfs.Function, known: Mapping[str, sysfs.Function]) -> tuple[str, ...]:
    """Return the other functions of a recipe's kind in a group of functions that all are offered by vfio.

    Who opens the group gets all of them, and so they are one device.
    """
    if not function.kind.vendor or function.group is None:
        return ()
    others = [known.get(address) for address in function.group.others]
    if all(other is not None and other.kind == function.kind and not health.withheld(other) for other in others):
        return function.group.others
    return ()


def _without_others(function: sysfs.Function) -> sysfs.Function:
    """Return a function whose group has no strangers."""
    group = function.group
    return replace(function, group=replace(group, others=()) if group is not None else None)


def reasons(
    function: sysfs.Function, on_host: Mapping[str, resources.OnHost], *, changing: bool
) -> tuple[health.Reason, ...]:
    """Return the reasons why a function is unhealthy, with those of its recipe's resource."""
    found = on_host.get(function.kind.resource, resources.OnHost())
    return (*health.of_resource(found, changing=False), *health.reasons(function, changing=changing))


def units(
    resource: config.AnyResource, found: resources.OnHost, known: Iterable[Unit], *, changing: bool
) -> Iterator[Unit]:
    """Yield what is advertised of a token or char resource; `known` is what was, before its driver is changed."""
    common = health.of_resource(found, changing=changing)
    if isinstance(resource, config.Token):
        yield Unit(resource=resource.name, ids=tuple(map(str, range(resource.count))), reasons=common)
    elif isinstance(resource, config.Char):
        there = {group.id: group for group in found.devices}
        # Meanwhile its nodes vanish, and it is no use to tell the kubelet that the devices are gone.
        gone = [unit.group for unit in known if changing and unit.group is not None and unit.group.id not in there]
        for group in (*there.values(), *gone):
            own = health.of_group_nodes(group)
            yield Unit(resource=resource.name, ids=(group.id,), reasons=(*own, *common), group=group)


def replicas(devices: Iterable[AnyDevice], count: int, numa_nodes: frozenset[int]) -> tuple[Replica, ...]:
    """Return the shares of devices, `count` each.

    They name a NUMA node only if every device has one that the machine knows: the kubelet's topology manager never
    places a device without a node once another device has one, nor a device on a node that it does not know.
    """
    offered = tuple(devices)
    placed = all(device.numa_node in numa_nodes for device in offered)
    return tuple(
        Replica(id=replica_id(device_id, index), healthy=device.healthy, numa_node=device.numa_node if placed else None)
        for device in offered
        for device_id in device.ids
        for index in range(count)
    )


def replica_id(device: str, index: int) -> str:
    """Return the id of a share; the first is the bare id, so that a larger count leaves allocated shares alone."""
    return f"{device}{_SEPARATOR}{index}" if index else device


def address_of(replica: str) -> str:
    """Return the id of the device, mostly a PCI address, in the id of a share."""
    return replica.partition(_SEPARATOR)[0]


def by_resource(devices: Iterable[AnyDevice]) -> Mapping[str, tuple[AnyDevice, ...]]:
    """Return the devices of each resource, in the order given."""
    found: dict[str, list[AnyDevice]] = {}
    for device in devices:
        found.setdefault(device.resource, []).append(device)
    return {resource: tuple(of_resource) for resource, of_resource in found.items()}
