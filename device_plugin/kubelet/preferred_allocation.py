"""Choose the devices that a container should get: GetPreferredAllocation.

The order of preference: the ids that the kubelet requires; different devices before shares of one; one NUMA node before
several; then the devices that others use least (Balanced) or most (Packed). An error would make the kubelet reject the
pod, so there is none: an unknown id counts as a device without NUMA node and free queues.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from device_plugin.kubelet import advertised


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The kubelet's request: `size` of the available ids, including the required ones."""

    available: Sequence[str]
    required: Sequence[str]
    size: int


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """The NUMA node and the free queues of a device."""

    numa_node: int | None = None
    free_queues: int = 0


def preferred(request: Request, loads: Mapping[str, Load], *, packed: bool) -> tuple[str, ...]:
    """Return the ids to allocate, at most `size`; `loads` is by PCI address."""
    chosen = list(dict.fromkeys(request.required))[: max(request.size, 0)]
    shares: dict[str, list[str]] = {}
    for replica in sorted(set(request.available) - set(chosen), reverse=True):
        shares.setdefault(advertised.address_of(replica), []).append(replica)
    while len(chosen) < request.size and shares:
        best = _best(chosen, shares, loads, request.size - len(chosen), packed=packed)
        chosen.append(shares[best].pop())
        if not shares[best]:
            del shares[best]
    return tuple(chosen)


def _best(
    chosen: Sequence[str], shares: Mapping[str, Sequence[str]], loads: Mapping[str, Load], missing: int, *, packed: bool
) -> str:
    """Return the device to take a share of next, of those that have some left."""
    given = Counter(map(advertised.address_of, chosen))
    known = {address: loads.get(address, Load()) for address in (*given, *shares)}
    nodes = {known[address].numa_node for address in given}
    unused = Counter(known[address].numa_node for address in shares if not given[address])
    sign = 1 if packed else -1

    def rank(address: str) -> tuple[int, ...]:
        numa_node = known[address].numa_node
        return (
            given[address],
            # Stay on the nodes of the first ones; else begin where most of the rest fits, packed where it just fits.
            int(bool(nodes) and numa_node not in nodes),
            -min(unused[numa_node], missing),
            sign * unused[numa_node],
            # Remaining shares: a device that others use little has many.
            sign * len(shares[address]),
            sign * known[address].free_queues,
        )

    return min(sorted(shares), key=rank)
