"""One run of a rollout: who begins, waits, drains, swaps and is Ready, and when, from draws made beforehand.

It follows three programs. The DaemonSet controller replaces pods while fewer than maxUnavailable are not available
(`rollingUpdate` of pkg/controller/daemon/update.go, which takes available nodes in the random order of a Go map), and
makes all pods of nodes that come to a DaemonSet at once. An installer stages, takes a Lease where devices are held,
drains, swaps, and gives the Lease back; a failed swap keeps it (installer/change, installer/loop.py). The API server
refuses an eviction that a budget does not allow, and each of a pod with several budgets (the eviction of pkg/registry).
"""

import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

ASKS_S = 12.5
"""The pause between two questions for a Lease: 10 to 15 seconds, by the node's name (installer/loop.py)."""

PAUSE_S = 600
"""The pause after the first drain in vain; it doubles, up to the longest one (installer/loop.py)."""

LONGEST_PAUSE_S = 7200
DISTURBANCES = 3
"""The drains in vain that evicted pods, after which nothing is tried again."""


class DaemonSet(msgspec.Struct, frozen=True, kw_only=True):
    """A DaemonSet whose pods come or are replaced."""

    name: str
    most_unavailable: int
    """In pods."""
    min_ready_s: float


class Leases(msgspec.Struct, frozen=True, kw_only=True):
    """The Leases of a policy."""

    policy: str
    recipe: str
    number: int


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """A PodDisruptionBudget."""

    name: str
    """With its namespace."""
    allowed: int
    """The evictions that it allows while all of its pods are there."""


