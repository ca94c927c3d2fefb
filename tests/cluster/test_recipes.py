"""Policies of several recipes before the real DaemonSet controller: they share nodes, and none moves another's pods."""

import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control import manifests
from tests.cluster.local import waiting
from tests.cluster.simulated import placements, stages
from tests.property.fleets import machines, stacks

OLD, NEW = "5.10.0-216.0.0.115.oe2203sp4.aarch64", "6.6.0-72.0.0.76.oe2403sp1.aarch64+debug"
NODES = 40
RECIPES = [recipe for recipe in stacks.RECIPES if recipe["metadata"]["name"] in ("nic", "kmod")]
PER_KERNEL = "8.1-${KERNEL_FULL_VERSION}"


@pytest.fixture(scope="module")
def hosts() -> Sequence[machines.Machine]:
    """Machines with devices of KAE, with network cards, with both and with neither; some keep programs away."""
    draw = random.Random(21)  # noqa: S311 - They are to be the same each time.
    made = []
    for number in range(NODES):
        out = {"openfuyao.com/nic.deploy.driver": "false"} if number % 13 == 5 else {}
        one = machines.Machine(
            name=f"stack-{number:02}",
            kernel=OLD if number % 3 else NEW,
            labels={"desk": draw.choice(("a", "b", "c")), **out},
            taints=({"key": "dedicated", "value": "x", "effect": "NoSchedule"},) if number % 17 == 4 else (),
            functions={"hpre": (2, 0)} if number % 4 else {},
            others=(),
            reported=True,
            cards=(1, 0) if number % 5 else (0, 0),
        )
        made.append(one)
    return made


def policies(canary: str) -> list[dict[str, Any]]:
    wave = {"name": "canary", "percent": 25}
    mappings = [{"name": "old", "regexp": "oe2203"}, {"name": "new", "regexp": "oe2403"}]
    kae = {"driver": {"version": "2.2.0", "rollout": {"waves": [{**wave, "version": "2.3.0"}]}}}
    nic = {
        "recipe": "nic",
        "nodeSelector": {"matchLabels": {"desk": "a"}},
        "images": {"modules": {"version": PER_KERNEL}},
        "kernelMappings": mappings,
        "rollout": {"waves": [{**wave, "images": {"user": {"version": canary}}}]},
    }
    kmod = {"recipe": "kmod", "rollout": {"waves": [{**wave, "images": {"modules": {"version": "1.1"}}}]}}
    return [
        manifests.document("KAEPolicy", "tls", {**kae, "devicePlugin": {"version": "1.4.1"}}),
        manifests.document("DevicePolicy", "desk-a", nic),
        manifests.document("DevicePolicy", "others", {"recipe": "nic", "default": True}),
        manifests.document("DevicePolicy", "all", kmod),
    ]


@pytest.fixture
def planned(stage: stages.Stage, tmp_path: Path) -> list[placements.Placement]:
    """The pods of the plan, which are there. A first compile brings the rules that find the cards."""
    stage.apply(manifests.compiled(tmp_path, stage.documents(*policies("8.1"), recipes=RECIPES)))
    return stage.follow(tmp_path, *policies("8.1"), recipes=RECIPES)[1]


def by_node(placed: Collection[placements.Placement]) -> Mapping[str, set[str]]:
    recipes: dict[str, set[str]] = {}
    for node, daemon_set, _ in placed:
        recipes.setdefault(node, set()).add(daemon_set.partition("-d")[0])
    return recipes


def test_pods_of_recipes_are_where_the_plan_says(stage: stages.Stage, planned: list[placements.Placement]) -> None:
    placed = stage.placed()

    assert placed == planned
    sharing = [recipes for recipes in by_node(placed).values() if recipes == {"kae", "nic", "kmod"}]
    assert len(sharing) > NODES // 4


def test_a_wave_of_one_recipe_restarts_no_pod_of_another(
    stage: stages.Stage, planned: list[placements.Placement], tmp_path: Path
) -> None:
    waiting.until("Ready pods", lambda: all(pod.is_ready for pod in stage.pods()))
    before = {(pod.placement, pod.uid) for pod in stage.pods()}
    canary = {placement for placement in planned if placement[1].startswith("nic-driver-desk-a--canary--")}

    change, _ = stage.follow(tmp_path, *policies("8.2"), recipes=RECIPES)

    moved = {placement for placement, _ in before - {(pod.placement, pod.uid) for pod in stage.pods()}}
    assert moved == canary
    assert canary
    assert {title.partition("--")[0] for title in change.applied} == {"DaemonSet nic-driver-desk-a"}
    assert all("--canary--" in title for title in change.applied)
    assert change.removed == ()
    assert change.labelled == frozenset()
