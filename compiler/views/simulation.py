"""The answer of `kae simulate`: for people as text and as Markdown, for programs as data."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from compiler import wording
from compiler.simulation import durations
from compiler.simulation.forecast import Cause, Counts, Forecast, Halt, Moments
from compiler.views.diff import review

UNKNOWN = (
    "when the change is applied, when NFD labels nodes that move between pools, and nodes that are down",
    "where evicted pods go: one that comes to a host with its change still before it is evicted again, and one that"
    " finds no device waits",
    "hosts that two recipes change at once, which wait for each other, and vendors' programs that a change takes away",
    "retries of a failed change: one that fails is taken to fail until a person repairs it",
)
"""What the simulation does not know."""


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """What the forecasts rest on."""

    runs: int
    seed: int
    failure_rate: float
    is_rate_given: bool
    durations: durations.Durations
    metrics: str = ""
    """The name of the export; empty without one."""
    pods: str = ""
    """The name of the snapshot; empty without one."""
    has_claims: bool = False
    """True where pods of it ask by ResourceClaims."""


def lines(forecasts: Sequence[Forecast], basis: Basis) -> Iterator[str]:
    """Yield the answer for people."""
    for forecast in forecasts:
        yield f"cluster {forecast.cluster}: {_subject(forecast)}"
        yield from (f"  {line}" for line in wording.table(("", "P50", "P95", "MOST"), [*_rows(forecast)]))
        yield from (f"  {line}" for line in paces(forecast))
        yield from (f"  {line}" for halt in forecast.halts for line in _halt(halt, basis.runs))
        yield ""
    if forecasts:
        yield f"of {wording.counted(basis.runs, 'run')}, seed {basis.seed}"
        yield "taken as:"
        yield from (f"  {line}" for line in assumptions(forecasts, basis))
        yield "not known:"
        yield from (f"  {line}" for line in UNKNOWN)
    else:
        yield NOTHING


NOTHING = "The change replaces no pod of a DaemonSet, so there is no rollout."


def _subject(forecast: Forecast) -> str:
    come = "comes or is replaced" if forecast.pods == 1 else "come or are replaced"
    if not forecast.hosts:
        return f"no driver changes; {wording.counted(forecast.pods, 'pod')} {come}"
    change = "changes its driver" if forecast.hosts == 1 else "change their driver"
    others = f", and {wording.counted(forecast.pods, 'pod')} more {come}" if forecast.pods else ""
    return f"{wording.counted(forecast.hosts, 'host')} {change}{others}"


def _rows(forecast: Forecast) -> Iterator[Sequence[str]]:
    yield "half are done after", span(forecast.half.p50), span(forecast.half.p95), ""
    yield "all are done after", span(forecast.end.p50), span(forecast.end.p95), ""
    if not forecast.hosts:
        return
    for title, counts in (
        ("hosts without devices at once", forecast.away),
        ("devices away at once", forecast.devices_away),
        ("evictions in all", forecast.evictions),
        ("evictions at once", forecast.evicting),
    ):
        few = "at least " if forecast.unknown and counts is not forecast.away else ""
        yield title, f"{few}{counts.p50}", f"{few}{counts.p95}", f"{few}{counts.most}"


def paces(forecast: Forecast) -> Iterator[str]:
    """Yield what hosts wait for."""
    for pace in forecast.paces:
        if pace.setting == "maxParallel":
            hosts = wording.counted(pace.number, "host")
            yield f"paced by driver.rollout.maxParallel of policy {pace.name}: {hosts} at a time"
        else:
            pods = wording.counted(pace.number, "pod")
            yield f"paced by maxUnavailable of DaemonSet {pace.name}: {pods} at a time"
    if _is_worse_idle([forecast]):
        yield f"where devices are unused: up to {wording.counted(forecast.idle, 'host')} without devices at once"


def _is_worse_idle(forecasts: Sequence[Forecast]) -> bool:
    """Return whether more hosts may be without devices at once than where pods are guessed to hold all of them."""
    guessed = [forecast for forecast in forecasts if forecast.guessed]
    return sum(forecast.idle for forecast in guessed) > sum(forecast.away.most for forecast in guessed)


_HALTS: Mapping[Cause, tuple[str, str]] = {
    "leases": (
        "failed hosts keep every Lease of policy {name}",
        "Repair them, and call `python -m installer retry` there, or revert the commit. A higher"
        " driver.rollout.maxParallel lets more fail before it halts.",
    ),
    "unavailable": (
        "as many pods of DaemonSet {name} are not Ready as maxUnavailable lets be",
        "Repair the hosts that are not done, or raise driver.rollout.maxUnavailable.",
    ),
    "budget": (
        "the disruption budget {name} allows no eviction",
        "Add a replica to its pods or lower its minAvailable, or end the pods by hand.",
    ),
    "budgets": (
        "the pod {name} has several disruption budgets, and the API server evicts no such pod",
        "Leave it one budget, or end it by hand.",
    ),
    "waits": (
        "policy {name} evicts no pod, so hosts wait as long as pods hold their devices",
        "End them by hand, or set driver.drain.enabled.",
    ),
    "tired": (
        "pods of hosts of policy {name} are evicted in vain three times",
        "Allow more time by driver.drain.timeoutSeconds, then call `python -m installer retry` there.",
    ),
    "failed": (
        "the change fails on hosts of DaemonSet {name}",
        "Repair them, and call `python -m installer retry` there, or revert the commit.",
    ),
}


def _halt(halt: Halt, runs: int) -> Iterator[str]:
    what, way = _halt_texts(halt)
    hosts = wording.counted(halt.hosts, "host")
    yield f"halts in {halt.runs} of {wording.counted(runs, 'run')}: {what} (at most {hosts})"
    yield f"  {way}"


def _halt_texts(halt: Halt) -> tuple[str, str]:
    what, way = _HALTS[halt.cause]
    return what.format(name=wording.escaped(halt.name)), way


def assumptions(forecasts: Sequence[Forecast], basis: Basis) -> Iterator[str]:
    """Yield what the forecasts take as given, and what of it is a default."""
    known = basis.durations
    starts = f"a pod starts in {_spread(known.start)}"
    if basis.metrics:
        yield (
            f"staging and swaps as {wording.counted(known.hosts, 'installer')} measured them"
            f" ({wording.file_name(basis.metrics)}); by default, {starts}, and devices are withdrawn in"
            f" {_spread(known.withdraw)}"
        )
    else:
        yield (
            f"defaults, as no --metrics are given: {starts}, a driver is staged in {_spread(known.stage)}, devices are"
            f" withdrawn in {_spread(known.withdraw)}, and the driver is changed in {_spread(known.swap)}"
        )
    if basis.pods:
        yield (
            f"pods and budgets as in {wording.file_name(basis.pods)}; by default, the successor of a pod with a budget"
            f" is ready in {_spread(known.returns)}, and pods end at any time within their grace, of a month at most"
        )
        if basis.has_claims:
            yield "pods that ask by a ResourceClaim are taken to hold a device: the snapshot does not tell whose"
    elif any(forecast.guessed for forecast in forecasts):
        ends = "as long as installers measured" if known.drain else f"within {durations.DEFAULT_GRACE_S} s"
        yield (
            "a default, as no --pods are given: each host has as many pods that hold a device as it can have, without"
            f" disruption budgets, and they end {ends}; a host without such a pod needs no Lease, and goes at once"
        )
    yield _rate(basis)
    if number := sum(forecast.uncertain for forecast in forecasts):
        yield f"each of {wording.counted(number, 'host')} that may keep its driver is taken to swap it"
    if number := sum(forecast.loaded for forecast in forecasts):
        shows = f"labels in the inventory show the version that comes on {wording.counted(number, 'host')}"
        yield f"{shows}: no driver changes there, unless one has since the inventory was taken"
    if number := sum(forecast.unknown for forecast in forecasts):
        yield f"of {wording.counted(number, 'host')}, the number of devices or of pods that hold one is not known"


def _rate(basis: Basis) -> str:
    share = f"{basis.failure_rate * 100:g} % of hosts fail, and fail again"
    if basis.is_rate_given:
        return f"{share} (--failure-rate)"
    if basis.metrics and basis.durations.failure_rate is not None:
        return f"{share}, as installers counted"
    return "a default, as no --failure-rate is given: no host fails"


def _spread(spread: durations.Spread) -> str:
    return f"{spread.least_s:g} to {spread.most_s:g} s"


def span(seconds: float) -> str:
    """Return a time in its two largest units, such as '40 s' and '5 d 4 h'; 'never' for an infinite one."""
    if math.isinf(seconds):
        return "never"
    if seconds < 120:
        return f"{round(seconds)} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    large, small, names = (minutes // 60, minutes % 60, ("h", "min"))
    if large >= 48:
        large, small, names = (round(minutes / 60) // 24, round(minutes / 60) % 24, ("d", "h"))
    return f"{large} {names[0]} {small} {names[1]}" if small else f"{large} {names[0]}"


def sentences(forecasts: Sequence[Forecast], basis: Basis) -> tuple[str, str]:
    """Return forecasts as two sentences: how long it takes, and how disruptive it is; of those that change drivers."""
    swapping = [forecast for forecast in forecasts if forecast.hosts] or forecasts
    slowest = max(swapping, key=lambda forecast: (forecast.end.p50, forecast.end.p95))
    where = f" of cluster {slowest.cluster}, the slowest" if len(swapping) > 1 else ""
    halting = [forecast for forecast in swapping if forecast.halted]
    stops = ""
    if halting:
        told = dict.fromkeys(_halt_texts(halt)[0] for forecast in halting for halt in forecast.halts)
        most = max(forecast.halted for forecast in halting)
        stops = f"; it halts in {most} of {wording.counted(basis.runs, 'run')}: {wording.listed(told, most=2)}"
    return f"Once this is applied, {_times(slowest, where)}{stops}.", _disruption(swapping, basis)


def _times(forecast: Forecast, where: str) -> str:
    number, noun = forecast.hosts or forecast.pods, "host" if forecast.hosts else "pod"
    half, end, late = map(span, (forecast.half.p50, forecast.end.p50, forecast.end.p95))
    late = f" ({'without an end' if math.isinf(forecast.end.p95) else late} at p95)" if late != end else ""
    if math.isinf(forecast.half.p50):
        return f"it halts before half of {wording.counted(number, noun)}{where} are done"
    if math.isinf(forecast.end.p50):
        return f"it takes {half} for half of {wording.counted(number, noun)}{where}, and halts before all are done"
    if number == 1:
        return f"it takes {end}{late} for the {noun}{where}"
    return f"it takes {half} for half of {wording.counted(number, noun)}{where}, and {end}{late} for all"


def _disruption(forecasts: Sequence[Forecast], basis: Basis) -> str:
    away = sum(forecast.away.most for forecast in forecasts)
    evictions = sum(forecast.evictions.most for forecast in forecasts)
    at_once = sum(forecast.evicting.most for forecast in forecasts)
    is_guess = not basis.pods and any(forecast.guessed for forecast in forecasts)
    given = f"durations are {'measured' if basis.metrics else 'defaults'}"
    few = ", as far as is known," if any(forecast.unknown for forecast in forecasts) else ""
    if not any(forecast.hosts for forecast in forecasts):
        return f"No driver changes, so no device is withdrawn, and no pod is evicted; {given}."
    pods = f"{wording.counted(evictions, 'pod')}{few} {'is' if evictions == 1 else 'are'}"
    evicted = f"at most {pods} evicted, {at_once} at once" if evictions else f"no pod{few} is evicted"
    loaded = sum(forecast.loaded for forecast in forecasts)
    given += f", and {wording.counted(loaded, 'host')} with it by labels left out" if loaded else ""
    taken = ", and every device is taken to be in use" if is_guess else ""
    if _is_worse_idle(forecasts):
        idle = sum(forecast.idle if forecast.guessed else forecast.away.most for forecast in forecasts)
        taken += f": where devices are unused, up to {wording.counted(idle, 'host')} at once are without them"
    return (
        f"At most {wording.counted(away, 'host')} at once {'is' if away == 1 else 'are'} without devices, and"
        f" {evicted}; {given}{taken}."
    )


def markdown(forecasts: Sequence[Forecast], basis: Basis) -> str:
    """Return the answer as Markdown, for the comment of a pull request."""
    if not forecasts:
        return f"{review.prose(NOTHING)}\n"
    said = f"{review.prose(' '.join(sentences(forecasts, basis)))}\n\n"
    # A grave accent of a name would end the block.
    body = "\n".join(lines(forecasts, basis)).replace("`", "'")
    return f"{said}<details><summary>Simulation</summary>\n\n```text\n{body}\n```\n\n</details>\n"


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts that are done over time, in a picture of 640 by 200 whose axes meet at 60, 164."""

    title: str
    note: str
    words: str
    """The same in words."""
    number: int
    """The hosts at the top."""
    points: str
    """As a polyline has them."""
    times: tuple[tuple[int, str, str], ...]
    """The place, the anchor and the text of each mark below."""


