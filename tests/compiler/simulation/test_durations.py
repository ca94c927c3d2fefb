"""How long things take: what installers have measured, or stated defaults."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from compiler.simulation import durations, rollout
from installer.report import driver_state
from runtime import metrics

ROOT = Path(__file__).parents[3]
DEFAULTS = durations.Durations()
NODE = 'node="a",policy="tls"'
TEXT = f"""\
# HELP kae_driver_step_seconds How long a step took the last time.
# TYPE kae_driver_step_seconds gauge
kae_driver_step_seconds{{{NODE},step="compile-modules"}} 95.5
kae_driver_step_seconds{{{NODE},step="store-driver"}} 0.5
kae_driver_step_seconds{{{NODE},step="take-lease"}} 0.5
kae_driver_step_seconds{{{NODE},step="drain-devices"}} 12
kae_driver_step_seconds{{{NODE},step="begin-change"}} 1
kae_driver_step_seconds{{{NODE},step="load-modules"}} 7
kae_driver_step_seconds{{{NODE},step="end-change"}} 1 1764200000000
kae_driver_step_seconds{{node="b",step="store-driver"}} 3
kae_driver_changes_total{{{NODE},result="succeeded"}} 3
kae_driver_changes_total{{{NODE},result="failed"}} 1
kae_driver_changes_total{{{NODE},result="abandoned"}} 6
"""


def answer(*results: Any) -> str:
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": results}})


def test_steps_before_the_turn_the_drain_and_the_change_are_summed_for_each_host() -> None:
    known = durations.read(TEXT)

    assert known.stage.measured == (96.0,)
    assert known.drain is not None
    assert known.drain.measured == (12.5,)
    assert known.swap.measured == (9.0,)
    assert (known.hosts, known.start) == (1, DEFAULTS.start)


def test_the_share_of_failures_is_that_of_changes_that_ended() -> None:
    assert durations.read(TEXT).failure_rate == 0.25


def test_an_answer_of_prometheus_is_read_as_its_text() -> None:
    def series(name: str, value: float, **labels: str) -> Any:
        return {"metric": {"__name__": name, "node": "a", **labels}, "value": [1764200000.1, str(value)]}

    text = answer(
        series("kae_driver_step_seconds", 5, step="begin-change"),
        {
            "metric": {"__name__": "kae_driver_step_seconds", "node": "a", "step": "end-change"},
            "values": [[1, "8"], [2, "1"]],
        },
        series("kae_driver_changes_total", 2, result="failed"),
    )

    known = durations.read(text)

    assert (known.swap.measured, known.failure_rate) == ((6.0,), 1.0)


def test_the_metrics_of_installers_are_read_as_they_serve_them() -> None:
    def served(seconds: float) -> str:
        """Return the text of an installer that has changed a driver."""
        published = driver_state.DriverState()
        for step in (*durations.STAGES, *durations.SWAPS):
            published.step(step, "done", seconds)
        published.changes["succeeded"] += 1
        registry = metrics.registry_of(lambda: published.families(None))
        return prometheus_client.generate_latest(registry).decode()

    known = durations.read(served(1) + served(2))

    assert known.hosts == 2
    assert [*known.stage.measured] == [len(durations.STAGES), 2 * len(durations.STAGES)]
    assert [*known.swap.measured] == [len(durations.SWAPS), 2 * len(durations.SWAPS)]
    assert known.failure_rate == 0


def test_what_is_not_measured_has_the_default() -> None:
    known = durations.read('kae_driver_step_seconds{step="end-change"} 2')

    assert (known.stage, known.drain, known.failure_rate) == (DEFAULTS.stage, None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "up 1",
        '{"status": "error"}',
        "[]",
        "{",
        answer(),
        answer({"metric": {}, "value": []}),
        answer({"metric": {}, "value": {}}),
        'kae_driver_step_seconds{step="end-change"} NaN',
        'kae_driver_step_seconds{step="end-change"} +Inf',
        'kae_driver_step_seconds{step="end-change"} many',
        'kae_driver_step_seconds{step="end-change"} 1e300',
    ],
)
def test_an_export_without_a_change_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no kae_driver_step_seconds|not the JSON"):
        durations.read(text)


def test_every_step_of_an_installer_is_counted_once_at_most() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "installer").rglob("*.py"))
    steps = {*re.findall(r'change_steps\.Step\(\s*"([a-z-]+)"', sources)}
    counted = Counter((*durations.STAGES, *durations.DRAINS, *durations.SWAPS, *durations.OTHERS))

    assert len(steps) > 20
    assert steps == {*counted}
    assert {*counted.values()} == {1}


def test_measured_durations_are_drawn_and_others_lie_between_their_bounds() -> None:
    measured = durations.Spread(measured=(3, 5))

    assert [measured.at(each) for each in (0, 0.49, 0.5, 0.99)] == [3, 3, 5, 5]
    assert [DEFAULTS.start.at(each) for each in (0, 0.5, 1)] == [10, 20, 30]


def test_a_host_with_many_pods_waits_for_the_last_of_them() -> None:
    made = rollout.Host(node="a", daemon_set=0, rolls=True, changes=True, disturbs=True, free=4, grace_s=30)
    found = durations.draws(rollout.Fleet(hosts=(made,)), DEFAULTS, 0, lambda: 0.5)

    # The last of four that end at any time within half a minute does so in half of all cases by then.
    assert [*found.ends] == [pytest.approx(30 * 0.5**0.25)]
