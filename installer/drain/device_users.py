"""The users of the host's devices, and their drain."""

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msgspec.structs import replace

from installer.decide import desired, driver_class
from installer.drain import cluster, device_holders, programs
from installer.host import chroot, host_state, pci
from runtime import driver_config, errors, process, pulse

LOG = logging.getLogger(__name__)

POLL_S = 1.0
"""The pause between two looks at the holders."""

AGAIN_S = 5.0
"""The pause before a refused eviction, or an API server that does not answer, is tried again."""

_PAUSES_S = {
    # A pod of the same name, as of a StatefulSet, may have started since.
    cluster.Outcome.ACCEPTED: 60.0,
    cluster.Outcome.GONE: 60.0,
    cluster.Outcome.NOT_NOW: AGAIN_S,
    cluster.Outcome.FORBIDDEN: math.inf,
}


@dataclass(kw_only=True)
class Drain:
    """A drain, which runs once."""

    find: Callable[[], device_holders.Holders]
    evict: Callable[[str, str, str], cluster.EvictionAnswer]
    """As `cluster.Cluster.evict`."""
    check: Callable[[], object]
    """Called before each look and each eviction; a failure that it raises, as for a lost Lease, ends the drain."""
    deadline_s: float
    """Seconds from the beginning of the run."""
    enabled: bool
    """False: no pod is evicted, and the drain only waits."""
    stop: threading.Event
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] | None = None
    """Waits for these seconds, or until `stop` is set."""
    _held: device_holders.Holders = field(default_factory=device_holders.Holders, init=False)
    _answers: dict[tuple[str, str], tuple[cluster.EvictionAnswer, float]] = field(default_factory=dict, init=False)
    """The last answer and the time of the next request, by name and uid of the pod."""
    _api_note: str = field(default="", init=False)
    _api_next_s: float = field(default=-math.inf, init=False)

    def run(self) -> device_holders.Holders | None:
        """Return None when no device is held, or the holders at the deadline; none of them if they are unknown.

        The notes are the reasons of the budgets and of the API server. Raises `Cancelled`, and what `check` raises.
        """
        pause = self.pause or self.stop.wait
        end_s = self.clock() + self.deadline_s
        while True:
            if self.stop.is_set():
                raise process.Cancelled("The drain was interrupted, as the installer ends.")
            self.check()
            if self._nobody():
                return None
            if self.clock() >= end_s:
                return replace(self._held, notes=self._notes())
            if self.enabled and not self._others():
                self._evict(end_s)
            pause(max(0.0, min(POLL_S, end_s - self.clock())))

    def _nobody(self) -> bool:
        """Return whether it is certain that no device is held."""
        try:
            self._held = self.find()
        except errors.Failure as failure:
            self._held = replace(self._held, notes=(str(failure),))
            return False
        return not self._held.holders

    def _others(self) -> bool:
        """Return whether a holder is of no pod; a process whose pod has no known name is of one."""
        return not all(holder.pod or holder.uid for holder in self._held.holders)

    def _evict(self, end_s: float) -> None:
        """Request the evictions that are due."""
        for holder in self._held.holders:
            now_s = self.clock()
            # While the API server does not answer, one request per look is enough, as each takes its time.
            if self.stop.is_set() or now_s >= end_s or now_s < self._api_next_s:
                return
            _, next_s = self._answers.get((holder.pod, holder.uid), (None, now_s))
            if holder.pod and now_s >= next_s:
                self.check()
                self._ask(holder)

    def _ask(self, holder: device_holders.Holder) -> None:
        namespace, _, name = holder.pod.partition("/")
        pulse.beat()  # Each may take as long as a slow API server does.
        try:
            answer = self.evict(namespace, name, holder.uid)
        except cluster.Unreachable as failure:
            if not self._api_note:
                LOG.warning("The API server cannot be asked for evictions.", extra={"reason": str(failure)})
            self._api_note, self._api_next_s = str(failure), self.clock() + AGAIN_S
            return
        except cluster.Refused as failure:
            answer = cluster.EvictionAnswer(outcome=cluster.Outcome.NOT_NOW, reason=str(failure))
        self._api_note = ""
        known = (holder.pod, holder.uid)
        if known not in self._answers or answer != self._answers[known][0]:
            fields = {"pod": holder.pod, "answer": answer.outcome.value, "reason": answer.reason}
            LOG.info("A pod's eviction was asked for.", extra=fields)
        self._answers[known] = answer, self.clock() + _PAUSES_S[answer.outcome]

    def _notes(self) -> tuple[str, ...]:
        pods = [holder for holder in self._held.holders if holder.pod]
        waits = () if self.enabled else ("No pod is evicted, as the policy's drain is not enabled.",)
        if self.enabled and pods and self._others():
            waits = ("No pod is evicted while a holder is no pod: end that one first.",)
        answers = [(pod.pod, self._answers[pod.pod, pod.uid][0]) for pod in pods if (pod.pod, pod.uid) in self._answers]
        refusals = (f"The pod {pod} is not evicted: {answer.reason}" for pod, answer in answers if answer.reason)
        return (*waits, *filter(None, (self._api_note,)), *self._held.notes, *refusals)