_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 628, 16, 164
_NARROW = 150
"""The room of two texts below."""


def curve(forecast: Forecast, runs: int) -> Curve:
    """Return the curve of a forecast."""
    last = forecast.curve[-1][0] if forecast.curve else 1
    number = forecast.hosts or forecast.pods

    def across(at: float) -> int:
        return round(_LEFT + (_RIGHT - _LEFT) * at / last)

    heights = [_BOTTOM - (_BOTTOM - _TOP) * done / number for done in (0, *(each for _, each in forecast.curve))]
    steps = zip(forecast.curve, heights, heights[1:], strict=False)
    points = [point for (at, _), was, now in steps for point in ((across(at), was), (across(at), now))]
    done = forecast.curve[-1][1] if forecast.curve else 0
    halts = "" if done == number else f"; it halts with {done} done"
    half = next((at for at, count in forecast.curve if count * 2 >= number), math.inf)
    times = [(_LEFT, "start", "0"), (_RIGHT, "end", span(last))]
    if _LEFT + _NARROW / 2 < (middle := across(min(half, last))) < _RIGHT - _NARROW:
        times.insert(1, (middle, "middle", f"half after {span(half)}"))
    return Curve(
        title=f"cluster {forecast.cluster}: {_subject(forecast)}",
        note=f"the run in the middle of {runs}{halts}",
        words=f"The curve rises from 0 to {done} of {number} in {span(last)}.",
        number=number,
        points=" ".join(f"{x},{y:.0f}" for x, y in points),
        times=tuple(times),
    )


