"""The log of what changed between two scans."""

import logging
from collections.abc import Mapping, Sequence

from device_plugin.kubelet import advertised

LOG = logging.getLogger(__name__)

Devices = Sequence[advertised.Device]


def of_devices(before: tuple[Devices, Mapping[str, str]], after: tuple[Devices, Mapping[str, str]]) -> None:
    """Log what changed of the PCI functions: advertised ones, and why others are withheld, by address."""
    earlier = {device.function.address: device for device in before[0]}
    now = {device.function.address: device for device in after[0]}
    withheld = after[1]
    for address, device in now.items():
        known = earlier.get(address)
        if known is None or known.reasons != device.reasons:
            _log_health(device)
        elif _entry_name(known) != _entry_name(device):
            LOG.info("Device was renumbered.", extra=_fields(device))
    for address in sorted(earlier.keys() - now.keys()):
        reason = withheld.get(address, "It is not on the PCI bus any more.")
        LOG.info("Device is offered no more.", extra={**_fields(earlier[address]), "reason": reason})
    for address in sorted(withheld.keys() - earlier.keys() - before[1].keys()):
        LOG.info("Device is not offered.", extra={"device": address, "reason": withheld[address]})


def of_units(before: Sequence[advertised.Unit], after: Sequence[advertised.Unit]) -> None:
    """Log what changed of the groups of device nodes, and of the tokens of a recipe."""
    earlier = {(unit.resource, unit.ids): unit for unit in before}
    now = {(unit.resource, unit.ids): unit for unit in after}
    for key, unit in now.items():
        known = earlier.get(key)
        if known is None or known.reasons != unit.reasons:
            _log_health(unit)
        elif known.group != unit.group:
            LOG.info("Device was renumbered.", extra=_fields(unit))
    for key in sorted(earlier.keys() - now.keys()):
        LOG.info("Device is offered no more.", extra={**_fields(earlier[key]), "reason": "Its nodes are not there."})


def _log_health(device: advertised.AnyDevice) -> None:
    if device.healthy:
        LOG.info("Device is healthy.", extra=_fields(device))
        return
    LOG.warning(
        "Device is unhealthy.",
        extra=_fields(device)
        | {"reasons": [reason.code for reason in device.reasons], "reason": device.reasons[0].text},
    )


def _fields(device: advertised.AnyDevice) -> dict[str, object]:
    if isinstance(device, advertised.Unit):
        nodes = [node.path for node in device.group.nodes] if device.group is not None else None
        return {"resource": device.resource, "device": _name(device), "nodes": nodes}
    function = device.function
    return {"resource": function.kind.resource, "device": function.address, "entry": _entry_name(device)}


def _entry_name(device: advertised.Device) -> str | None:
    return device.function.entry.name if device.function.entry else device.function.node


def _name(unit: advertised.Unit) -> str:
    return unit.ids[0] if len(unit.ids) == 1 else f"{unit.ids[0]} to {unit.ids[-1]}"
