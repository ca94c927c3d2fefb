"""Pools before the real DaemonSet controller: where their pods are, and whom an edit of a policy moves."""

import itertools
import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import project
from tests.cluster.control import manifests
from tests.cluster.local import waiting
from tests.cluster.simulated import placements, stages
from tests.property import matcher
from tests.property.fleets import machines

OLD = "5.10.0-216.0.0.115.oe2203sp4.aarch64"
NEW = "6.6.0-72.0.0.76.oe2403sp1.aarch64+debug"
UNCOVERED = "4.19.90-2107.6.0.0192.8.oe1.bclinux.aarch64"
NAMES = tuple(f"pool-{number:02}" for number in range(60))
KERNEL = dict(zip(NAMES, itertools.cycle((OLD, OLD, NEW, NEW, UNCOVERED))))
"""The kernel of each node; no mapping covers the third one."""

SICK = sorted(NAMES, key=matcher.bucket)[-6:]
"""Nodes that no wave takes, whatever their kernel."""

OTHERS = tuple(f"other-{number}" for number in range(4))
"""Nodes of a policy that has but one pool."""

OPTED_OUT = "pool-00"


def machine(name: str, kernel: str, labels: Mapping[str, str]) -> machines.Machine:
    return machines.Machine(
        name=name, kernel=kernel, labels=labels, taints=(), functions={"hpre": (2, 0)}, others=(), reported=True
    )


@pytest.fixture(scope="module")
def hosts() -> Sequence[machines.Machine]:
    opted_out = {OPTED_OUT: {f"{machines.KAE}.deploy.driver": "false"}}
    of_main = [machine(name, KERNEL[name], {"fleet": "main", **opted_out.get(name, {})}) for name in NAMES]
    return [*of_main, *(machine(name, OLD, {"fleet": "other"}) for name in OTHERS)]


def policy(canary: Mapping[str, Any] | None = None, *, is_frozen: bool = True) -> dict[str, Any]:
    """Return the policy of the fleet, with other fields of the canary. One mapping names its images after kernels."""
    driver = {
        "version": "2.2.0",
        "kernelMappings": [
            {"name": "old", "regexp": r"^5\.10\.", "version": "2.1.0"},
            {"name": "new", "regexp": "oe2403", "image": "kae-driver-${KERNEL_FULL_VERSION}"},
        ],
        "rollout": {
            "waves": [
                {"name": "canary", "percent": 10, "version": "2.3.0", **(canary or {})},
                {"name": "half", "percent": 50, "version": "2.2.1"},
            ],
            "frozen": [{"name": "sick", "nodes": SICK, "version": "2.0.9"}] if is_frozen else [],
        },
    }
    selector = {"matchLabels": {"fleet": "main"}}
    spec = {"nodeSelector": selector, "driver": driver, "devicePlugin": {"version": "1.4.1"}}
    return manifests.document("KAEPolicy", "fleet", spec)


class Fleet:
    def __init__(self, stage: stages.Stage, root: Path) -> None:
        self.stage = stage
        self._root = root
        self.merge(policy())
        self.planned = self.plan()
        self.pods = self.identities()
        self.objects = self.written()
        self.generations = stage.generations()

    def apply(self, changed: Mapping[str, Any]) -> stages.Change:
        spec = {"default": True, "driver": {"version": "2.2.0"}, "devicePlugin": {"version": "1.4.1"}}
        others = manifests.document("KAEPolicy", "others", spec)
        return self.stage.apply(manifests.compiled(self._root, self.stage.documents(changed, others)))

    def merge(self, changed: Mapping[str, Any]) -> stages.Change:
        began_s = time.monotonic()
        change = self.apply(changed)
        self.stage.wait_for(self.plan())
        took_s = time.monotonic() - began_s
        sys.stdout.write(
            f"{len(change.labelled)} nodes labelled anew, {len(self.stage.pods())} pods settled: {took_s:.1f} s\n"
        )
        return change

    def plan(self) -> list[placements.Placement]:
        return placements.foretold(self._root)

    def identities(self) -> frozenset[tuple[placements.Placement, str]]:
        return frozenset((pod.placement, pod.uid) for pod in self.stage.pods())

    def written(self) -> dict[str, bytes]:
        tree = project.tree(self._root / "output" / stages.CLUSTER)
        return {path: text for path, text in tree.items() if "/" in path}

    def rewritten(self) -> set[str]:
        return {path for path, _ in self.objects.items() ^ self.written().items()}

    def replaced(self) -> frozenset[placements.Placement]:
        return frozenset(placement for placement, _ in self.pods - self.identities())


@pytest.fixture
def fleet(stage: stages.Stage, tmp_path: Path) -> Fleet:
    return Fleet(stage, tmp_path)


def pools(placed: Collection[placements.Placement]) -> dict[str, str]:
    """Return the group and mapping of the installer on each node of a policy that has such."""
    names = ((node, daemon_set.split("--")) for node, daemon_set, _ in placed)
    return {node: f"{parts[1]} {parts[2]}" for node, parts in names if len(parts) > 1}


