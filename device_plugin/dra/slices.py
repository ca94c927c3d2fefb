"""The devices of a node as the scheduler sees them, in ResourceSlices: a pure function of what is offered."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from device_plugin.dra import quantities
from device_plugin.host import health
from device_plugin.kubelet import advertised
from runtime import device_plugin_config as config
from runtime import dra, pci

GROUP = "resource.k8s.io/v1"

SLICE = 64
"""The devices of a slice: more are refused as soon as one of them has a taint
(ResourceSliceMaxDevicesWithAdvancedFeatures of Kubernetes' resource.k8s.io/v1)."""

_ALGORITHMS = 16
"""A device has at most 32 attributes and capacities."""

_LONGEST_NAME = 63
_LONGEST_SLICE_NAME = 200
_LONGEST_IDENTIFIER = 32

LOST = health.Reason(code="Lost", text="It is not there any more, and a claim holds it.")

UNCOUNTED = health.Reason(code="QueuesUnknown", text="All its queues are in use, so it is unknown how many there are.")

_TAINTS: Mapping[str, str] = {
    health.CHANGING.code: f"{dra.DOMAIN}/driver-changing",
    health.GIVEN_BY_DEVICE_PLUGIN: dra.GIVEN_BY_DEVICE_PLUGIN,
    health.GIVEN_BY_CLAIM: dra.GIVEN_BY_CLAIM,
    LOST.code: f"{dra.DOMAIN}/lost",
}
"""The keys of taints, by the code of the reason."""

_UNHEALTHY = f"{dra.DOMAIN}/unhealthy"
"""The key of the taint for all other reasons."""

_KAE = re.compile(r"openfuyao\.com/kae\.([a-z0-9]{1,24})(\.vfio)?", re.ASCII)


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """A device, or one of the tokens, as claims name it."""

    name: str
    """A DNS label, which no other one of the node has."""
    resource: str
    id: str
    device: advertised.AnyDevice


def offers(settings: config.Config, devices: Iterable[advertised.AnyDevice]) -> dict[str, Offer]:
    """Return what is offered, by its name."""
    stems = {resource.name: _stem(resource) for resource in settings.resources}
    every = (
        Offer(name=_name(stems[device.resource], each), resource=device.resource, id=each, device=device)
        for device in devices
        for each in device.ids
    )
    return {offer.name: offer for offer in every}


def _stem(resource: config.AnyResource) -> str:
    """Return the beginning of the names of a resource's devices, whatever other resources there are."""
    # A claim knows its device by the name alone. A kind is of one resource, so that KAE's are told apart by it.
    if isinstance(resource, config.Uacce | config.Vfio) and (found := _KAE.fullmatch(resource.name)):
        return found[1]
    plain = re.sub("[^a-z0-9]+", "-", resource.name.partition("/")[2].lower())[:24].strip("-")
    return f"{plain}-{_digest(resource.name)}".strip("-")


def _name(stem: str, device: str) -> str:
    plain = re.sub("[^a-z0-9]+", "-", device.lower()).strip("-")
    if not (pci.ADDRESS.fullmatch(device) or device.isdecimal()):
        # Others, such as paths, may differ in what is not in it.
        plain = f"{plain[: _LONGEST_NAME - len(stem) - 8]}-{_digest(device)}"
    return f"{stem}-{plain}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def device(
    offer: Offer, settings: config.Config, queues: int | None, more: Sequence[health.Reason] = ()
) -> dict[str, Any]:
    """Return a device of a slice, with more reasons than its own for which no other container may be given it now.

    `queues` is how many it has, None where that is not known.
    """
    made: dict[str, Any] = {"name": offer.name, "attributes": dict(_attributes(offer))}
    reasons = [*offer.device.reasons, *more]
    is_shared = settings.dra.queues == "Shared" and _has_queues(offer.device)
    if queues:
        made["capacity"] = {"queues": {"value": str(queues)}}
        if is_shared:
            # Who names no amount, as an extended resource cannot, gets the whole device.
            policy = {"default": str(queues), "validRange": {"min": "1", "step": "1"}}
            made["capacity"]["queues"]["requestPolicy"] = policy
            made["allowMultipleAllocations"] = True
    elif is_shared:
        # Somebody uses it: a claim would get it as a whole, beside those.
        reasons.append(UNCOUNTED)
    if reasons:
        made["taints"] = taints(reasons)
    return made