def data(forecasts: Sequence[Forecast], basis: Basis) -> dict[str, Any]:
    """Return the answer for programs; null stands for never."""
    return {
        "runs": basis.runs,
        "seed": basis.seed,
        "failureRate": basis.failure_rate,
        "taken": list(assumptions(forecasts, basis)) if forecasts else [],
        "notKnown": list(UNKNOWN),
        "clusters": [_cluster(forecast) for forecast in forecasts],
    }


def _cluster(forecast: Forecast) -> dict[str, Any]:
    return {
        "name": forecast.cluster,
        "hosts": forecast.hosts,
        "pods": forecast.pods,
        "half": _moments(forecast.half),
        "end": _moments(forecast.end),
        "fewestDone": forecast.done,
        "unknownHosts": forecast.unknown,
        "loadedHosts": forecast.loaded,
        "hostsAway": _counts(forecast.away),
        "hostsAwayIfIdle": forecast.idle,
        "devicesAway": _counts(forecast.devices_away),
        "evictions": _counts(forecast.evictions),
        "evictionsAtOnce": _counts(forecast.evicting),
        "pacedBy": [structs.asdict(pace) for pace in forecast.paces],
        "runsThatHalt": forecast.halted,
        "halts": [
            {**structs.asdict(halt), "text": text, "way": way}
            for halt in forecast.halts
            for text, way in [_halt_texts(halt)]
        ],
        "curve": [[round(at), number] for at, number in forecast.curve],
    }


def _moments(moments: Moments) -> dict[str, int | None]:
    values = structs.asdict(moments).items()
    return {f"{name}Seconds": None if math.isinf(value) else round(value) for name, value in values}


def _counts(counts: Counts) -> dict[str, int]:
    return structs.asdict(counts)