def expected(canary: float = 10, *, is_frozen: bool = True) -> dict[str, str]:
    """Return the same, by the nodes' names and kernels alone, if the canary ends at so many per cent."""
    bounds = {"canary": between(0, canary), "half": between(0, 50), "rest": set(NAMES)}
    groups = {"sick": set(SICK), **bounds} if is_frozen else bounds
    mappings = {OLD: "old", NEW: "new"}
    first = {name: next(group for group, members in groups.items() if name in members) for name in driven(NAMES)}
    return {name: f"{group} {mappings[KERNEL[name]]}" for name, group in first.items()}


def between(low: float, high: float) -> set[str]:
    return {name for name in NAMES if low * 100 <= matcher.bucket(name) < high * 100}


def driven(names: Collection[str]) -> set[str]:
    return {name for name in names if KERNEL[name] != UNCOVERED and name != OPTED_OUT}


def is_driver(placement: placements.Placement) -> bool:
    return placement[1].startswith("kae-driver-")


def test_each_pod_of_a_pool_is_where_the_plan_says(fleet: Fleet) -> None:
    placed = fleet.stage.placed()

    assert placed == fleet.planned
    assert {node for node, *_ in placed} == {*NAMES, *OTHERS}
    assert {node for node, *_ in filter(is_driver, placed)} == {*driven(NAMES), *OTHERS}
    assert pools(placed) == expected()
    assert len(set(expected().values())) == 8


def test_a_wider_wave_moves_the_nodes_that_join_it_and_no_other_pod(fleet: Fleet) -> None:
    joining = between(10, 40)

    change = fleet.merge(policy({"percent": 40}))

    rule = "node-feature-rule/nodefeaturerule-kae-pool-fleet.yaml"
    assert fleet.rewritten() == {rule}
    assert change.applied == ("NodeFeatureRule kae-pool-fleet",)
    assert change.removed == ()
    assert change.labelled == driven(joining)
    assert fleet.replaced() == {
        placement for placement in fleet.planned if is_driver(placement) and placement[0] in driven(joining)
    }
    assert pools(fleet.stage.placed()) == expected(canary=40)
    assert fleet.stage.generations() == fleet.generations


def test_another_version_of_a_wave_replaces_its_pods_alone_at_the_pace_it_may(fleet: Fleet) -> None:
    canary = {placement for placement in fleet.planned if "--canary--" in placement[1]}
    daemon_sets = {name for _, name, _ in canary}
    waiting.until("Ready pods", lambda: all(pod.is_ready for pod in fleet.stage.pods()))

    change = fleet.apply(policy({"version": "2.3.1"}))
    lacking = rolled(fleet)

    assert {f"DaemonSet {name}" for name in daemon_sets} == set(change.applied)
    assert change.removed == ()
    assert change.labelled == frozenset()
    assert {name for name, _ in fleet.generations.items() ^ fleet.stage.generations().items()} == daemon_sets
    assert fleet.replaced() == canary
    assert {name for counts in lacking for name in counts} <= daemon_sets
    assert max(max(counts.values(), default=0) for counts in lacking) == 1


def rolled(fleet: Fleet) -> list[Counter[str]]:
    """Return the missing Ready pods of each DaemonSet at each look, until the pods are those of the plan."""
    wanted, began_s = fleet.plan(), time.monotonic()
    looks: list[Counter[str]] = []

    def is_done() -> bool:
        there = fleet.stage.pods()
        ready = Counter(pod.daemon_set for pod in there if pod.is_ready)
        looks.append(Counter(name for _, name, _ in wanted) - ready)
        return not looks[-1] and sorted(pod.placement for pod in there) == wanted

    waiting.until("the new version", is_done)
    sys.stdout.write(f"{len(looks)} looks at {len(wanted)} pods: {time.monotonic() - began_s:.1f} s\n")
    return looks


def test_a_frozen_group_that_is_thawed_joins_the_rest_and_moves_no_other_pod(fleet: Fleet) -> None:
    change = fleet.merge(policy(is_frozen=False))

    assert change.labelled == {name for name in SICK if name in driven(NAMES)}
    assert fleet.replaced() == {
        placement for placement in fleet.planned if is_driver(placement) and placement[0] in SICK
    }
    assert pools(fleet.stage.placed()) == expected(is_frozen=False)
    assert change.applied == ("NodeFeatureRule kae-pool-fleet",)
    assert {title.split("--")[:2] == ["DaemonSet kae-driver-fleet", "sick"] for title in change.removed} == {True}


def test_a_node_that_joins_later_is_in_the_rest_until_the_next_compile(fleet: Fleet) -> None:
    name = next(name for name in map("late-{}".format, range(1000)) if matcher.bucket(name) < 1000)

    with fleet.stage.joined(machine(name, OLD, {"fleet": "main"})):
        waiting.until("its pods", lambda: name in pools(fleet.stage.placed()))
        at_first = pools(fleet.stage.placed())
        change = fleet.merge(policy())
        at_last = pools(fleet.stage.placed())

    assert at_first == {**expected(), name: "rest old"}
    assert at_last == {**expected(), name: "canary old"}
    assert change.applied == ("NodeFeatureRule kae-pool-fleet",)
    assert change.labelled == {name}
    assert fleet.replaced() == frozenset()
