"""How much of a policy's nodes a compile may leave before it stops."""

from collections.abc import Iterable
from typing import Any

import pytest

from compiler import pipeline
from compiler.changes import sides
from compiler.checks.change import OutputChange
from compiler.fleet import definitions
from compiler.planning import plan
from tests import builders


def output(
    policy: definitions.Policy, names: Iterable[str], cluster: definitions.Cluster | None = None
) -> tuple[sides.Output, plan.Plan]:
    planned, _ = builders.view([policy], [builders.node(name) for name in names], cluster)
    compiled, objects = pipeline.render_cluster(planned, builders.renderer())
    return sides.of_output(compiled.index, {item.path: item.data for item in objects}), planned


def change(before: sides.Output, after: sides.Output, planned: plan.Plan, policy: definitions.Policy) -> OutputChange:
    same: dict[str, Any] = {"cluster": "east", "folder": "output/east", "removed_percent": 20}
    return OutputChange(before=before, after=after, planned=planned, policies=(policy,), **same)


@pytest.mark.parametrize(
    ("served", "lost", "codes"),
    [
        (2, 1, set()),
        (10, 1, set()),
        (10, 2, set()),
        (10, 3, {"removes-drivers", "removes-device-plugins"}),
        (9, 2, {"removes-drivers", "removes-device-plugins"}),
        (2, 2, {"removes-drivers", "removes-device-plugins"}),
        (1, 1, set()),
    ],
)
def test_a_fifth_of_the_nodes_or_one_node_may_be_left(served: int, lost: int, codes: set[str]) -> None:
    names = [f"kp-{number:02}" for number in range(served)]
    others = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": names[:lost]}
    before, _ = output(builders.policy(**builders.PINNED), names)
    narrowed = builders.policy(nodeSelector={"matchExpressions": [others]}, **builders.PINNED)
    after, planned = output(narrowed, names)

    removals, changes = pipeline.check_changes(change(before, after, planned, narrowed))

    assert {item.finding.code for item in removals} == codes
    assert {item.code for item in changes} == {"driver-left-behind" if codes else "nodes-left-out"}


def test_a_driver_that_becomes_absent_as_its_labels_go_is_a_removal() -> None:
    names = ["kp-1", "kp-2"]
    before, _ = output(builders.policy(**builders.PINNED), names)
    removing = builders.policy(**{**builders.PINNED, "driver": {**builders.PINNED["driver"], "state": "Absent"}})
    unlabelled = builders.cluster(nfd={"enabled": False, "nodefeaturerules": False})
    after, planned = output(removing, names, unlabelled)

    removals, _ = pipeline.check_changes(change(before, after, planned, removing))

    assert {item.finding.code for item in removals} == {"removes-drivers", "removes-device-plugins"}
