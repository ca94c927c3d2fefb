"""A small day of `benchmarks.delivery`: what breaks, and what a measure changes."""

import math

from msgspec.structs import replace

from benchmarks import delivery
from benchmarks.delivery_parts import Parts, Sized

_TEN = Sized(
    clusters=10,
    files=500,
    compile_s=1.0,
    tenth_s=0.3,
    again_s=0.1,
    check_s=1.0,
    diff_s=0.5,
    clone_s=0.1,
    clone_mb=0.1,
    history_s=0.1,
    commit_s=0.1,
    push_s=0.1,
    fetch_s=0.1,
    checkout_s=0.1,
    compare_s=0.01,
)
PARTS = Parts(
    nodes=100,
    sized=(_TEN, replace(_TEN, clusters=20, files=1000, compile_s=2.0, check_s=2.0)),
    watcher_s=0.1,
    look_s=0.01,
    inventory_s=0.2,
    kustomize_s=0.1,
    branch_s=0.01,
    branch_mb=0.01,
    older_s=0.0001,
    older_mb=0.001,
)
DAY = delivery.Settings(clusters=10, pull_requests=5, node_days=4)


def times(**settings: object) -> delivery.Times:
    """Return a day of ten clusters."""
    return delivery.simulated(replace(DAY, **settings), PARTS, seed=1)


def p95(values: object) -> float:
    """Return what 95 of 100 do not exceed."""
    return delivery.percentile(values, 0.95)  # type: ignore[arg-type]  # a stage of Times


def test_the_same_seed_makes_the_same_day_and_another_one_does_not() -> None:
    assert times() == times()
    assert times() != delivery.simulated(DAY, PARTS, seed=2)


def test_all_that_is_committed_comes_to_the_main_line_and_all_requests_to_clusters() -> None:
    day = times()

    assert not delivery.limits(day)
    assert math.isfinite(max(day.inventory)) and math.isfinite(max(day.request))
    assert len(day.checked) == 5
    assert 60 < delivery.percentile(day.inventory, 0.5) < delivery.CLOCK_S + 120


def test_watchers_on_one_branch_lose_races_and_those_on_their_own_do_not() -> None:
    together, apart = (times(own_branches=own, strict=False, node_days=0.02) for own in (False, True))

    assert together.lost > apart.lost == 0
    assert max(together.watcher) > 2 * max(apart.watcher)
    assert together.commits > 5 * apart.commits


def test_the_age_of_branches_costs_a_job_time_only_where_it_fetches_their_history() -> None:
    whole, newest = (times(age_days=10_000, own_branches=True, shallow=shallow) for shallow in (False, True))

    assert p95(whole.compiled) > 5 * p95(newest.compiled)


def test_a_push_of_jobs_keeps_strict_merges_waiting() -> None:
    strict, free = (times(strict=strict, clock_s=90.0, pull_requests=40, node_days=0.5) for strict in (True, False))

    assert p95(strict.checked) > 2 * p95(free.checked)


def test_a_webhook_applies_sooner_and_paths_save_the_work_of_repo_servers() -> None:
    polled, told = (times(webhook=webhook) for webhook in (False, True))

    assert p95(told.applied) < p95(polled.applied) / 2
    assert times(paths=False).server_share > polled.server_share


def test_a_size_between_two_measured_ones_lies_on_their_line() -> None:
    assert delivery.at(PARTS, 15).compile_s == 1.5
    assert delivery.at(PARTS, 40).compile_s == 4.0


def test_a_day_that_passes_a_limit_says_which() -> None:
    told = delivery.limits(times(node_days=0.02, min_commit_s=10.0))

    assert [limit.partition(",")[0] for limit in told][:2] == ["pushes a minute", "commits a day on a branch"]
