"""A second simulator of rollouts, slow and naive: it shares the values with the first one, and no code.

It has no queue of events. Whatever a host is doing has an end; the next moment is the earliest of these, looked for
among all hosts, and at each moment all rules are looked at anew: which DaemonSet may replace a pod, which budget allows
an eviction, who has a Lease.
"""

import math
from dataclasses import dataclass, field

from compiler.simulation import rollout


@dataclass
class Host:
    """A host, and what it is doing until when."""

    number: int
    known: rollout.Host
    doing: str = "old"
    until: float = math.inf
    has_lease: bool = False
    tries: int = 0
    in_vain: int = 0
    began: float = 0
    """When the evictions of the present drain began."""
    waiting: list[int] = field(default_factory=list)
    """Its pods that are not evicted yet; -1 stands for all without a budget."""
    ending: dict[int, float] = field(default_factory=dict)
    evicted: int = 0
    done: float = math.inf


class Naive:
    """A rollout."""

    def __init__(self, fleet: rollout.Fleet, draws: rollout.Draws) -> None:
        self.fleet, self.draws = fleet, draws
        self.hosts = [Host(number, known) for number, known in enumerate(fleet.hosts)]
        self.by_rank = sorted(self.hosts, key=lambda host: draws.order[host.number])
        self.out: list[tuple[int, float]] = []
        """The budgets of evicted pods, each until its successor is there."""
        self.swaps: list[tuple[float, int]] = []
        self.evictions = 0
        self.most_away = self.most_devices_away = self.most_evicting = 0

    def run(self, longest: float = 1e6) -> None:
        """Run until nothing happens any more, or for so many seconds: those in vain try again for ever."""
        now = 0.0
        for host in self.by_rank:
            if not host.known.rolls:
                self.begin(host, now)
        while now < longest:
            self.replace(now)
            self.evict(now)
            away = [host.known for host in self.hosts if self.is_away(host)]
            self.most_away = max(self.most_away, len(away))
            self.most_devices_away = max(self.most_devices_away, sum(host.devices for host in away))
            evicting = (host.known.free if pod == -1 else 1 for host in self.hosts for pod in host.ending)
            self.most_evicting = max(self.most_evicting, sum(evicting))
            moments = [host.until for host in self.hosts]
            moments += [end for host in self.hosts for end in host.ending.values()]
            moments += [back for _, back in self.out if math.isfinite(back)]
            now = min((moment for moment in moments if moment > now), default=math.inf)
            if math.isinf(now):
                return
            self.out = [(budget, back) for budget, back in self.out if back > now]
            for host in self.by_rank:
                self.end_pods(host, now)
                if host.until <= now:
                    self.step(host, now)

    def is_away(self, host: Host) -> bool:
        return host.doing in ("withdraws", "drains") or (host.doing == "swaps" and host.known.disturbs)

    def begin(self, host: Host, now: float) -> None:
        host.doing, host.until = "starts", now + self.draws.starts[host.number]

    def replace(self, now: float) -> None:
        """Have each DaemonSet replace pods, while fewer than it may are not available."""
        for number, daemon_set in enumerate(self.fleet.daemon_sets):
            own = [host for host in self.by_rank if host.known.daemon_set == number]
            for host in own:
                away = sum(other.doing not in ("old", "available") for other in own)
                if host.doing == "old" and away < daemon_set.most_unavailable:
                    self.begin(host, now)

    def step(self, host: Host, now: float) -> None:
        """Do what follows the end of what a host is doing."""
        doing, host.until = host.doing, math.inf
        follows = {
            "starts": self.started,
            "pauses": self.go_on,
            "is called": self.take,
            "withdraws": self.drain,
            "drains": self.give_up,
            "swaps": self.swapped,
            "settles": self.available,
        }
        follows[doing](host, now)

    def started(self, host: Host, now: float) -> None:
        known = host.known
        if not known.changes:
            self.settle(host, now)
        elif known.disturbs and (known.free or known.pods):
            host.waiting = [*([-1] if known.free else []), *range(len(known.pods))]
            self.ask(host, now)
        else:
            self.swap(host, now)

    def go_on(self, host: Host, now: float) -> None:
        if host.waiting or host.ending:
            self.ask(host, now)
        else:
            self.swap(host, now)

    def drain(self, host: Host, now: float) -> None:
        host.doing, host.until, host.began = "drains", now + host.known.timeout_s, now
        if not host.waiting and not host.ending:
            self.swap(host, now)

    def swapped(self, host: Host, now: float) -> None:
        if self.draws.fails[host.number]:
            host.doing = "failed"
            return
        if host.has_lease:
            self.give_back(host, now)
        self.settle(host, now)

    def available(self, host: Host, _: float) -> None:
        host.doing = "available"

    def settle(self, host: Host, now: float) -> None:
        host.done = now
        host.doing, host.until = "settles", now + self.fleet.daemon_sets[host.known.daemon_set].min_ready_s
        if host.until == now:
            host.doing, host.until = "available", math.inf

    def swap(self, host: Host, now: float) -> None:
        self.swaps.append((now, host.number))
        host.doing, host.until = "swaps", now + self.draws.swaps[host.number]

    def ask(self, host: Host, now: float) -> None:
        number = host.known.leases
        holders = sum(other.has_lease for other in self.hosts if other.known.leases == number)
        if holders < self.fleet.leases[number].number:
            self.take(host, now)
        else:
            host.doing = "queues"

    def take(self, host: Host, now: float) -> None:
        host.has_lease, host.evicted = True, 0
        host.tries += 1
        host.doing, host.until = "withdraws", now + self.draws.withdraws[host.number]

    def give_back(self, host: Host, now: float) -> None:
        host.has_lease = False
        queue = [other for other in self.by_rank if other.doing == "queues" and other.known.leases == host.known.leases]
        if queue:
            chosen = queue[0]
            first = 1 - (1 - self.draws.asks[host.number]) ** (1 / len(queue))
            chosen.doing, chosen.until, chosen.has_lease = "is called", now + first * self.draws.asks_s, True

    def evict(self, now: float) -> None:
        """Evict every pod that may be, those first whose host has drained for longest."""
        draining = [host for host in self.hosts if host.doing == "drains" and host.known.evicts]
        for host in sorted(draining, key=lambda host: host.began):
            for pod in list(host.waiting):
                if pod == -1:
                    self.end_later(host, pod, now + self.draws.ends[host.number], host.known.free)
                    continue
                budgets = host.known.pods[pod].budgets
                out = sum(budget in budgets for budget, _ in self.out)
                if len(budgets) == 1 and out < self.fleet.budgets[budgets[0]].allowed:
                    self.end_later(host, pod, now + self.draws.bound_ends[host.number][pod], 1)
                    self.out.append((budgets[0], math.inf))

    def end_later(self, host: Host, pod: int, at: float, number: int) -> None:
        host.waiting.remove(pod)
        host.ending[pod] = at
        host.evicted += number
        self.evictions += number

    def end_pods(self, host: Host, now: float) -> None:
        for pod, end in list(host.ending.items()):
            if end <= now:
                del host.ending[pod]
                if pod != -1:
                    (budget,) = host.known.pods[pod].budgets
                    self.out.remove((budget, math.inf))
                    self.out.append((budget, now + self.draws.returns[host.number]))
        if host.doing == "drains" and not host.waiting and not host.ending:
            host.until = math.inf
            self.swap(host, now)

    def give_up(self, host: Host, now: float) -> None:
        self.give_back(host, now)
        host.in_vain += host.evicted > 0
        if host.in_vain == rollout.DISTURBANCES and host.evicted:
            host.doing = "tired"
        else:
            pause = min(rollout.PAUSE_S * 2 ** (host.tries - 1), rollout.LONGEST_PAUSE_S)
            host.doing, host.until = "pauses", now + pause
