"""The devices of a node: scan them, update the kubelet's lists and the host paths, log changes, answer Allocate."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from msgspec import structs

from device_plugin import host_links, report
from device_plugin.api import deviceplugin_v1beta1_pb2 as api
from device_plugin.host import health, paths, permissions, reader, resources, sysfs
from device_plugin.kubelet import advertised, allocation, preferred_allocation, service
from device_plugin.kubelet.service import Refusal
from runtime import device_plugin_config as config
from runtime import errors

LOG = logging.getLogger(__name__)

_AnyDevice = TypeVar("_AnyDevice", advertised.Device, advertised.Unit)


class Plugin:
    """The devices of the node, as of the last `look`, which the loop calls for every event and from time to time."""

    def __init__(
        self,
        where: paths.Paths,
        settings: config.Config,
        clock: Callable[[], float] = time.monotonic,
        patience_s: float = reader.PATIENCE_S,
    ) -> None:
        self.where = where
        self.settings = settings
        self.device_lists: Mapping[str, service.DeviceList] = MappingProxyType(
            {resource.name: service.DeviceList() for resource in settings.resources}
        )
        self.allocations = {(name, result): 0 for name in self.device_lists for result in ("succeeded", "failed")}
        self.devices: tuple[advertised.Device, ...] = ()
        """The PCI functions."""
        self.units: tuple[advertised.Unit, ...] = ()
        """The groups of device nodes, and the tokens."""
        self.surprised: Callable[[], None] = lambda: None
        """Called when Allocate found a device otherwise than the last look: others may have changed, too."""
        self.applied: Callable[[], None] = lambda: None
        """Called after each look, and when Allocate found a device otherwise."""
        self.given: Mapping[tuple[str, str], health.Reason] = {}
        """The reasons why devices, by resource and id, are given away by the interface that the node had before."""
        self._reader = reader.Reader(where, settings, patience_s)
        self._on_host = self._reader.on_host()
        self._resources = {resource.name: resource for resource in settings.resources}
        self._functions: Mapping[str, sysfs.Function] = {}
        self._changing = False
        self._clock = clock
        self._withheld: Mapping[str, str] = {}
        self._histories: dict[str, health.History] = {}
        self._lacks: Mapping[str, str] = {}
        """What resources lack of the plugin's own files, by name."""
        self._warnings: frozenset[str] = frozenset()
        try:
            host_links.prepare(where, settings)
        except OSError as error:
            raise errors.Failure(f"'{error.filename or where.run}' cannot be changed: {error.strerror}.") from error

    @property
    def offered(self) -> tuple[advertised.AnyDevice, ...]:
        """Return what is advertised, as of the last scan."""
        return (*self.devices, *self.units)

    @property
    def dead(self) -> list[str]:
        """Return the resources that have devices, none of which is healthy."""
        resources = {device.resource for device in self.offered}
        return sorted(resources - {device.resource for device in self.offered if device.healthy})

    async def look(self) -> None:
        """Scan the devices, and update lists, host paths and log; a device whose read hangs becomes unhealthy."""
        self._lacks = host_links.keep(self.where, self.settings)
        async for scan in self._reader.look():
            self._apply(scan)

    def _apply(self, scan: sysfs.Scan) -> None:
        self._functions = {function.address: function for function in scan.functions}
        lacks = self._reader.lacking_libraries
        self._changing = self.where.changing.exists()
        self._on_host = self._reader.on_host()
        devices, withheld = advertised.split(scan.functions, self._reasons)
        units = tuple(advertised.units(self.settings, self._on_host, self.units, changing=self._changing))
        failures = host_links.publish(self.where, devices, units)
        devices = tuple(self._with_given(self._with_files(device, failures)) for device in devices)
        units = tuple(
            self._with_given(part) for unit in units for part in self._parted(self._with_files(unit, failures))
        )
        _log_devices(self.devices, self._withheld, devices, withheld)
        earlier, now = ({(unit.resource, unit.ids): unit for unit in known} for known in (self.units, units))
        _log_changes(earlier, now, lambda _: "Its nodes are not there.")
        self.devices, self.units, self._withheld = devices, units, withheld
        self._forget_histories()
        for name, resource in self._resources.items():
            offered = [device for device in self.offered if device.resource == name]
            self.device_lists[name].show(advertised.replicas(offered, resource.shares, scan.numa_nodes))
        made = report.of(self.where, self.settings, scan, (devices, units, withheld), lacks)
        no_report = host_links.write_report(self.where, msgspec.json.encode(made))
        warnings = frozenset(filter(None, (*lacks, failures.get(()), no_report)))
        for warning in sorted(warnings - self._warnings):
            LOG.warning("%s", warning)
        self._warnings = warnings
        self.applied()

    def again(self) -> None:
        """Judge the devices anew, as they were read last: what is `given` has changed."""
        self._apply(self._reader.scan())

    async def allocate(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        """Return the answer for one container; raises `Refusal` for a device that cannot be used now."""
        # These devices are read again, as an event may not have arrived yet, and no others: their reads may hang.
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
        loads = {
            device.function.address: preferred_allocation.Load(
                numa_node=device.function.numa_node,
                free_queues=(device.function.entry.free_queues or 0) if device.function.entry else 0,
            )
            for device in self.devices
            if device.resource == resource
        }
        for unit in self.units:
            if unit.resource == resource and unit.group is not None:
                loads[unit.group.id] = preferred_allocation.Load(numa_node=unit.numa_node)
        return loads

    async def _answer(self, resource: str, ids: Sequence[str]) -> api.ContainerAllocateResponse:
        wanted = sorted({advertised.address_of(replica) for replica in ids})
        await self._read_again(resource, wanted)
        known = {name: device for device in self.offered if device.resource == resource for name in device.ids}
        for name in wanted:
            if why := self._withheld.get(name):
                raise Refusal(f"Device {name} of {resource} is not offered: {why}")
            if name not in known:
                raise Refusal(f"Device {name} of {resource} is not there.")
            if not known[name].healthy:
                raise Refusal(f"Device {name} of {resource} is unhealthy: {known[name].reasons[0].text}")
        devices = [known[name] for name in wanted]
        answer = allocation.answer(self.where, self._resources[resource], devices, self._on_host[resource])
        if (place := allocation.crowded(answer)) is not None:
            raise Refusal(f"{place} of the container would be two things of {resource}: ask for one device only.")
        return answer

    async def _read_again(self, resource: str, wanted: Sequence[str]) -> None:
        known = {device.function.address: device.companions for device in self.devices}
        companions = [each for name in wanted for each in known.get(name, ())]
        on_host, found = await self._reader.read(resource, [*wanted, *companions])
        changed = self._changing != self.where.changing.exists() or on_host != self._on_host[resource]
        if changed or any(function != self._functions.get(address) for address, function in found.items()):
            self._apply(self._reader.scan())
            self.surprised()

    def watched(self) -> dict[Path, list[str]]:
        """Return the folders of /dev in which a change may concern devices, with beginnings of the names there."""
        # Other folders may be on a file system that does not answer, which the next scan asks.
        # /dev is busy: terminals come and go. The node hisi_sec-0 is of the module hisi_sec2.
        modules = {kind.module.partition("_")[0] for kind in self.settings.kinds if kind.module}
        found: dict[Path, list[str]] = {self.where.dev: ["vfio", *sorted(modules)]}
        for resource in self.settings.resources:
            for glob in resources.device_globs(resource):
                for folder, beginning in resources.watched(glob):
                    found.setdefault(self.where.on_host(folder), []).append(beginning)
        return found

    def _reasons(self, function: sysfs.Function) -> tuple[health.Reason, ...]:
        reasons = (
            *self._not_permitted(function),
            *advertised.reasons(function, self._on_host, changing=self._changing),
        )
        history = health.next_history(
            self._histories.get(function.address, health.History()),
            faulty=any(reason.fault for reason in reasons),
            now=self._clock(),
        )
        self._histories[function.address] = history
        return (*reasons, health.DAMPED) if history.damped else reasons

    def _not_permitted(self, function: sysfs.Function) -> tuple[health.Reason, ...]:
        """Give the function's device node its mode and group, where the policy states them."""
        resource = self._resources[function.kind.resource]
        if not isinstance(resource, config.Uacce) or resource.device_nodes is None or self._changing:
            return ()
        why = permissions.permit(self.where, function, resource.device_nodes)
        return () if why is None else (health.Reason(code="NodeNotPermitted", text=why),)

    def _with_files(self, device: _AnyDevice, failures: Mapping[tuple[str, ...], str]) -> _AnyDevice:
        """Return a device with the reasons why a container with it would lack a link or a file."""
        texts = filter(None, (failures.get(host_links.key(device)), self._lacks.get(device.resource)))
        lacking: tuple[health.Reason, ...] = tuple(health.Reason(code="HostPath", text=text) for text in texts)
        return structs.replace(device, reasons=(*device.reasons, *lacking)) if lacking else device

    def _with_given(self, device: _AnyDevice) -> _AnyDevice:
        """Return a device with the reason why nobody else may have it."""
        why = self.given.get((device.resource, device.ids[0])) if self.given and device.ids else None
        return structs.replace(device, reasons=(*device.reasons, why)) if why is not None else device

    def _parted(self, unit: advertised.Unit) -> list[advertised.Unit]:
        """Return tokens as those that are given away, and the others."""
        given = [each for each in unit.ids if (unit.resource, each) in self.given] if len(unit.ids) > 1 else []
        rest = tuple(each for each in unit.ids if each not in given)
        return [structs.replace(unit, ids=ids) for ids in (rest, *((each,) for each in given)) if ids]

    def edits(self, resource: str, devices: Sequence[advertised.AnyDevice]) -> api.ContainerAllocateResponse:
        """Return what a container gets with these devices of a resource, whatever their health is."""
        return allocation.answer(self.where, self._resources[resource], devices, self._on_host[resource])

    def _forget_histories(self) -> None:
        """Forget faults of devices that have been away for the window: a reset takes a device away for a moment."""
        there, now = {device.function.address for device in self.devices}, self._clock()
        self._histories = {
            address: history
            for address, history in self._histories.items()
            if address in there or health.is_recent(history, now)
        }


def _log_devices(
    before: Sequence[advertised.Device],
    withheld_before: Mapping[str, str],
    after: Sequence[advertised.Device],
    withheld: Mapping[str, str],
) -> None:
    """Log what changed of the PCI functions: advertised ones, and why others are withheld, by address."""
    earlier, now = ({device.function.address: device for device in devices} for devices in (before, after))
    _log_changes(earlier, now, lambda address: withheld.get(address, "It is not on the PCI bus any more."))
    for address in sorted(withheld.keys() - earlier.keys() - withheld_before.keys()):
        LOG.info("Device is not offered.", extra={"device": address, "reason": withheld[address]})


def _log_changes(
    earlier: Mapping[Any, advertised.AnyDevice], now: Mapping[Any, advertised.AnyDevice], why_gone: Callable[[Any], str]
) -> None:
    for key, device in now.items():
        known = earlier.get(key)
        if known is None or known.reasons != device.reasons:
            if device.healthy:
                LOG.info("Device is healthy.", extra=_fields(device))
            else:
                why = {"reasons": [reason.code for reason in device.reasons], "reason": device.reasons[0].text}
                LOG.warning("Device is unhealthy.", extra=_fields(device) | why)
        elif _place(known) != _place(device):
            LOG.info("Device was renumbered.", extra=_fields(device))
    for key in sorted(earlier.keys() - now.keys()):
        LOG.info("Device is offered no more.", extra={**_fields(earlier[key]), "reason": why_gone(key)})


def _fields(device: advertised.AnyDevice) -> dict[str, object]:
    if isinstance(device, advertised.Unit):
        nodes = list(device.nodes) if device.nodes is not None else None
        name = device.ids[0] if len(device.ids) == 1 else f"{device.ids[0]} to {device.ids[-1]}"
        return {"resource": device.resource, "device": name, "nodes": nodes}
    return {"resource": device.resource, "device": device.function.address, "entry": _place(device)}


def _place(device: advertised.AnyDevice) -> object:
    """Return the names and numbers that the kernel gives anew."""
    if isinstance(device, advertised.Unit):
        return device.group
    return device.function.entry.name if device.function.entry else device.function.node
