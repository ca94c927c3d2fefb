"""Choose the devices that a container should get: GetPreferredAllocation.

The order of preference: the ids that the kubelet requires; different devices before shares of one; one NUMA node before
several; then the devices that others use least (Balanced) or most (Packed). An error would make the kubelet reject the
pod, so there is none: an unknown id counts as a device without NUMA node and free queues.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from device_plugin.kubelet import advertised


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The kubelet's request: `size` of the available ids, including the required ones."""

    available: Sequence[str]
    required: Sequence[str]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
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
        ranks = _Ranks(chosen=chosen, shares=shares, loads=loads, missing=request.size - len(chosen), packed=packed)
        best = min(sorted(shares), key=ranks.of)
        chosen.append(shares[best].pop())
        if not shares[best]:
            del shares[best]
    return tuple(chosen)


class _Ranks:
    """The order of the remaining devices, at one step of the choice."""

    def __init__(
        self,
        *,
        chosen: Sequence[str],
        shares: Mapping[str, Sequence[str]],
        loads: Mapping[str, Load],
        missing: int,
        packed: bool,
    ) -> None:
        self._given = Counter(advertised.address_of(replica) for replica in chosen)
        self._shares = shares
        self._loads = loads
        self._missing = missing
        self._sign = 1 if packed else -1
        self._nodes = {self._load(address).numa_node for address in self._given}
        self._unused = Counter(self._load(address).numa_node for address in shares if not self._given[address])

    def of(self, address: str) -> tuple[int, ...]:
        """Return the rank of a device; smaller is better."""
        load = self._load(address)
        unused = self._unused[load.numa_node]
        return (
            self._given[address],
            # Stay on the nodes of the first ones; else begin where most of the rest fits, packed where it just fits.
            int(bool(self._nodes) and load.numa_node not in self._nodes),
            -min(unused, self._missing),
            self._sign * unused,
            # Remaining shares: a device that others use little has many.
            self._sign * len(self._shares[address]),
            self._sign * load.free_queues,
        )

    def _load(self, address: str) -> Load:
        return self._loads.get(address, Load())
