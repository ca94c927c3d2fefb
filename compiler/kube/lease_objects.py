"""Leases of coordination.k8s.io/v1 as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SWAP = "device.openfuyao.com/swap"
"""The annotation that a driver installer sets before it unloads a module, and takes away with its name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A Lease; its times are RFC 3339 texts for people only."""

    name: str
    holder: str = ""
    """Empty for a free Lease."""
    acquired: str = ""
    renewed: str = ""
    duration_s: int = 0
    transitions: int = 0
    swap: str = ""
    """The time at which the holder began to swap its driver; such a Lease stays taken, however old it is."""
    version: str = ""
    """The resourceVersion: an update succeeds only while the object still has it. Empty for a new Lease."""
    rest: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    """The whole object as it was read; an update keeps the fields of other writers."""


def parse(raw: Mapping[str, Any]) -> Lease:
    """Return the Lease of an object as the API server prints it."""
    metadata, spec = raw["metadata"], raw.get("spec") or {}
    return Lease(
        name=metadata["name"],
        holder=spec.get("holderIdentity") or "",
        acquired=spec.get("acquireTime") or "",
        renewed=spec.get("renewTime") or "",
        duration_s=spec.get("leaseDurationSeconds") or 0,
        transitions=spec.get("leaseTransitions") or 0,
        swap=(metadata.get("annotations") or {}).get(SWAP, ""),
        version=metadata.get("resourceVersion", ""),
        rest=raw,
    )


def body(lease: Lease) -> dict[str, Any]:
    """Return the object that writes a Lease."""
    own = {
        "holderIdentity": lease.holder,
        "acquireTime": lease.acquired,
        "renewTime": lease.renewed,
        "leaseDurationSeconds": lease.duration_s,
        "leaseTransitions": lease.transitions,
    }
    # The API server leaves out empty fields too.
    others = {key: value for key, value in (lease.rest.get("spec") or {}).items() if key not in own}
    spec = others | {key: value for key, value in own.items() if value}
    metadata = {**lease.rest.get("metadata", {}), "name": lease.name}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key != SWAP}
    metadata["annotations"] = annotations | ({SWAP: lease.swap} if lease.swap else {})
    if lease.version:
        metadata["resourceVersion"] = lease.version
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
