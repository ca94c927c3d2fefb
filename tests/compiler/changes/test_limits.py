"""How much of a policy's nodes a compile may leave before it stops."""

from collections.abc import Iterable

import pytest

from compiler import pipeline
from compiler.changes.output import comparison, deployed
from compiler.fleet import definitions
from compiler.planning import plan
from tests import builders


def output(policy: definitions.Policy, names: Iterable[str]) -> tuple[deployed.Deployed, plan.Plan]:
    planned, _ = builders.view([policy], [builders.node(name) for name in names])
    compiled, objects = pipeline.render_cluster(planned, builders.renderer())
    return deployed.Deployed(index=compiled.index(), objects={item.path: item.data for item in objects}), planned


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

    removals, changes = pipeline.check_changes(
        comparison.Change(
            folder="output/east", before=before, after=after, planned=planned, policies=(narrowed,), removed_percent=20
        )
    )

    assert {item.finding.code for item in removals} == codes
    assert {item.code for item in changes} == (set() if codes else {"nodes-left-out"})