class Pod(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that holds a device and has budgets."""

    name: str
    budgets: tuple[int, ...]
    """By their numbers in the fleet."""
    grace_s: float


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """A node on which a pod of a DaemonSet comes or is replaced."""

    node: str
    daemon_set: int
    """Its number in the fleet."""
    rolls: bool
    """True where the controller replaces the pod in its turn; False where it makes one at once."""
    changes: bool
    """True where the installer changes the driver; False where only a pod is replaced."""
    disturbs: bool = False
    """True where no pod may hold a device meanwhile."""
    stages: bool = False
    """True where the driver is staged first."""
    leases: int = 0
    """The number in the fleet of the Leases that it needs where a pod holds a device."""
    devices: int = 0
    """What it offers to pods, sharing included."""
    free: int = 0
    """The pods that hold a device and have no budget."""
    grace_s: float = 30
    """The longest grace of these."""
    pods: tuple[Pod, ...] = ()
    """The other pods that hold a device."""
    evicts: bool = True
    """False where its pods are waited for, and none is evicted."""
    timeout_s: float = 300

    @property
    def held(self) -> bool:
        """True where a pod holds a device."""
        return bool(self.free or self.pods)


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """What a change does to the nodes of a cluster."""

    hosts: tuple[Host, ...] = ()
    daemon_sets: tuple[DaemonSet, ...] = ()
    leases: tuple[Leases, ...] = ()
    budgets: tuple[Budget, ...] = ()

    def never_drained(self, host: Host) -> bool:
        """Return whether a host's pods never go: as none is evicted, or no budget ever allows it."""
        if not host.evicts:
            return host.held
        return any(self.never_evicted(pod) for pod in host.pods)

    def never_evicted(self, pod: Pod) -> bool:
        """Return whether the API server refuses each eviction of a pod."""
        return len(pod.budgets) > 1 or any(not self.budgets[each].allowed for each in pod.budgets)


class Draws(msgspec.Struct, frozen=True, kw_only=True):
    """What chance decides in a run, by the number of a host."""

    order: Sequence[int]
    """A rank for each: of the hosts whose turn may be next, the lowest is."""
    starts: Sequence[float]
    """Seconds until its new pod runs, and has staged the driver."""
    withdraws: Sequence[float]
    """Seconds from its turn until devices are withdrawn, and evictions begin."""
    ends: Sequence[float]
    """Seconds until the last of its pods without a budget has ended."""
    bound_ends: Sequence[tuple[float, ...]]
    """Seconds until each of its pods with budgets has ended."""
    returns: Sequence[float]
    """Seconds until the successor of such a pod counts for its budgets."""
    swaps: Sequence[float]
    """Seconds of the change itself."""
    fails: Sequence[bool]
    """True where the change fails, each time that it is tried."""
    asks: Sequence[float]
    """From 0 to 1: how soon after its end the next host asks for the Lease."""
    asks_s: float = ASKS_S
    """The pause between two questions of a host."""


Fate = Literal["", "failed", "undrained", "tired"]
"""Why a host is not done: its change failed, its pods never go, or it evicted pods in vain too often; or it waits."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run."""

    done: Sequence[float]
    """Seconds until each host is done; infinite where it never is."""
    turns: Sequence[int]
    """The hosts in the order in which they began to swap."""
    fates: Sequence[Fate]
    begun: Sequence[bool]
    """False for hosts to which the DaemonSet controller never comes."""
    lost: Sequence[int]
    """Of the Leases of each policy, those that failed hosts keep."""
    held_s: Sequence[float]
    """The seconds for which the Leases of each policy were held, all of them together."""
    evictions: int
    most_evicting: int
    most_away: int
    """Hosts at once without their devices."""
    most_devices_away: int


def run(fleet: Fleet, draws: Draws) -> Run:
    """Return how a rollout goes with these draws."""
    return _Run(fleet, draws).result()


def first_ask_s(drawn: float, waiting: int, pause_s: float = ASKS_S) -> float:
    """Return the seconds until the first of so many hosts asks, each at any moment of its pause."""
    return pause_s * float(1 - (1 - drawn) ** (1 / waiting))


_Act = Callable[[float, int, int], None]
"""What happens at a time to a host; the last number says more, as which pod."""


class _Run:
    """The state of a run."""

    def __init__(self, fleet: Fleet, draws: Draws) -> None:
        self.fleet, self.draws, number = fleet, draws, len(fleet.hosts)
        self.events: list[tuple[float, int, _Act, int, int]] = []
        self.pushed = 0
        self.hopeful = 0
        """Hosts begun that may still be done, and pods that are to be available: without any, nothing new happens."""
        self.done = [math.inf] * number
        self.fates: list[Fate] = [""] * number
        self.begun = [False] * number
        self.never = [fleet.never_drained(host) for host in fleet.hosts]
        self.turns: list[int] = []
        self.free = [each.number for each in fleet.leases]
        self.lost = [0] * len(fleet.leases)
        self.held_s = [0.0] * len(fleet.leases)
        self.queues: list[list[tuple[int, int]]] = [[] for _ in fleet.leases]
        self.unavailable = [0] * len(fleet.daemon_sets)
        self.next: list[deque[int]] = [deque() for _ in fleet.daemon_sets]
        # Of the drain of a host: its tries and evictions, and the pods that are left.
        self.tries, self.tired, self.evicted = [0] * number, [0] * number, [0] * number
        self.draining = [False] * number
        self.leases_held = [False] * number
        self.left: dict[int, set[int]] = {}
        self.ending: set[tuple[int, int]] = set()
        self.allowed = [each.allowed for each in fleet.budgets]
        self.refused: list[deque[tuple[int, int, int]]] = [deque() for _ in fleet.budgets]
        self.evictions = self.evicting = self.most_evicting = 0
        self.away = self.most_away = self.devices_away = self.most_devices_away = 0

    def result(self) -> Run:
        hosts, rank = self.fleet.hosts, self.draws.order
        for index in sorted(range(len(hosts)), key=rank.__getitem__):
            host = hosts[index]
            if host.rolls:
                self.next[host.daemon_set].append(index)
            else:
                self.unavailable[host.daemon_set] += 1
                self._begin(0, index)
        for number in range(len(self.next)):
            self._replace(0, number)
        while self.events and self.hopeful:
            at, _, act, index, more = heapq.heappop(self.events)
            act(at, index, more)
        return Run(
            done=self.done,
            turns=self.turns,
            fates=self.fates,
            begun=self.begun,
            lost=self.lost,
            held_s=self.held_s,
            evictions=self.evictions,
            most_evicting=self.most_evicting,
            most_away=self.most_away,
            most_devices_away=self.most_devices_away,
        )

    def _push(self, at: float, act: _Act, index: int, more: int = 0) -> None:
        self.pushed += 1
        heapq.heappush(self.events, (at, self.pushed, act, index, more))

    def _replace(self, at: float, number: int) -> None:
        """Replace pods of a DaemonSet while enough of them are available."""
        waiting, most = self.next[number], self.fleet.daemon_sets[number].most_unavailable
        while waiting and self.unavailable[number] < most:
            self.unavailable[number] += 1
            self._begin(at, waiting.popleft())

    def _begin(self, at: float, index: int) -> None:
        self.begun[index] = True
        self.hopeful += 1
        self._push(at + self.draws.starts[index], self._staged, index)

    def _staged(self, at: float, index: int, _: int) -> None:
        host = self.fleet.hosts[index]
        if not host.changes:
            self._settled(at, index)
        elif not host.disturbs:
            self._swap(at, index)
        elif not host.held:
            self._leaves(index)
            self._swap(at, index)
        else:
            self._hopeless(index, is_so=self.never[index], fate="undrained")
            self._ask(at, index, 0)

    def _hopeless(self, index: int, *, is_so: bool, fate: Fate = "") -> None:
        """Count a host no more that can never be done."""
        if is_so:
            self.hopeful -= 1
            self.fates[index] = fate

    def _ask(self, at: float, index: int, _: int) -> None:
        number = self.fleet.hosts[index].leases
        if self.left.get(index) == set():  # Its pods have ended since the drain in vain.
            self._leaves(index)
            self._swap(at, index)
            return
        if self.free[number]:
            self.free[number] -= 1
            self._granted(at, index, 0)
            return
        heapq.heappush(self.queues[number], (self.draws.order[index], index))
        self._hopeless(index, is_so=self._is_lost(number) and not self.fates[index])

    def _is_lost(self, number: int) -> bool:
        return self.lost[number] == self.fleet.leases[number].number

    def _give_back(self, at: float, index: int) -> None:
        """Give the Lease back; of those who wait, each asks at a moment of its own, and the first takes it."""
        number, self.leases_held[index] = self.fleet.hosts[index].leases, False
        self.held_s[number] += at
        queue = self.queues[number]
        if not queue:
            self.free[number] += 1
            return
        wait_s = first_ask_s(self.draws.asks[index], len(queue), self.draws.asks_s)
        self._push(at + wait_s, self._granted, heapq.heappop(queue)[1])

    def _leaves(self, index: int) -> None:
        self.away += 1
        self.devices_away += self.fleet.hosts[index].devices
        self.most_away = max(self.most_away, self.away)
        self.most_devices_away = max(self.most_devices_away, self.devices_away)

    def _returns(self, index: int) -> None:
        self.away -= 1
        self.devices_away -= self.fleet.hosts[index].devices

    def _granted(self, at: float, index: int, _: int) -> None:
        host, starts = self.fleet.hosts[index], at + self.draws.withdraws[index]
        self.leases_held[index] = True
        self.held_s[host.leases] -= at
        self._leaves(index)
        self.tries[index] += 1
        self.evicted[index] = 0
        self.left.setdefault(index, {*range(-1 if host.free else 0, len(host.pods))})
        if host.evicts and not host.pods and self.draws.ends[index] < host.timeout_s:
            self.draining[index] = True
            self._push(starts, self._accepted, index, -1)  # As on most hosts: nothing is in the way of it.
        else:
            self._push(starts, self._drain, index)

    def _drain(self, at: float, index: int, _: int) -> None:
        host, left = self.fleet.hosts[index], sorted(self.left[index])
        self.draining[index] = True
        if not left:
            self._drained(at, index)
            return
        self._push(at + host.timeout_s, self._deadline, index, self.tries[index])
        for pod in left if host.evicts else ():
            if (index, pod) not in self.ending:
                self._evict(at, index, pod)

    def _evict(self, at: float, index: int, pod: int) -> None:
        if pod == -1:
            self._accepted(at, index, pod)
            return
        known = self.fleet.hosts[index].pods[pod]
        if self.fleet.never_evicted(known):
            return
        (budget,) = known.budgets
        if self.allowed[budget]:
            self.allowed[budget] -= 1
            self._accepted(at, index, pod)
        else:
            self.refused[budget].append((index, pod, self.tries[index]))

    def _accepted(self, at: float, index: int, pod: int) -> None:
        number = self._size(index, pod)
        self.ending.add((index, pod))
        self.evicted[index] += number
        self.evictions += number
        self.evicting += number
        self.most_evicting = max(self.most_evicting, self.evicting)
        ends_s = self.draws.ends[index] if pod == -1 else self.draws.bound_ends[index][pod]
        self._push(at + ends_s, self._ended, index, pod)

    def _size(self, index: int, pod: int) -> int:
        return self.fleet.hosts[index].free if pod == -1 else 1

    def _ended(self, at: float, index: int, pod: int) -> None:
        self.evicting -= self._size(index, pod)
        self.ending.discard((index, pod))
        left = self.left[index]
        left.discard(pod)
        if pod != -1:
            self._push(at + self.draws.returns[index], self._came, index, pod)
        if not left and self.draining[index]:
            self._drained(at, index)

    def _came(self, at: float, index: int, pod: int) -> None:
        """Have the successor of an evicted pod count for its budget, and evict the next pod of it."""
        (budget,) = self.fleet.hosts[index].pods[pod].budgets
        self.allowed[budget] += 1
        waiting = self.refused[budget]
        while waiting and self.allowed[budget]:
            other, which, number = waiting.popleft()
            if self.draining[other] and self.tries[other] == number:
                self.allowed[budget] -= 1
                self._accepted(at, other, which)

    def _deadline(self, at: float, index: int, number: int) -> None:
        """End a drain in vain: the driver stays, the Lease is given back, and the next try is after a pause."""
        if not self.draining[index] or self.tries[index] != number:
            return
        self.draining[index] = False
        self._returns(index)
        self._give_back(at, index)
        self.tired[index] += bool(self.evicted[index])
        if self.tired[index] == DISTURBANCES and self.evicted[index]:
            self._hopeless(index, is_so=not self.fates[index], fate="tired")
        else:
            self._push(at + min(PAUSE_S * 2 ** (number - 1), LONGEST_PAUSE_S), self._ask, index)

    def _drained(self, at: float, index: int) -> None:
        self.draining[index] = False
        self._swap(at, index)

    def _swap(self, at: float, index: int) -> None:
        self.turns.append(index)
        self._push(at + self.draws.swaps[index], self._swapped, index)

    def _swapped(self, at: float, index: int, _: int) -> None:
        host = self.fleet.hosts[index]
        if host.disturbs:
            self._returns(index)
        if self.draws.fails[index]:
            self._failed(index)
            return
        if self.leases_held[index]:
            self._give_back(at, index)
        self._settled(at, index)

    def _failed(self, index: int) -> None:
        """Leave a host as it was, with its Lease, which halts the others."""
        self._hopeless(index, is_so=True, fate="failed")
        if not self.leases_held[index]:
            return
        number = self.fleet.hosts[index].leases
        self.lost[number] += 1
        if self._is_lost(number):
            self.hopeful -= sum(not self.fates[other] for _, other in self.queues[number])

    def _settled(self, at: float, index: int) -> None:
        self.done[index] = at
        number = self.fleet.hosts[index].daemon_set
        self._push(at + self.fleet.daemon_sets[number].min_ready_s, self._available, index)

    def _available(self, at: float, index: int, _: int) -> None:
        self.hopeful -= 1
        number = self.fleet.hosts[index].daemon_set
        self.unavailable[number] -= 1
        self._replace(at, number)
