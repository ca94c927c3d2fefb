"""The forecast of a change: the fleet that it makes of hosts, and the sum of runs."""

import itertools
import math
import random
from typing import Any

import pytest

from compiler import pipeline
from compiler.changes import difference, sides
from compiler.changes import pods as changed_pods
from compiler.fleet import definitions
from compiler.simulation import durations, forecast, rollout
from compiler.views import simulation
from tests import builders


def change(
    before: definitions.Policy, after: definitions.Policy, *, count: int = 4, **spec: Any
) -> difference.ClusterDifference:
    nodes = [builders.node(f"kp-{number}") for number in range(count)]
    plans = [builders.view([policy], nodes, builders.cluster(**spec))[0] for policy in (before, after)]
    was, now = (sides.of_plan(each, pipeline.manifests_of(each)) for each in plans)
    found = difference.of_cluster(was, now, difference.Basis(changed=(), render=builders.renderer()))
    assert found
    return found


def kae(*, rollout_of: Any = None, plugin: Any = None, **driver: Any) -> definitions.Policy:
    paced = {"rollout": rollout_of} if rollout_of else {}
    return builders.policy("tls", driver={"version": "2.2.0", **paced, **driver}, devicePlugin=plugin or {})


def forecasts(found: difference.ClusterDifference, *, rate: float = 0, runs: int = 5) -> forecast.Forecast | None:
    chances = [random.Random(number).random for number in range(runs)]  # noqa: S311 - repeatable is what it has to be
    return forecast.of_cluster(found, durations.Durations(), None, rate, chances)


@pytest.mark.parametrize(
    ("value", "number", "pods"),
    [("10%", 24, 3), ("10%", 20, 2), ("10%", 1, 1), ("100%", 7, 7), (5, 2, 5), (1, 0, 1), ("0%", 9, 1), (0, 9, 1)],
)
def test_a_share_of_pods_is_rounded_up_as_the_controller_does(value: int | str, number: int, pods: int) -> None:
    assert changed_pods.scaled(value, number) == pods


def test_the_fleet_has_the_settings_of_the_policy() -> None:
    pace = {"maxParallel": 3, "maxUnavailable": 2, "minReadySeconds": 45}
    found = change(kae(rollout_of=pace), kae(rollout_of=pace, version="2.3.0", drain={"timeoutSeconds": 77}))

    fleet = forecast.fleet_of(found, None)

    assert fleet.daemon_sets == (rollout.DaemonSet(name="kae-driver-tls", most_unavailable=2, min_ready_s=45),)
    assert fleet.leases == (rollout.Leases(policy="tls", recipe="kae", number=3),)
    (host, *others) = fleet.hosts
    assert len(others) == 3
    assert (host.rolls, host.changes, host.disturbs, host.stages, host.evicts) == (True,) * 5
    assert (host.timeout_s, host.devices, host.free) == (77, 0, 1)


@pytest.mark.parametrize(
    ("before", "after", "facts"),
    [
        (kae(), kae(version="2.3.0"), (True, True, True)),
        (kae(), kae(sriov={"hpre": 2}), (True, True, False)),
        (kae(), kae(state="Absent"), (True, True, False)),
        (kae(enabled=False), kae(), (True, True, True)),
        (kae(state="Absent"), kae(), (True, False, True)),
        (kae(), kae(metrics={"enabled": True}), (False, False, False)),
    ],
    ids=["another version", "virtual functions", "removal", "installation", "after a removal", "another pod"],
)
def test_what_an_installer_does_decides_what_a_host_waits_for(
    before: definitions.Policy, after: definitions.Policy, facts: tuple[bool, bool, bool]
) -> None:
    hosts = [host for host in forecast.fleet_of(change(before, after), None).hosts if host.changes or not any(facts)]

    assert {(host.changes, host.disturbs, host.stages) for host in hosts} == {facts}


def test_pods_of_a_deployment_and_pods_that_go_are_no_hosts() -> None:
    assert forecasts(change(kae(), kae(enabled=False, state="Present"))) is None


def test_hosts_of_which_nobody_knows_the_devices_are_told_as_such() -> None:
    """The labels of these nodes say that there are devices, and not how many."""
    found = forecasts(change(kae(), kae(version="2.3.0")))

    assert found
    assert (found.unknown, found.devices_away.most) == (4, 0)
    basis = simulation.Basis(runs=5, seed=0, failure_rate=0, is_rate_given=False, durations=durations.Durations())
    (line,) = (line for line in simulation.lines([found], basis) if "devices away" in line)
    assert line.split("  ")[-1] == "at least 0"


def test_of_a_change_without_a_driver_the_pods_are_counted() -> None:
    found = forecasts(change(kae(), kae(plugin={"sharing": {"hpre": 4}})))

    assert found
    assert (found.hosts, found.pods, found.halts) == (0, 4, ())
    assert math.isfinite(found.end.p95)


def test_times_are_those_of_the_nearest_rank() -> None:
    found = change(kae(), kae(version="2.3.0"))
    single = [forecasts_of_seed(found, seed).end.p50 for seed in range(20)]

    summed = forecasts(found, runs=20)

    assert summed
    assert (summed.end.p50, summed.end.p95) == (sorted(single)[9], sorted(single)[18])


def forecasts_of_seed(found: difference.ClusterDifference, seed: int) -> forecast.Forecast:
    chance = random.Random(seed).random  # noqa: S311 - as above
    made = forecast.of_cluster(found, durations.Durations(), None, 0, [chance])
    assert made
    return made


def test_a_curve_rises_to_the_end_and_has_few_points() -> None:
    found = forecasts(change(kae(), kae(version="2.3.0"), count=150))

    assert found
    times, numbers = zip(*found.curve, strict=True)
    assert 2 < len(found.curve) <= 61
    assert numbers[-1] == 150
    assert all(was < now for was, now in itertools.pairwise(numbers))
    assert [*times] == sorted(times)


def test_what_paces_a_rollout_is_the_setting_that_makes_it_quicker() -> None:
    def paced(**pace: Any) -> tuple[list[str], float]:
        found = forecasts(change(kae(rollout_of=pace), kae(rollout_of=pace, version="2.3.0"), count=40), runs=1)
        assert found
        return [one.setting for one in found.paces], found.end.p50

    slow, more_leases, more_pods = (
        paced(maxParallel=1, maxUnavailable="100%"),
        paced(maxParallel=2, maxUnavailable="100%"),
        paced(maxParallel=40, maxUnavailable=2),
    )

    assert (slow[0], more_leases[0], more_pods[0]) == (["maxParallel"], ["maxParallel"], ["maxUnavailable"])
    assert more_leases[1] < 0.7 * slow[1]
    assert paced(maxParallel=40, maxUnavailable=4)[1] < 0.7 * more_pods[1]


def test_a_rollout_that_halts_is_paced_by_nothing() -> None:
    found = forecasts(change(kae(), kae(version="2.3.0")), rate=1)

    assert found
    assert (found.paces, found.halted, found.done) == ((), 5, 0)
