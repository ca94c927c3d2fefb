"""Brute force agrees: what plan says of every node is what slow judges make of documents, rules and DaemonSets."""

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.property.fleets import documents, machines, trial
from tests.property.fleets import fleet as fleets


@pytest.mark.parametrize("seeds", [range(at, at + 4) for at in range(0, 12, 4)])
def test_plan_rules_and_daemonsets_of_a_random_fleet_are_what_the_judges_say(seeds: range) -> None:
    faults = [f"seed {result.seed}: {fault}" for result in trial.batch(seeds) for fault in result.faults]

    assert faults == []


@pytest.mark.parametrize("seeds", [range(at, at + 4) for at in range(0, 12, 4)])
def test_recipes_share_the_nodes_of_a_fleet_as_the_judges_say(seeds: range) -> None:
    faults = [f"seed {result.seed}: {fault}" for result in trial.of_recipes(seeds) for fault in result.faults]

    assert faults == []


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


def compiled() -> trial.Compiled:
    """The fleet, as the compiler compiles it."""
    view, errors = trial.viewed(fleet())
    assert errors == []
    return trial.compiled(view)


def found(done: trial.Compiled) -> list[str]:
    return list(trial.disagreements(fleet(), done, trial.expected(fleet())))


def pool_rules(done: trial.Compiled) -> tuple[trial.Compiled, list[dict[str, Any]]]:
    """A copy, with the rules of its object of pools."""
    rules = copy.deepcopy(done.rules)
    (pools,) = (item for item in rules if item["metadata"]["name"] == "kae-pool-tls")
    return dataclasses.replace(done, rules=rules), pools["spec"]["rules"]


def test_the_compiler_and_the_judges_agree_about_a_fleet() -> None:
    assert found(compiled()) == []


@pytest.mark.parametrize("number", range(1, 8))
def test_a_missing_rule_of_pools_is_noticed(number: int) -> None:
    """Two groups, two mappings, four pools."""
    done, rules = pool_rules(compiled())
    del rules[number]

    assert len(rules) == 7
    assert found(done) != []


def test_a_rule_of_pools_that_takes_another_node_is_noticed() -> None:
    done, rules = pool_rules(compiled())
    rules[0]["matchFeatures"][0]["matchExpressions"]["nodename"]["value"].append("node-30")

    assert found(done) != []


def test_a_daemonset_beside_its_pool_is_noticed() -> None:
    done = compiled()
    drivers = copy.deepcopy(done.drivers)
    affinity = drivers[-1]["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    for term in affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]:
        term["matchExpressions"] = [one for one in term["matchExpressions"] if "kae.pool." not in one["key"]]

    assert found(dataclasses.replace(done, drivers=drivers)) != []


@pytest.mark.parametrize("field", ["drivers", "plugins", "rules"])
def test_a_missing_object_is_noticed(field: str) -> None:
    done = compiled()
    objects = getattr(done, field)

    for index in range(len(objects)):
        assert found(dataclasses.replace(done, **{field: objects[:index] + objects[index + 1 :]})) != []


def without_a_verdict(verdicts: tuple[Any, ...]) -> tuple[Any, ...]:
    return verdicts[1:]


def with_another_pool(verdicts: tuple[Any, ...]) -> tuple[Any, ...]:
    first, second = [verdict for verdict in verdicts if verdict.pool and verdict.pool.group][:2]
    return (dataclasses.replace(first, pool=second.pool), *(one for one in verdicts if one is not first))


def with_a_node_twice(verdicts: tuple[Any, ...]) -> tuple[Any, ...]:
    return (*verdicts, verdicts[0])


@pytest.mark.parametrize("spoil", [without_a_verdict, with_another_pool, with_a_node_twice])
def test_a_plan_that_says_otherwise_is_noticed(spoil: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> None:
    done = compiled()

    view = dataclasses.replace(done.view, decisions=spoil(done.view.decisions))

    assert found(dataclasses.replace(done, view=view)) != []


def test_policies_that_overlap_are_refused_as_the_judge_refuses_them() -> None:
    one = documents.document(
        "KAEPolicy", "web", {"nodeSelector": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}
    )
    both = dataclasses.replace(fleet(), policies=(*fleet().policies, one))

    _, errors = trial.viewed(both)

    assert [error.code for error in errors] == ["policy-overlap"]
    assert list(trial.unexpected(both, errors)) == []
    assert list(trial.unexpected(both, [])) == ["policies ('tls', 'web') overlap for one of compiler and judge alone"]
    assert list(trial.unexpected(fleet(), errors)) == [
        "policies ('tls', 'web') overlap for one of compiler and judge alone"
    ]
