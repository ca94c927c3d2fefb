"""Brute force agrees: what plan says of every node is what slow judges make of documents, rules and DaemonSets."""

import copy
import dataclasses
from collections.abc import Callable

import pytest
from msgspec import structs

from tests import effort
from tests.property import campaign
from tests.property.fleets import fleet as fleets
from tests.property.fleets import trial

pytestmark = pytest.mark.long


@pytest.mark.seeded
@pytest.mark.parametrize("tried", [trial.of_kae, trial.of_recipes], ids=["kae", "recipes"])
def test_plan_rules_and_daemonsets_of_a_fleet_are_what_the_judges_say(
    tried: Callable[[int], campaign.Result],
) -> None:
    results = [tried(seed) for seed in range(5, 5 + effort.examples(gate=3, long=20))]  # `make fleets` goes further

    assert [f"seed {result.seed}: {fault}" for result in results for fault in result.faults] == []


def without_a_rule(done: trial.Compiled) -> trial.Compiled:
    rules = copy.deepcopy(done.rules)
    (pools,) = (item for item in rules if item["metadata"]["name"] == "kae-pool-tls-00")
    del pools["spec"]["rules"][-1]
    return dataclasses.replace(done, rules=rules)


def without_a_daemonset(done: trial.Compiled) -> trial.Compiled:
    return dataclasses.replace(done, drivers=done.drivers[1:])


def with_a_node_in_another_pool(done: trial.Compiled) -> trial.Compiled:
    one, other = [decision for decision in done.view.decisions if decision.pool and decision.pool.group][:2]
    rest = [decision for decision in done.view.decisions if decision is not one]
    decisions = (structs.replace(one, pool=other.pool), *rest)
    return dataclasses.replace(done, view=structs.replace(done.view, decisions=decisions))


def test_the_judges_notice_what_a_fleet_lacks() -> None:
    fleet = fleets.drawn(46)
    view, errors = trial.viewed(fleet)
    done = trial.compiled(view)

    def disagreements(done: trial.Compiled) -> list[str]:
        return list(trial.disagreements(fleet, done, trial.expected(fleet)))

    assert errors == []
    assert disagreements(done) == []
    for spoil in (without_a_rule, without_a_daemonset, with_a_node_in_another_pool):
        assert disagreements(spoil(done)) != [], spoil.__name__
