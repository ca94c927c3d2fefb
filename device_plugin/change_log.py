"""The log of what changed between two scans."""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from device_plugin.kubelet import advertised

LOG = logging.getLogger(__name__)

Devices = Sequence[advertised.Device]


def of_devices(before: tuple[Devices, Mapping[str, str]], after: tuple[Devices, Mapping[str, str]]) -> None:
    """Log what changed of the PCI functions: advertised ones, and why others are withheld, by address."""
    earlier, now = ({device.function.address: device for device in devices} for devices, _ in (before, after))
    withheld = after[1]
    _log_changes(earlier, now, lambda address: withheld.get(address, "It is not on the PCI bus any more."))
    for address in sorted(withheld.keys() - earlier.keys() - before[1].keys()):
        LOG.info("Device is not offered.", extra={"device": address, "reason": withheld[address]})


def of_units(before: Sequence[advertised.Unit], after: Sequence[advertised.Unit]) -> None:
    """Log what changed of the groups of device nodes, and of the tokens."""
    earlier, now = ({(unit.resource, unit.ids): unit for unit in units} for units in (before, after))
    _log_changes(earlier, now, lambda _: "Its nodes are not there.")


def _log_changes(
    earlier: Mapping[Any, advertised.AnyDevice],
    now: Mapping[Any, advertised.AnyDevice],
    why_gone: Callable[[Any], str],
) -> None:
    for key, device in now.items():
        known = earlier.get(key)
        if known is None or known.reasons != device.reasons:
            _log_health(device)
        elif _place(known) != _place(device):
            LOG.info("Device was renumbered.", extra=_fields(device))
    for key in sorted(earlier.keys() - now.keys()):
        LOG.info("Device is offered no more.", extra={**_fields(earlier[key]), "reason": why_gone(key)})


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
        nodes = list(device.nodes) if device.nodes is not None else None
        name = device.ids[0] if len(device.ids) == 1 else f"{device.ids[0]} to {device.ids[-1]}"
        return {"resource": device.resource, "device": name, "nodes": nodes}
    return {"resource": device.resource, "device": device.function.address, "entry": _place(device)}


def _place(device: advertised.AnyDevice) -> object:
    """Return the names and numbers that the kernel gives anew."""
    if isinstance(device, advertised.Unit):
        return device.group
    return device.function.entry.name if device.function.entry else device.function.node
