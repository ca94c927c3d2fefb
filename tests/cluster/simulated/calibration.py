"""What `kae simulate` says of a rollout that was measured: its time, from the steps that installers logged."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from compiler.simulation import durations, rollout

_RUNS = 200
_TURN_S = 2.5
"""The mean pause of installers whose turn is 2 s (`hollow_kubelet`), of which each adds its share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulated:
    """The seconds to the end that 5, 50 and 95 of 100 runs stay below, and what all of them have in common."""

    p5_s: float
    p50_s: float
    p95_s: float
    evictions: frozenset[int]
    most_away: frozenset[int]

    def __str__(self) -> str:
        return f"simulated {self.p5_s:.1f} to {self.p95_s:.1f} s, in the middle {self.p50_s:.1f} s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A change as its installer logged it: the seconds until it asked for its turn, of each step, and to the end.

    `evictions` are those that the API server accepted.
    """

    start_s: float
    steps_s: Mapping[str, float]
    took_s: float
    evictions: int


def measured(log: str, began: float) -> Measured:
    """Return what the log of an installer says of its change since `began`, in seconds since 1970."""
    every = [*map(_line, log.splitlines())]
    steps = [line for line in every if "step" in line and _at(line) >= began]
    return Measured(
        start_s=min(_at(line) for line in steps if line["step"] == "take-lease") - began,
        steps_s={line["step"]: line["seconds"] for line in steps if "seconds" in line},
        took_s=max(map(_at, steps)) - began,
        evictions=sum(line.get("answer") == "accepted" and _at(line) >= began for line in every),
    )


def simulated(known: Sequence[Measured], parallel: int, hosts: int | None = None) -> Simulated:
    """Return what is simulated of hosts whose pods are replaced at once, each with a pod that holds a device."""
    metrics = [
        f'kae_driver_step_seconds{{node="{number}",step="{step}"}} {seconds}'
        for number, each in enumerate(known)
        for step, seconds in each.steps_s.items()
    ]
    # The installers have staged before they ask for a turn.
    start = durations.Spread(measured=tuple(sorted(each.start_s for each in known)))
    spent = msgspec.structs.replace(durations.read("\n".join(metrics)), start=start, stage=durations.Spread())
    runs = [_run(_fleet(hosts or len(known), parallel), spent, seed) for seed in range(_RUNS)]
    ends = sorted(max(each.done) for each in runs)
    return Simulated(
        p5_s=ends[_RUNS * 5 // 100 - 1],
        p50_s=ends[_RUNS // 2 - 1],
        p95_s=ends[_RUNS * 95 // 100 - 1],
        evictions=frozenset(each.evictions for each in runs),
        most_away=frozenset(each.most_away for each in runs),
    )


def halted(number: int, parallel: int) -> rollout.Run:
    """Return how such a rollout goes with a driver that does not load."""
    fleet = _fleet(number, parallel)
    return rollout.run(fleet, durations.draws(fleet, durations.Durations(), 1, random.Random(0).random))  # noqa: S311


def _run(fleet: rollout.Fleet, known: durations.Durations, seed: int) -> rollout.Run:
    drawn = durations.draws(fleet, known, 0, random.Random(seed).random)  # noqa: S311 - repeatable is what it has to be
    return rollout.run(fleet, msgspec.structs.replace(drawn, asks_s=_TURN_S))


def _fleet(number: int, parallel: int) -> rollout.Fleet:
    host = rollout.Host(node="", daemon_set=0, rolls=False, changes=True, disturbs=True, stages=True, free=1)
    return rollout.Fleet(
        hosts=(host,) * number,
        daemon_sets=(rollout.DaemonSet(name="", most_unavailable=number, min_ready_s=0),),
        leases=(rollout.Leases(policy="", recipe="", number=parallel),),
    )


def _line(text: str) -> Mapping[str, Any]:
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def _at(line: Mapping[str, Any]) -> float:
    return datetime.fromisoformat(line["time"]).timestamp()
