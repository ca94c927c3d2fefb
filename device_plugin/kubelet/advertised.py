"""The devices that the kubelet sees of one resource: a pure function of the functions found."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from device_plugin.host import health, resources, sysfs
from runtime import device_plugin_config as config

_SEPARATOR = "::"


class _Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What is advertised, and the reasons why it is unhealthy."""

    reasons: tuple[health.Reason, ...]

    @property
    def healthy(self) -> bool:
        """Return whether the kubelet may give it to a container."""
        return not self.reasons

    @property
    def why(self) -> tuple[str, ...]:
        """Return the reasons in sentences."""
        return tuple(reason.text for reason in self.reasons)


class Device(_Judged, frozen=True, kw_only=True):
    """An advertised function."""

    function: sysfs.Function
    companions: tuple[str, ...] = ()
    """The addresses of functions that come with it, in one IOMMU group."""

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


class Unit(_Judged, frozen=True, kw_only=True):
    """What is advertised of a resource without PCI functions: a group of device nodes, or all of its tokens."""

    resource: str
    ids: tuple[str, ...]
    group: resources.Group | None = None

    @property
    def nodes(self) -> tuple[str, ...] | None:
        """Return the paths of its nodes on the host; None of tokens."""
        return tuple(node.path for node in self.group.nodes) if self.group is not None else None

    @property
    def numa_node(self) -> int | None:
        """Return its NUMA node; tokens have none."""
        return self.group.numa_node if self.group is not None else None


AnyDevice = Device | Unit


class Replica(msgspec.Struct, frozen=True, kw_only=True):
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
            group = function.group
            # With its companions the group has no strangers.
            whole = replace(function, group=replace(group, others=())) if companions and group else function
            devices.append(Device(function=whole, reasons=judge(whole), companions=companions))
    return tuple(devices), withheld


def _companions(function: sysfs.Function, known: Mapping[str, sysfs.Function]) -> tuple[str, ...]:
    """Return the other functions of its kind in a group of functions that all are offered by vfio."""
    # Who opens the group gets all of them, so they are one device; those of a kind with a known module never are.
    if function.kind.pci.module or function.group is None:
        return ()
    others = [known.get(address) for address in function.group.others]
    if all(other is not None and other.kind == function.kind and not health.withheld(other) for other in others):
        return function.group.others
    return ()


def reasons(
    function: sysfs.Function, on_host: Mapping[str, resources.OnHost], *, changing: bool
) -> tuple[health.Reason, ...]:
    """Return the reasons why a function is unhealthy, with those of its resource."""
    of_resource = health.of_resource(on_host[function.kind.resource], changing=False)
    return (*of_resource, *health.reasons(function, changing=changing))


def units(
    settings: config.Config, on_host: Mapping[str, resources.OnHost], known: Iterable[Unit], *, changing: bool
) -> Iterator[Unit]:
    """Yield what is advertised of token and char resources; `known` is what was, before their driver is changed."""
    for resource in settings.resources:
        name, found = resource.name, on_host[resource.name]
        common = health.of_resource(found, changing=changing)
        if isinstance(resource, config.Token):
            yield Unit(resource=name, ids=tuple(map(str, range(resource.count))), reasons=common)
        elif isinstance(resource, config.Char):
            groups = {group.id: group for group in found.devices}
            if changing:
                # Meanwhile its nodes vanish, and it is no use to tell the kubelet that the devices are gone.
                before = [unit.group for unit in known if unit.resource == name and unit.group is not None]
                groups |= {group.id: group for group in before if group.id not in groups}
            for group in groups.values():
                own = health.of_group_nodes(group)
                yield Unit(resource=name, ids=(group.id,), reasons=(*own, *common), group=group)


def replicas(devices: Iterable[AnyDevice], count: int, numa_nodes: frozenset[int]) -> tuple[Replica, ...]:
    """Return the shares of devices, `count` each."""
    # They name a NUMA node only if every device has one that the machine knows: the kubelet's topology manager never
    # places a device without a node once another device has one, nor a device on a node that it does not know.
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
