"""Has those who hold a device let go of it: pods are asked for by eviction, everybody is waited for, up to a deadline.

Who may be asked to go, and at which pace, is the disruption budgets' to say; nothing is ever deleted or killed here.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from installer.drain import cluster, device_holders
from runtime import errors, process

LOG = logging.getLogger(__name__)

POLL_S = 1.0
"""Between two looks at who holds a device."""

AGAIN_S = 5.0
"""Until a pod that could not be evicted is asked for again, and until an API server that is gone is."""

_PAUSES_S = {
    # One of the same name, as of a StatefulSet, may have come since.
    cluster.Outcome.ACCEPTED: 60.0,
    cluster.Outcome.GONE: 60.0,
    cluster.Outcome.NOT_NOW: AGAIN_S,
    cluster.Outcome.FORBIDDEN: math.inf,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """Nobody holds a device."""

    waited_s: float
    notes: tuple[str, ...] = ()
    """What could not be looked at, in sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stayed:
    """The deadline passed before everybody had let go."""

    holders: tuple[device_holders.Holder, ...]
    """Those who were seen last; nobody where it was not known."""
    notes: tuple[str, ...]
    """Why: what the budgets and the API server said, in sentences."""


@dataclass(kw_only=True)
class Drain:
    """A drain, to be run once."""

    find: Callable[[], device_holders.Found]
    evict: Callable[[str, str], cluster.Answer]
    """As `cluster.Cluster.evict`."""
    deadline_s: float
    """From the beginning of the run."""
    enabled: bool
    """False: nobody is evicted, all are waited for."""
    stop: threading.Event
    """Breaks the drain off."""
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], object] | None = None
    """Waits so many seconds, or until `stop` is set."""
    told: Callable[[device_holders.Found], object] | None = None
    """Told of all that is found, so that people can see who is waited for."""
    _found: device_holders.Found = field(default_factory=device_holders.Found, init=False)
    _answers: dict[str, cluster.Answer] = field(default_factory=dict, init=False)
    _next_s: dict[str, float] = field(default_factory=dict, init=False)
    """When to ask for a pod again."""
    _api_note: str = field(default="", init=False)
    _api_next_s: float = field(default=-math.inf, init=False)

    def run(self) -> Drained | Stayed:
        """Returns when nobody holds a device, or at the deadline.

        Raises:
            process.Cancelled: `stop` was set.
        """
        pause = self.pause or self.stop.wait
        began_s = self.clock()
        end_s = began_s + self.deadline_s
        while True:
            if self.stop.is_set():
                raise process.Cancelled("The drain was broken off, as the installer is to end.")
            if self._nobody():
                return Drained(waited_s=self.clock() - began_s, notes=self._found.notes)
            if self.clock() >= end_s:
                return Stayed(holders=self._found.holders, notes=self._notes())
            if self.enabled:
                self._evict(end_s)
            pause(max(0.0, min(POLL_S, end_s - self.clock())))

    def _nobody(self) -> bool:
        """Whether certainly nobody holds a device."""
        try:
            self._found = self.find()
            certain = True
        except errors.Failure as failure:
            self._found = replace(self._found, notes=(str(failure),))
            certain = False
        if self.told is not None:
            self.told(self._found)
        return certain and not self._found.holders

    def _evict(self, end_s: float) -> None:
        """Asks for each pod whose time has come."""
        for pod in self._found.holders:
            now_s = self.clock()
            # While nobody answers, one is enough: each question takes its time.
            if self.stop.is_set() or now_s >= end_s or now_s < self._api_next_s:
                return
            if isinstance(pod, device_holders.Pod) and now_s >= self._next_s.get(pod.key, now_s):
                self._ask(pod)

    def _ask(self, pod: device_holders.Pod) -> None:
        try:
            answer = self.evict(pod.namespace, pod.name)
        except cluster.Unreachable as failure:
            if not self._api_note:
                LOG.warning("The API server cannot be asked for evictions.", extra={"reason": str(failure)})
            self._api_note, self._api_next_s = str(failure), self.clock() + AGAIN_S
            return
        except cluster.Refused as failure:
            answer = cluster.Answer(outcome=cluster.Outcome.NOT_NOW, reason=str(failure))
        self._api_note = ""
        if answer != self._answers.get(pod.key):
            fields = {"pod": pod.key, "answer": answer.outcome.value, "reason": answer.reason}
            LOG.info("A pod's eviction was asked for.", extra=fields)
        self._answers[pod.key] = answer
        self._next_s[pod.key] = self.clock() + _PAUSES_S[answer.outcome]

    def _notes(self) -> tuple[str, ...]:
        waits = () if self.enabled else ("Nobody is evicted, as the policy's drain is not enabled.",)
        api = (self._api_note,) if self._api_note else ()
        pods = [pod for pod in self._found.holders if isinstance(pod, device_holders.Pod)]
        said = [(pod, self._answers[pod.key].reason) for pod in pods if pod.key in self._answers]
        return (
            *waits,
            *api,
            *self._found.notes,
            *(f"The pod {pod.key} is not evicted: {reason}" for pod, reason in said if reason),
        )
