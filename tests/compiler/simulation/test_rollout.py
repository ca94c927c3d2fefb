"""A rollout as it is simulated, beside a second simulator and by hand."""

import math
import random
from typing import Any

import msgspec
import pytest

from compiler.simulation import durations, rollout
from tests import effort
from tests.compiler.simulation import naive

FLEETS = 300


def fleet(*hosts: rollout.Host, leases: int = 1, most: int = 100, budgets: tuple[int, ...] = ()) -> rollout.Fleet:
    return rollout.Fleet(
        hosts=hosts,
        daemon_sets=(rollout.DaemonSet(name="driver", most_unavailable=most, min_ready_s=30),),
        leases=(rollout.Leases(policy="tls", recipe="kae", number=leases),),
        budgets=tuple(rollout.Budget(name=f"web/{number}", allowed=each) for number, each in enumerate(budgets)),
    )


def host(**fields: Any) -> rollout.Host:
    given: dict[str, Any] = {"node": "a", "daemon_set": 0, "rolls": True, "changes": True, "disturbs": True, "free": 1}
    return rollout.Host(**given | fields)


def draws(number: int, fails: int = 0, pods: int = 0) -> rollout.Draws:
    """Draws of round numbers; the first so many fail."""
    return rollout.Draws(
        order=range(number),
        starts=[10] * number,
        withdraws=[1] * number,
        ends=[20] * number,
        bound_ends=[(20,) * pods] * number,
        returns=[40] * number,
        swaps=[30] * number,
        fails=[index < fails for index in range(number)],
        asks=[0] * number,
    )


def random_fleet(seed: int) -> tuple[rollout.Fleet, rollout.Draws]:
    lots = random.Random(seed)  # noqa: S311 - the seed makes a failure reproducible
    sets = [
        rollout.DaemonSet(name=f"d{number}", most_unavailable=lots.randint(1, 6), min_ready_s=lots.choice((0, 30)))
        for number in range(lots.randint(1, 3))
    ]
    leases = [
        rollout.Leases(policy=f"p{number}", recipe="kae", number=lots.randint(1, 4))
        for number in range(lots.randint(1, 2))
    ]
    budgets = [rollout.Budget(name=f"b{number}", allowed=lots.randint(0, 3)) for number in range(lots.randint(0, 3))]

    def pod() -> rollout.Pod:
        own = lots.sample(range(len(budgets)), lots.choice((1, 1, 1, 1, 1, 1, 1, 1, 2)) if len(budgets) > 1 else 1)
        return rollout.Pod(name="p", budgets=tuple(own), grace_s=lots.choice((30, 100, 900)))

    def one(number: int) -> rollout.Host:
        changes = lots.random() < 0.9
        disturbs = changes and lots.random() < 0.9
        return host(
            node=f"n{number}",
            daemon_set=lots.randrange(len(sets)),
            rolls=lots.random() < 0.6,
            changes=changes,
            disturbs=disturbs,
            stages=lots.random() < 0.8,
            leases=lots.randrange(len(leases)),
            devices=lots.randint(0, 4),
            free=lots.randint(0, 2),
            grace_s=lots.choice((30, 30, 900)),
            pods=tuple(pod() for _ in range(lots.choice((0, 0, 0, 1, 2)))) if budgets else (),
            evicts=lots.random() < 0.98,
            timeout_s=lots.choice((60, 300)),
        )

    made = rollout.Fleet(
        hosts=tuple(one(number) for number in range(lots.randint(1, 30))),
        daemon_sets=tuple(sets),
        leases=tuple(leases),
        budgets=tuple(budgets),
    )
    return made, durations.draws(made, durations.Durations(), lots.choice((0, 0, 0.1)), lots.random)


