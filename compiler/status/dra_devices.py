"""The devices that nodes offer by Dynamic Resource Allocation: those of the plan beside those of ResourceSlices."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from compiler.planning import plan
from runtime import dra

API_VERSION = "resource.k8s.io/v1"

_HELD = frozenset({dra.GIVEN_BY_DEVICE_PLUGIN, dra.GIVEN_BY_CLAIM})


class Devices(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """The devices of a resource on a node."""

    node: str
    resource: str
    planned: int | None
    """None where only the node itself knows."""
    published: int
    unhealthy: int
    """Those of the published ones with a taint, by which nobody gets them."""


def drivers(decisions: Iterable[plan.Decision]) -> list[str]:
    """Return the drivers of DRA of planned nodes."""
    return sorted({one.recipe.home.dra_driver for one in decisions if one.interface == "DRA"})


def of_nodes(decisions: Sequence[plan.Decision], slices: Iterable[Mapping[str, Any]]) -> tuple[Devices, ...]:
    """Return the devices of all nodes whose planned interface is DRA, by the slices of the drivers."""
    published, unhealthy = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for spec in _newest(slices):
        for device in spec.get("devices") or ():
            named = (device.get("attributes") or {}).get("resource") or {}
            key = (spec.get("nodeName") or "", spec["driver"], named.get("string") or "")
            published[key] += 1
            unhealthy[key] += any(taint.get("key") not in _HELD for taint in device.get("taints") or ())
    return tuple(
        sorted(
            Devices(node=node, resource=resource, planned=count, published=published[key], unhealthy=unhealthy[key])
            for one in decisions
            if one.interface == "DRA"
            for node in one.names
            for resource, count in one.resources
            for key in ((node, one.recipe.home.dra_driver, dra.attribute(resource)),)
        )
    )


def _newest(slices: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the specs of slices without those of a pool's older generations, which the scheduler leaves out too."""
    specs = [each["spec"] for each in slices]
    last: dict[tuple[str, str], int] = {}
    for spec in specs:
        pool = (spec["driver"], spec["pool"]["name"])
        last[pool] = max(last.get(pool, 0), spec["pool"]["generation"])
    return [spec for spec in specs if spec["pool"]["generation"] == last[spec["driver"], spec["pool"]["name"]]]