_NAMED = 8
"""The number of holders that a sentence names; a shared device may have 128."""


class Blocked(errors.Failure):
    """A device is still held."""


class Spared(Blocked):
    """The change waits for what people may end at any time, and no pod is evicted for it."""


@dataclass
class DeviceUsers:
    """The pods that were given a device, and the processes that have one open."""

    _host: chroot.Host
    _settings: driver_config.Config
    _api: cluster.Cluster
    _kubelet: Path
    """Its root folder on the host."""
    _programs: programs.Programs
    evictions: int = 0

    def present(self, current: host_state.HostState) -> tuple[str, ...]:
        """Return the device holders, each in words; raise `Failure` if the kubelet does not answer.

        Programs that come after the driver are none: no pod of others is disturbed as they go.
        """
        return tuple(holder.text for holder in self._programs.without(self._find(current).holders))

    def openers(self) -> tuple[str, ...]:
        """Return who has a device open now, in words, without the kubelet; raise `Failure` if they are unknown."""
        return tuple(
            holder.text
            for holder in device_holders.find_processes(
                self._host, pci.devices(self._host, self._settings).values(), self._counting
            )
        )

    def take_programs(self, check: Callable[[], object]) -> None:
        """Delete the pods of programs that come after the driver; raise as `drain` does."""
        if left := self._programs.take_away(check):
            raise Blocked(f"After {self._settings.drain.timeout_seconds} s: {left} The driver stays as it was.")

    def drain(self, current: host_state.HostState, check: Callable[[], object]) -> None:
        """Evict the pods, and wait until no device is held; raise `Blocked` at the end, or what `check` raises."""
        # `check` is called before each look and each eviction.
        limit_s = self._settings.drain.timeout_seconds
        ended = Drain(
            find=lambda: self._find(current),
            evict=self._evict,
            deadline_s=limit_s,
            enabled=self._settings.drain.enabled,
            stop=self._host.stop,
            check=check,
        ).run()
        if ended is not None:
            first = sorted(ended.holders, key=lambda holder: bool(holder.pod))  # Who blocks.
            who = listed([holder.text for holder in first]) or "an unknown holder"
            notes = "".join(f" {note}" for note in ended.notes[:_NAMED])
            raise Blocked(f"After {limit_s} s a device is still held by {who}.{notes} The driver stays as it was.")

    @property
    def _counting(self) -> tuple[str, ...]:
        return driver_class.of(self._settings).counting

    def _evict(self, namespace: str, pod: str, uid: str) -> cluster.EvictionAnswer:
        answer = self._api.evict(namespace, pod, uid)
        self.evictions += answer.outcome is cluster.Outcome.ACCEPTED
        return answer

    def _find(self, current: host_state.HostState) -> device_holders.Holders:
        resources, entries = desired.resources(self._settings, current.record), current.devices.values()
        found = device_holders.find(self._host, resources, entries, self._kubelet, self._counting)
        guests = (
            f"virtual function {function.address} (driver {function.driver}, as for a virtual machine)"
            for function in pci.guests(pci.functions(self._host, self._settings))
        )
        return replace(found, holders=(*found.holders, *(device_holders.Holder(text=guest) for guest in guests)))


def listed(texts: Sequence[str]) -> str:
    """Return the first of these, and the number of the others."""
    more = len(texts) - _NAMED
    return ", ".join(texts[:_NAMED]) + (f", and {more} more" if more > 0 else "")
