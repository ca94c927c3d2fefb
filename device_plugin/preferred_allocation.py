"""Which of the devices that are left a container should get: GetPreferredAllocation.

The order of wishes: what the kubelet has given already; different devices rather than shares of one; one NUMA node
rather than several; then devices that others use little (Balanced) or much (Packed). An answer that is an error would
reject the pod, so there is none: an id that is not known is a device without a node and without free queues.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from device_plugin import advertised


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What the kubelet asks: `size` of the available ids, the ones that it must have among them."""

    available: Sequence[str]
    required: Sequence[str]
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Where a device is, and how much of it is free."""

    numa_node: int | None = None
    free_queues: int = 0


def preferred(wish: Wish, loads: Mapping[str, Load], *, packed: bool) -> tuple[str, ...]:
    """The ids to give, at most `size`; `loads` by PCI address."""
    chosen = list(dict.fromkeys(wish.required))[: max(wish.size, 0)]
    shares: dict[str, list[str]] = {}
    for replica in sorted(set(wish.available) - set(chosen), reverse=True):
        shares.setdefault(advertised.address_of(replica), []).append(replica)
    while len(chosen) < wish.size and shares:
        ranks = _Ranks(chosen=chosen, shares=shares, loads=loads, missing=wish.size - len(chosen), packed=packed)
        best = min(sorted(shares), key=ranks.of)
        chosen.append(shares[best].pop())
        if not shares[best]:
            del shares[best]
    return tuple(chosen)


class _Ranks:
    """The order of the devices that are left, at one step of the choice."""

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
        """Smaller is better."""
        load = self._load(address)
        room = self._unused[load.numa_node]
        return (
            self._given[address],
            # Stay where the first ones are; else begin where most of the rest has room, packed where it just fits.
            int(bool(self._nodes) and load.numa_node not in self._nodes),
            -min(room, self._missing),
            self._sign * room,
            # Shares that are left: a device that others use little has many.
            self._sign * len(self._shares[address]),
            self._sign * load.free_queues,
        )

    def _load(self, address: str) -> Load:
        return self._loads.get(address, Load())
