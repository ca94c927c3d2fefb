"""The devices of a node: scan them, update the kubelet's lists and the host paths, answer Allocate."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import msgspec

from device_plugin import config, host_links, report
from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.host import device_nodes, flap_damping, health, paths, reader, sysfs
from device_plugin.kubelet import advertised, allocation, device_list, preferred_allocation
from device_plugin.kubelet.service import Refusal
from runtime import errors

LOG = logging.getLogger(__name__)


class Plugin:
    """The devices of the node, as of the last scan.

    `look` updates device lists, host paths and log; the loop calls it for every event and from time to time.
    """

    def __init__(
        self,
        where: paths.Paths,
        settings: config.Config,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = reader.PATIENCE_S,
    ) -> None:
        self.where = where
        self.settings = settings
        self.device_lists: Mapping[str, device_list.DeviceList] = MappingProxyType(
            {kind.resource: device_list.DeviceList() for kind in settings.kinds}
        )
        self.allocations = {(kind.resource, result): 0 for kind in settings.kinds for result in ("succeeded", "failed")}
        """The number of answered containers, by resource and result."""
        self.devices: tuple[advertised.Device, ...] = ()
        self.surprised: Callable[[], None] = lambda: None
        """Called when Allocate found a device otherwise than the last look: others may have changed, too."""
        self._reader = reader.Reader(where, settings, patience_s)
        self._functions: Mapping[str, sysfs.Function] = {}
        self._changing = False
        self._clock = clock
        self._withheld: Mapping[str, str] = {}
        self._histories: dict[str, flap_damping.History] = {}
        self._lacks_libraries: str | None = None
        self._no_report: str | None = None
        _written(host_links.prepare, where, settings.inject)

    async def look(self) -> None:
        """Scan the devices, and update lists, host paths and log; a device whose read hangs becomes unhealthy."""
        _written(host_links.keep, self.where, self.settings.inject)
        async for scan in self._reader.look():
            self._apply(scan)

    def _apply(self, scan: sysfs.Scan) -> None:
        self._functions = {function.address: function for function in scan.functions}
        lacks = self._reader.lacking_libraries
        if lacks is not None and lacks != self._lacks_libraries:
            LOG.warning("%s", lacks)
        self._lacks_libraries = lacks
        self._changing = self.where.changing.exists()
        devices, withheld = advertised.split(scan.functions, self._reasons)
        self._log_changes(devices, withheld)
        self.devices, self._withheld = devices, withheld
        self._forget_histories()
        _written(host_links.publish, self.where, devices)
        offered = advertised.by_resource(devices)
        for kind in self.settings.kinds:
            self.device_lists[kind.resource].show(
                advertised.replicas(
                    offered.get(kind.resource, ()), self.settings.sharing.get(kind.name, 1), scan.numa_nodes
                )
            )
        made = report.of(self.where, self.settings, scan, (devices, withheld), lacks)
        no_report = host_links.write_report(self.where, msgspec.json.encode(made))
        if no_report is not None and no_report != self._no_report:
            LOG.warning("%s", no_report)
        self._no_report = no_report

    async def allocate(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Return the answer for one container; raises `Refusal` for a device that cannot be used now.

        The devices in question are read again, because an event may not have arrived yet, and no others: their reads
        may hang.
        """
        try:
            answer = await self._answer(resource, ids)
        except Refusal as refusal:
            self.allocations[resource, "failed"] += 1
            LOG.warning("Refused to allocate.", extra={"resource": resource, "devices": ids, "reason": str(refusal)})
            raise
        self.allocations[resource, "succeeded"] += 1
        LOG.info("Allocated.", extra={"resource": resource, "devices": ids})
        return answer

    def loads(self, resource: str) -> dict[str, preferred_allocation.Load]:
        """Return the NUMA node and the free queues of each device of a resource, as of the last scan."""
        return {
            device.function.address: preferred_allocation.Load(
                numa_node=device.function.numa_node,
                free_queues=(device.function.entry.free_queues or 0) if device.function.entry else 0,
            )
            for device in self.devices
            if device.function.kind.resource == resource
        }

    async def _answer(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        addresses = {advertised.address_of(replica) for replica in ids}
        await self._read_again(addresses)
        known = {
            device.function.address: device for device in self.devices if device.function.kind.resource == resource
        }
        for address in sorted(addresses):
            if why := self._withheld.get(address):
                raise Refusal(f"Device {address} of {resource} is not offered: {why}")
            if address not in known:
                raise Refusal(f"Device {address} of {resource} is not there.")
            if not known[address].healthy:
                raise Refusal(f"Device {address} of {resource} is unhealthy: {known[address].reasons[0].text}")
        return allocation.answer(self.where, self.settings.inject, [known[address] for address in sorted(addresses)])

    async def _read_again(self, addresses: set[str]) -> None:
        found = await self._reader.read(addresses)
        changed = any(function != self._functions.get(address) for address, function in found.items())
        if changed or self._changing != self.where.changing.exists():
            self._apply(self._reader.scan())
            self.surprised()

    def _reasons(self, function: sysfs.Function) -> tuple[health.Reason, ...]:
        reasons = (*self._not_permitted(function), *health.reasons(function, changing=self._changing))
        history = flap_damping.step(
            self._histories.get(function.address, flap_damping.History()),
            faulty=any(reason.fault for reason in reasons),
            now=self._clock(),
        )
        self._histories[function.address] = history
        return (*reasons, health.DAMPED) if history.damped else reasons

    def _not_permitted(self, function: sysfs.Function) -> tuple[health.Reason, ...]:
        """Give the function's device node its mode and group, where the policy states them."""
        if self.settings.device_nodes is None or self._changing:
            return ()
        why = device_nodes.permit(self.where, function, self.settings.device_nodes)
        return () if why is None else (health.Reason(code="NodeNotPermitted", text=why),)

    def _forget_histories(self) -> None:
        """Forget faults of devices that have been away for the window: a reset takes a device away for a moment."""
        there, now = {device.function.address for device in self.devices}, self._clock()
        self._histories = {
            address: history
            for address, history in self._histories.items()
            if address in there or flap_damping.is_recent(history, now)
        }

    def _log_changes(self, devices: Sequence[advertised.Device], withheld: Mapping[str, str]) -> None:
        before = {device.function.address: device for device in self.devices}
        after = {device.function.address: device for device in devices}
        for address, device in after.items():
            earlier = before.get(address)
            if earlier is None or earlier.reasons != device.reasons:
                _log_health(device)
            elif _entry_name(earlier) != _entry_name(device):
                LOG.info("Device was renumbered.", extra=_fields(device))
        for address in sorted(before.keys() - after.keys()):
            reason = withheld.get(address, "It is not on the PCI bus any more.")
            LOG.info("Device is offered no more.", extra={**_fields(before[address]), "reason": reason})
        for address in sorted(withheld.keys() - before.keys() - self._withheld.keys()):
            LOG.info("Device is not offered.", extra={"device": address, "reason": withheld[address]})


def _written(write: Callable[..., None], where: paths.Paths, *what: object) -> None:
    try:
        write(where, *what)
    except OSError as error:
        raise errors.Failure(f"'{error.filename or where.run}' cannot be changed: {error.strerror}.") from error


def _log_health(device: advertised.Device) -> None:
    if device.healthy:
        LOG.info("Device is healthy.", extra=_fields(device))
        return
    LOG.warning(
        "Device is unhealthy.",
        extra=_fields(device)
        | {"reasons": [reason.code for reason in device.reasons], "reason": device.reasons[0].text},
    )


def _fields(device: advertised.Device) -> dict[str, object]:
    function = device.function
    return {"resource": function.kind.resource, "device": function.address, "entry": _entry_name(device)}


def _entry_name(device: advertised.Device) -> str | None:
    return device.function.entry.name if device.function.entry else device.function.node