@pytest.mark.seeded
@pytest.mark.parametrize("part", range(effort.examples(gate=3, long=30)))
def test_a_second_simulator_has_the_same_swaps_in_the_same_order(part: int) -> None:
    for seed in range(part * 10, part * 10 + FLEETS // 30):
        made, chance = random_fleet(seed)

        quick, slow = rollout.run(made, chance), naive.Naive(made, chance)
        slow.run()

        assert [*quick.done] == pytest.approx([each.done for each in slow.hosts], rel=0.01), seed
        assert [*quick.turns] == [number for _, number in slow.swaps], seed
        is_ended = all(map(math.isfinite, quick.done))
        # Those in vain go on trying, which the first simulator leaves off as soon as nothing else depends on it.
        numbers = [(one.evictions, one.most_evicting, one.most_away, one.most_devices_away) for one in (quick, slow)]
        assert not is_ended or numbers[0] == numbers[1], seed


def test_one_host_at_a_time_takes_the_sum_of_all_times() -> None:
    done = rollout.run(fleet(*[host()] * 3), draws(3)).done

    assert [*done] == [10 + 51, 10 + 2 * 51, 10 + 3 * 51]


def test_the_daemon_set_replaces_no_more_pods_than_may_be_unavailable() -> None:
    done = rollout.run(fleet(*[host(free=0)] * 3, most=1), draws(3)).done

    assert [*done] == [40, 40 + 30 + 40, 40 + 2 * (30 + 40)]


def test_pods_that_come_to_a_daemon_set_begin_at_once() -> None:
    done = rollout.run(fleet(*[host(free=0, rolls=False)] * 3, most=1), draws(3)).done

    assert [*done] == [40] * 3


def test_a_failed_host_keeps_its_lease_and_halts_the_others() -> None:
    run = rollout.run(fleet(*[host()] * 3), draws(3, fails=1))

    assert [*run.done] == [math.inf] * 3
    assert (run.fates[0], [*run.lost], run.evictions) == ("failed", [1], 1)


def test_one_lease_more_than_failed_hosts_lets_the_others_go_on() -> None:
    run = rollout.run(fleet(*[host()] * 3, leases=2), draws(3, fails=1))

    assert [math.isfinite(each) for each in run.done] == [False, True, True]


def test_a_failed_host_without_pods_halts_no_other_lease() -> None:
    run = rollout.run(fleet(host(free=0), host()), draws(2, fails=1))

    assert [math.isfinite(each) for each in run.done] == [False, True]


def test_a_budget_makes_hosts_wait_until_evicted_pods_are_back() -> None:
    pod = rollout.Pod(name="web", budgets=(0,), grace_s=30)
    run = rollout.run(fleet(*[host(free=0, pods=(pod,))] * 2, leases=2, budgets=(1,)), draws(2, pods=1))

    assert [*run.done] == [10 + 1 + 20 + 30, 10 + 1 + 20 + 40 + 20 + 30]


def test_a_budget_that_allows_nothing_blocks_its_host_and_no_other() -> None:
    pod = rollout.Pod(name="web", budgets=(0,), grace_s=30)
    run = rollout.run(fleet(host(free=0, pods=(pod,)), host(), budgets=(0,)), draws(2, pods=1))

    assert [*run.done] == [math.inf, 10 + 1 + 300 + 51]
    assert [*run.fates] == ["undrained", ""]


def test_where_nobody_is_evicted_the_pods_are_taken_to_stay() -> None:
    run = rollout.run(fleet(host(evicts=False), host(free=0)), draws(2))

    assert [*run.done] == [math.inf, 40]
    assert run.evictions == 0


def test_most_of_what_is_away_at_once_is_counted() -> None:
    run = rollout.run(fleet(*[host(devices=4, free=3)] * 5, leases=2), draws(5))

    assert (run.most_away, run.most_devices_away, run.evictions, run.most_evicting) == (2, 8, 15, 6)


@pytest.mark.parametrize("waiting", [1, 2, 7, 40])
def test_the_first_of_those_who_ask_for_a_lease_comes_as_soon_as_is_drawn(waiting: int) -> None:
    lots = random.Random(waiting)  # noqa: S311 - as above

    def first() -> float:
        """The first of hosts that each ask once in their pause, at a moment of its own."""
        return min(rollout.ASKS_S * lots.random() for _ in range(waiting))

    asked = sum(first() for _ in range(4000)) / 4000
    drawn = sum(rollout.first_ask_s(lots.random(), waiting) for _ in range(4000)) / 4000

    assert drawn == pytest.approx(asked, rel=0.08)


def test_hosts_that_never_drain_do_not_go_on_for_ever_beside_one_that_waits_in_vain() -> None:
    made = fleet(host(), host(), *[host(leases=1, evicts=False)] * 60)
    made = msgspec.structs.replace(made, leases=(*made.leases, *made.leases))

    run = rollout.run(made, draws(62, fails=1))

    assert {*run.done} == {math.inf}
