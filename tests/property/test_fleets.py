"""Brute force agrees: what plan says of every node is what slow judges make of documents, rules and DaemonSets."""

import copy
import dataclasses
from collections.abc import Callable, Sequence

import pytest

from tests import effort
from tests.property.fleets import documents, machines, trial
from tests.property.fleets import fleet as fleets

Batch = Callable[[Sequence[int]], list[trial.Result]]


@pytest.mark.seeded
@pytest.mark.parametrize("batch", [trial.batch, trial.of_recipes], ids=["kae", "recipes"])
def test_plan_rules_and_daemonsets_of_a_random_fleet_are_what_the_judges_say(batch: Batch) -> None:
    results = batch(range(5, 5 + effort.examples(gate=3, long=20)))  # `make fleets` goes further

    assert [f"seed {result.seed}: {fault}" for result in results for fault in result.faults] == []


def fleet() -> fleets.Fleet:
    """Thirty nodes with two kernels, a canary among them, and one that joins later."""
    driver = {
        "version": "2.2.0",
        "kernelMappings": [
            {"name": "old", "regexp": r"^5\.10\.", "version": "2.1.0"},
            {"name": "new", "regexp": "oe24"},
        ],
        "rollout": {"waves": [{"name": "canary", "percent": 25, "state": "Absent"}]},
    }
    hosts = tuple(
        machines.Machine(
            name=f"node-{number:02}",
            kernel="5.10.0-216.oe2203sp4.aarch64+" if number % 3 else "6.6.0-28.oe2403.aarch64",
            labels={"zone": "b" if number % 5 == 1 else "a"},
            taints=(),
            functions={"hpre": (2, 0)},
            others=(),
            reported=True,
        )
        for number in range(31)
    )
    selector = {"matchLabels": {"zone": "a"}}
    return fleets.Fleet(
        seed=0,
        cluster=documents.document("KAECluster", "east", {"nfd": {"enabled": False, "nodefeaturerules": True}}),
        policies=(
            documents.document("KAEPolicy", "tls", {"nodeSelector": selector, "driver": driver}),
            documents.document("KAEPolicy", "others", {"default": True}),
        ),
        nodes=tuple(host.node(host.device_labels) for host in hosts[:-1]),
        hosts=hosts[:-1],
        later=hosts[-1:],
    )


def without_a_rule(done: trial.Compiled) -> trial.Compiled:
    rules = copy.deepcopy(done.rules)
    (pools,) = (item for item in rules if item["metadata"]["name"] == "kae-pool-tls")
    del pools["spec"]["rules"][-1]
    return dataclasses.replace(done, rules=rules)


def without_a_daemonset(done: trial.Compiled) -> trial.Compiled:
    return dataclasses.replace(done, drivers=done.drivers[1:])


def with_a_node_in_another_pool(done: trial.Compiled) -> trial.Compiled:
    one, other = [decision for decision in done.view.decisions if decision.pool and decision.pool.group][:2]
    rest = [decision for decision in done.view.decisions if decision is not one]
    decisions = (dataclasses.replace(one, pool=other.pool), *rest)
    return dataclasses.replace(done, view=dataclasses.replace(done.view, decisions=decisions))


def test_the_judges_notice_what_a_fleet_lacks() -> None:
    view, errors = trial.viewed(fleet())
    done = trial.compiled(view)

    def disagreements(done: trial.Compiled) -> list[str]:
        return list(trial.disagreements(fleet(), done, trial.expected(fleet())))

    assert errors == []
    assert disagreements(done) == []
    for spoil in (without_a_rule, without_a_daemonset, with_a_node_in_another_pool):
        assert disagreements(spoil(done)) != [], spoil.__name__