def _has_queues(device: advertised.AnyDevice) -> bool:
    return isinstance(device, advertised.Device) and not device.function.kind.vfio


def lost(name: str, resource: str) -> dict[str, Any]:
    """Return the device of a claim that is not there any more, as far as it is remembered."""
    attributes = {"resource": {"string": dra.attribute(resource)}}
    return {"name": name, "attributes": attributes, "taints": taints((LOST,))}


def taints(reasons: Sequence[health.Reason]) -> list[dict[str, str]]:
    """Return the taints of a device that no other container may be given now, for these reasons."""
    codes: dict[str, str] = {}
    for reason in reasons:
        codes.setdefault(_TAINTS.get(reason.code, _UNHEALTHY), reason.code)
    return [{"key": key, "value": code, "effect": "NoSchedule"} for key, code in sorted(codes.items())]


def _attributes(offer: Offer) -> Iterator[tuple[str, dict[str, Any]]]:
    yield "resource", {"string": dra.attribute(offer.resource)}
    if offer.device.numa_node is not None:
        yield "numaNode", {"int": offer.device.numa_node}
    address = offer.id.partition("#")[0]
    if pci.ADDRESS.fullmatch(address):
        # Kubernetes' own name (StandardDeviceAttributePCIBusID of dynamic-resource-allocation/deviceattribute).
        yield "resource.kubernetes.io/pciBusID", {"string": address}
    if isinstance(offer.device, advertised.Device):
        yield from _of_function(offer.device)


def _of_function(device: advertised.Device) -> Iterator[tuple[str, dict[str, Any]]]:
    function = device.function
    yield "kind", {"string": function.kind.pci.name}
    yield "virtual", {"bool": function.virtual}
    if function.kind.pci.module:
        yield "module", {"string": function.kind.pci.module}
    if function.entry is None:
        return
    if api := function.entry.api:
        yield "api", {"string": api[:_LONGEST_NAME]}
        # The interface's version is that of the hardware, such as 2 of hisi_qm_v2, in Kunpeng 920.
        if generation := re.search(r"_v([0-9]{1,4})(_|$)", api):
            yield "generation", {"version": f"{int(generation[1])}.0.0"}
    names = (re.sub("[^A-Za-z0-9_]", "_", name) for name in function.entry.algorithms)
    for name in sorted({f"alg_{name}"[:_LONGEST_IDENTIFIER] for name in names})[:_ALGORITHMS]:
        yield name, {"bool": True}


def slices(
    driver: str,
    node: str,
    owner: Mapping[str, Any] | None,
    devices: Sequence[Mapping[str, Any]],
    pool: tuple[int, str],
) -> list[dict[str, Any]]:
    """Return the slices of a node's pool, which are one at least: a pool without devices is one that is known.

    `pool` is its generation, and what their names have that nobody foresees.
    """
    parts = [devices[start : start + SLICE] for start in range(0, len(devices), SLICE)] or [[]]
    generation, suffix = pool
    stem = (
        node if len(node) <= _LONGEST_SLICE_NAME else f"{node[: _LONGEST_SLICE_NAME - 8].rstrip('.-')}-{_digest(node)}"
    )
    return [
        {
            "apiVersion": GROUP,
            "kind": "ResourceSlice",
            "metadata": {
                "name": f"{stem}-{dra.stem(driver)}-{suffix}-{index}",
                **({"ownerReferences": [dict(owner)]} if owner else {}),
            },
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": generation, "resourceSliceCount": len(parts)},
                "devices": list(part),
            },
        }
        for index, part in enumerate(parts)
    ]


def comparable(devices: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return devices without what the API server writes otherwise, or adds: quantities, and when a taint was added."""
    return [
        {
            **device,
            **({"capacity": _numbers(capacity)} if (capacity := device.get("capacity")) else {}),
            **(
                {"taints": [{key: value for key, value in taint.items() if key != "timeAdded"} for taint in own]}
                if (own := device.get("taints"))
                else {}
            ),
        }
        for device in devices
    ]


def _numbers(found: Any) -> Any:
    """Return the quantities in what is decoded from JSON as numbers."""
    if isinstance(found, Mapping):
        return {key: _numbers(value) for key, value in found.items()}
    if isinstance(found, list):
        return [_numbers(value) for value in found]
    if isinstance(found, str):
        with contextlib.suppress(ValueError):
            return quantities.nano(found)
    return found
