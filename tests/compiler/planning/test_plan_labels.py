"""The labels that decide are exactly those whose loss changes a plan."""

from collections.abc import Sequence

import pytest

from compiler.fleet import definitions
from compiler.planning import plan
from tests import builders

LABELS = builders.HPRE | {
    "openfuyao.com/kae.hpre.pf": "2",
    "openfuyao.com/kae.hpre.vf": "8",
    "pool": "tls",
    "generation": "4",
    "canary": "yes",
    "kubernetes.io/hostname": "kp-1",
    "kubernetes.io/arch": "arm64",
    "zone": "a",
}
WAVE = {"name": "canary", "inventorySelector": {"matchLabels": {"canary": "yes"}}, "version": "2.3.0"}
ELSEWHERE = {"name": "west", "inventorySelector": {"matchLabels": {"zone": "a"}}, "clusters": ["west"]}
POLICY = builders.policy(
    nodeSelector={
        "matchLabels": {"pool": "tls"},
        "matchExpressions": [{"key": "generation", "operator": "Gt", "values": ["3"]}],
    },
    driver={"version": "2.2.0", "rollout": {"waves": [WAVE, ELSEWHERE]}},
)


def planned(ignored: Sequence[str] = ()) -> object:
    """What the nodes get: one with every label, and one that has opted out."""
    nodes = builders.reduced(
        builders.kubernetes_node("kp-1", LABELS),
        builders.kubernetes_node("kp-2", LABELS | {"openfuyao.com/kae.deploy.driver": "false"}),
        ignored=ignored,
    )
    decisions = builders.view([POLICY], nodes.nodes, builders.cluster())[0].decisions
    return [(item.names, item.policy, item.pool and item.pool.name, item.driver, item.resources) for item in decisions]


def deciding(cluster: str = "east", policies: Sequence[definitions.Policy] = (POLICY,)) -> set[str]:
    return {label.key for label in plan.deciding_labels(policies, cluster)}


@pytest.mark.parametrize("key", sorted(LABELS.keys() - deciding()))
def test_a_label_that_does_not_decide_can_be_left_out(key: str) -> None:
    assert planned([key]) == planned()


def test_each_label_of_a_selector_decides_with_its_place() -> None:
    for key in ("pool", "generation", "canary"):
        assert planned([key]) != planned()
        found = plan.deciding_labels([POLICY], "east")
        assert None not in [label.span for label in found if label.key == key]


def test_devices_and_opt_outs_decide_under_every_policy() -> None:
    for key in ("openfuyao.com/kae.hpre.present", "openfuyao.com/kae.hpre.vf", "openfuyao.com/kae.deploy.driver"):
        assert planned([key]) != planned()
        assert key in deciding(policies=[])


def test_a_group_decides_in_its_clusters_only() -> None:
    assert ("zone" in deciding(), "zone" in deciding("west")) == (False, True)


def test_what_the_recipes_of_a_cluster_look_at_decides_there() -> None:
    onload = builders.recipe(match={"pci": [{"kind": "sfc", "vendor": "1924", "classes": ["0200"]}]})
    labelled = builders.recipe("fpga", match={"labels": {"vendor.io/fpga": ["yes"]}})
    policies = [builders.device_policy("desk", onload, clusters=["east"]), builders.device_policy("lab", labelled)]

    here, elsewhere = (deciding(cluster, policies) - deciding() for cluster in ("east", "west"))

    assert elsewhere == {
        "vendor.io/fpga",
        "openfuyao.com/fpga.deploy.driver",
        "openfuyao.com/fpga.deploy.device-plugin",
    }
    assert here - elsewhere == {
        *("openfuyao.com/onload.present", "openfuyao.com/onload.deploy.driver"),
        *("openfuyao.com/onload.deploy.device-plugin", "openfuyao.com/onload.sfc.present"),
        *("openfuyao.com/onload.sfc.pf", "openfuyao.com/onload.sfc.vf"),
    }
