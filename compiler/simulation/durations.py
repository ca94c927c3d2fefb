"""How long things take, and what is drawn from it for a run: stated defaults, or what installers have measured.

An export of Prometheus is the text of /metrics or of /federate, or the JSON of its API: `kae_driver_step_seconds` has
the seconds of each step of an installer's last change, by the labels of its node.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from compiler.simulation.rollout import Draws, Fleet

Chance = Callable[[], float]
"""A number from 0 to 1, as `random.Random(seed).random`."""

STAGES = (
    *("prepare-store", "copy-modules", "install-kernel-devel", "compile-modules", "download-packages"),
    *("inspect-packages", "store-driver", "keep-driver"),
)
"""The steps of an installer before it waits for its turn."""

DRAINS = ("take-lease", "try-places", "announce-change", "take-programs", "drain-devices")
"""The steps from the question that gives it its turn until no device is held."""

SWAPS = (
    *("begin-change", "unload-modules", "disable-virtual-functions", "install-packages", "erase-packages"),
    *("place-modules", "index-modules", "place-libraries", "block-autoload", "allow-autoload", "write-options"),
    *("load-modules", "permit-device-nodes", "remove-rule", "enable-virtual-functions", "prove-driver"),
    *("record-driver", "end-change"),
)
"""The steps of the change itself."""

OTHERS = ("spare-users", "restore-permissions", "prove-old-driver", "record-old-driver")
"""Steps that are no part of a change that succeeds."""


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """A duration: measured values from the least, each as likely, or by default anything between two bounds."""

    least_s: float = 0
    most_s: float = 0
    measured: tuple[float, ...] = ()

    def at(self, drawn: float) -> float:
        """Return the duration of a number from 0 to 1."""
        if self.measured:
            return self.measured[int(drawn * len(self.measured))]
        return self.least_s + (self.most_s - self.least_s) * drawn


class Durations(msgspec.Struct, frozen=True, kw_only=True):
    """How long each part of a rollout takes on a host."""

    start: Spread = Spread(least_s=10, most_s=30)
    """The end of the old pod and the start of the new one."""
    stage: Spread = Spread(least_s=10, most_s=120)
    withdraw: Spread = Spread(least_s=1, most_s=6)
    """Until the devices are withdrawn (installer/change/prepare.py)."""
    drain: Spread | None = None
    """Withdrawal and evictions together, where that is measured and no snapshot tells of pods."""
    swap: Spread = Spread(least_s=10, most_s=40)
    returns: Spread = Spread(least_s=10, most_s=60)
    """Until the successor of an evicted pod is ready elsewhere."""
    failure_rate: float | None = None
    """The share of changes that failed, where the installers have counted."""
    hosts: int = 0
    """The installers whose steps were measured."""


LONGEST_S = 30 * 24 * 3600
"""A month. A time that has longer ones would not grow by seconds any more, and a run never end."""

DEFAULT_GRACE_S = 30
"""terminationGracePeriodSeconds of a pod that says none (Kubernetes' default)."""

_SAMPLE = re.compile(r'^(kae_driver_\w+)\{((?:[^"}]|"(?:[^"\\]|\\.)*")*)\}\s+(\S+)', re.MULTILINE)
_LABEL = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_Sample = tuple[str, Mapping[str, str], float]
"""The name of a metric, its labels, and its value."""


def read(text: str) -> Durations:
    """Return what an export of Prometheus tells, and the defaults of the rest; ValueError where it tells nothing."""
    samples = [each for each in _samples(text) if _is_plausible(*each)]
    results: dict[str, float] = {}
    for name, labels, value in samples:
        if name == "kae_driver_changes_total" and "result" in labels:
            results[labels["result"]] = results.get(labels["result"], 0) + value
    changed = [own for own in _hosts(samples) if "end-change" in own or "begin-change" in own]
    if not changed:
        raise ValueError("no kae_driver_step_seconds of a change in it")
    known = Durations()
    ended = sum(results.get(each, 0) for each in ("succeeded", "failed"))
    return Durations(
        stage=_measured(changed, STAGES) or known.stage,
        drain=_measured(changed, DRAINS, asked="drain-devices"),
        swap=_measured(changed, SWAPS) or known.swap,
        failure_rate=results.get("failed", 0) / ended if ended else None,
        hosts=len(changed),
    )


def _is_plausible(name: str, _: Mapping[str, str], value: float) -> bool:
    is_duration = name == "kae_driver_step_seconds"
    return 0 <= value < math.inf and not (is_duration and value > LONGEST_S)


def _hosts(samples: Iterable[_Sample]) -> Sequence[Mapping[str, float]]:
    """Return the seconds of each step, host by host.

    The texts of several installers, one behind the other, have the same labels: a step that comes again is of the next.
    """
    found: list[dict[str, float]] = []
    latest: dict[tuple[tuple[str, str], ...], dict[str, float]] = {}
    for name, labels, value in samples:
        if name != "kae_driver_step_seconds" or "step" not in labels:
            continue
        own = tuple(sorted((key, each) for key, each in labels.items() if key not in ("step", "__name__")))
        if own not in latest or labels["step"] in latest[own]:
            latest[own] = {}
            found.append(latest[own])
        latest[own][labels["step"]] = value
    return found


def _measured(hosts: Iterable[Mapping[str, float]], steps: Sequence[str], asked: str = "") -> Spread | None:
    """Return the sums of these steps on each host that had any, or the step that is asked for."""
    found = [[own[step] for step in steps if step in own] for own in hosts if not asked or asked in own]
    sums = sorted(sum(each) for each in found if each)
    return Spread(measured=tuple(sums)) if sums else None


def _samples(text: str) -> Iterator[_Sample]:
    if not text.lstrip().startswith(("{", "[")):
        for name, labels, value in _SAMPLE.findall(text):
            yield name, dict(_LABEL.findall(labels)), _number(value)
        return
    try:
        yield from _of_api(json.loads(text))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError("not the JSON of /api/v1/query") from error


def _of_api(data: Any) -> Iterator[_Sample]:
    for each in data["data"]["result"]:
        labels = {str(key): str(value) for key, value in each["metric"].items()}
        _, value = each["value"] if "value" in each else each["values"][-1]
        yield labels.get("__name__", ""), labels, _number(value)


def _number(text: Any) -> float:
    try:
        return float(text)
    except (TypeError, ValueError):
        return math.nan


def draws(fleet: Fleet, known: Durations, failure_rate: float, chance: Chance) -> Draws:
    """Return what chance decides in a run."""
    hosts = fleet.hosts
    number = range(len(hosts))
    # A fixed number of draws for each host, so that a longer wait here changes nothing there.
    ranks = sorted(number, key=[chance() for _ in number].__getitem__)
    order = [0] * len(hosts)
    for rank, index in enumerate(ranks):
        order[index] = rank
    # A host that is slow is slow in all that its installer does.
    slowness = [chance() for _ in number]
    starts, withdraws, ends = [], [], []
    for host, slow in zip(hosts, slowness, strict=True):
        starts.append(known.start.at(slow) + (known.stage.at(slow) if host.stages else 0))
        drawn = chance()
        if known.drain is not None and not host.pods:
            withdraws.append(0.0)
            ends.append(known.drain.at(slow))
        else:
            withdraws.append(known.withdraw.at(slow))
            # The last of several that end at any time within their grace.
            ends.append(host.grace_s * drawn ** (1 / host.free) if host.free else 0.0)
    return Draws(
        order=order,
        starts=starts,
        withdraws=withdraws,
        ends=ends,
        bound_ends=[tuple(pod.grace_s * chance() for pod in host.pods) for host in hosts],
        returns=[known.returns.at(chance()) for _ in hosts],
        swaps=[known.swap.at(slow) for slow in slowness],
        fails=[chance() < failure_rate and host.changes for host in hosts],
        asks=[chance() for _ in hosts],
    )
