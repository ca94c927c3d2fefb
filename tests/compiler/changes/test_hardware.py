"""What a changed match may do to a node is unknown only where NFD could decide either way."""

import copy
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from compiler import pipeline
from compiler.changes import hardware, sides
from compiler.inventory import snapshot
from tests import builders, effort
from tests.property import nfd_rules

LABELS = [f"example.com/{name}.present" for name in ("npu", "npu.a", "npu.b")]
ATTRIBUTES = {"vendor": ["1", "2"], "device": ["a", "b", "c"], "class": ["x", "y"]}


def expressions(random: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in random.sample(sorted(ATTRIBUTES), random.randint(1, 2)):
        op = random.choice(["In", "In", "NotIn", "NotIn", "Exists", "DoesNotExist"])
        values = random.sample(ATTRIBUTES[name], random.randint(1, len(ATTRIBUTES[name])))
        found[name] = {"op": op} | ({"value": values} if op in ("In", "NotIn") else {})
    return found


def features(random: Random) -> list[dict[str, Any]]:
    known = random.choices(["pci.device", "cpu.model"], k=random.choice([1, 1, 2]))
    return [{"feature": feature, "matchExpressions": expressions(random)} for feature in known]


def rule(random: Random, label: str) -> dict[str, Any]:
    every = [{"matchFeatures": features(random)} for _ in range(random.choice([1, 1, 2]))]
    return {"labels": {label: "true"}, **(every[0] if len(every) == 1 else {"matchAny": every})}


def rules(random: Random) -> dict[str, Any]:
    return {"metadata": {"name": "npu"}, "spec": {"rules": [rule(random, label) for label in LABELS]}}


def edited(random: Random, before: dict[str, Any]) -> dict[str, Any]:
    """The rules with other conditions in the place of some, with those of another label, or with other values."""
    after: dict[str, Any] = copy.deepcopy(before)
    for own in after["spec"]["rules"]:
        match random.randrange(4):
            case 0:
                own.update(rule(random, *own["labels"]))
            case 1:
                other = random.choice(before["spec"]["rules"])
                own.pop("matchAny", None), own.pop("matchFeatures", None)
                own.update({key: value for key, value in other.items() if key != "labels"})
            case 2:
                term = random.choice(random.choice(own.get("matchAny", [own]))["matchFeatures"])
                term["matchExpressions"] |= expressions(random)
    return after


def element(random: Random) -> dict[str, str]:
    return {name: random.choice(values) for name, values in ATTRIBUTES.items() if random.random() < 0.8}


def labels(found: Mapping[str, Any], machine: nfd_rules.Features) -> dict[str, str]:
    return nfd_rules.labels([found], machine)


def machines(random: Random) -> Sequence[nfd_rules.Features]:
    devices = [tuple(element(random) for _ in range(random.randint(0, 2))) for _ in range(20)]
    return [
        nfd_rules.Features(attributes={"cpu.model": element(random)}, instances={"pci.device": own}) for own in devices
    ]


def node(given: Mapping[str, str]) -> snapshot.Node:
    return builders.node(machine=builders.profile(dict(given)))


@pytest.mark.seeded
@hypothesis.settings(max_examples=effort.examples(gate=150, long=5_000))
@hypothesis.given(st.integers(0, 2**32))
def test_a_node_of_which_nothing_is_said_keeps_its_labels_and_gets_no_other(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - a test's choice
    before = rules(random)
    after = edited(random, before)
    shift = hardware.Shift(hardware.of_object(before), hardware.of_object(after))

    for machine in machines(random):
        was, now = labels(before, machine), labels(after, machine)
        for label in LABELS:
            if label in was and label not in now:
                assert shift.may_lose(node(was), label)
            if label not in was and label in now:
                assert shift.may_gain(node(was), label)


PCI = {"kind": "a", "vendor": "1234", "devices": ["0001"]}
LESS, MORE = {"devices": ["0002"]}, {"devices": ["0001", "0002"]}


@pytest.mark.parametrize(
    ("was", "now", "loses", "gains"),
    [
        ([PCI], [PCI], False, False),
        ([PCI], [PCI | LESS], True, True),
        ([PCI], [PCI | MORE], False, True),
        ([PCI | MORE], [PCI], True, False),
        ([PCI], [PCI | {"classes": ["0200"]}], True, False),
        ([PCI | {"classes": ["0200"]}], [PCI], False, True),
        ([PCI], [PCI, PCI | {"kind": "b", "vendor": "4321"}], False, True),
        ([PCI], [PCI | {"kind": "b"}], False, False),
    ],
)
def test_the_rules_of_recipes_are_compared_by_what_they_take(
    was: list[Any], now: list[Any], loses: bool, gains: bool
) -> None:
    own = [builders.device_policy("npu", builders.recipe("npu", match={"pci": pci})) for pci in (was, now)]
    path = "node-feature-rule/nodefeaturerule-npu.yaml"
    shift = hardware.Shift(*(hardware.of_object(builders.objects([side])[path]) for side in own))
    label = own[0].recipe.present

    assert shift.may_lose(node({label: "true"}), label) is loses
    assert shift.may_gain(node({}), label) is gains


def test_a_rule_says_the_same_before_it_is_rendered_and_after() -> None:
    pci = [PCI, PCI | {"kind": "b", "vendor": "4321", "virtual": ["0003"]}]
    policy = builders.device_policy("npu", builders.recipe("npu", match={"pci": pci}))
    found, _ = builders.view([policy])
    objects = builders.objects([policy])

    made = sides.of_plan(found, pipeline.manifests_of(found))

    assert made.rules["npu"] == hardware.of_object(objects["node-feature-rule/nodefeaturerule-npu.yaml"])
    assert made.rules["kae"] == hardware.of_object(objects["node-feature-rule/nodefeaturerule-kae.yaml"])
