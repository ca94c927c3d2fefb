"""Assignments of nodes, the reasons for them, and the resources that each node will advertise."""

from typing import Any

import pytest

from compiler.fleet import definitions, pods, taints
from compiler.inventory import snapshot
from compiler.planning import plan
from tests import builders

DRIVER_OUT = "openfuyao.com/kae.deploy.driver"
PLUGIN_OUT = "openfuyao.com/kae.deploy.device-plugin"


def decision(policy: definitions.Policy, node: snapshot.Node, **cluster: Any) -> plan.Decision:
    (decided,) = builders.view([policy], [node], builders.cluster(**cluster))[0].decisions
    return decided


def counted(**counts: str) -> snapshot.Profile:
    """A machine with a count of functions by kind, such as hpre_pf."""
    labels = {"openfuyao.com/kae.present": "true"}
    for name, count in counts.items():
        kind, _, function = name.partition("_")
        labels |= {f"openfuyao.com/kae.{kind}.present": "true", f"openfuyao.com/kae.{kind}.{function}": count}
    return builders.profile(labels)


@pytest.mark.parametrize(
    ("toleration", "taint", "bears"),
    [
        ({"key": "a", "value": "1", "effect": "NoSchedule"}, "a=1:NoSchedule", True),
        ({"key": "a", "value": "1", "effect": "NoSchedule"}, "a=1:NoExecute", False),
        ({"key": "a", "value": "1"}, "a=1:NoExecute", True),
        ({"key": "a", "value": "1"}, "a=2:NoExecute", False),
        ({"key": "a", "value": "1"}, "b=1:NoExecute", False),
        ({"key": "a"}, "a:NoSchedule", True),
        ({"key": "a"}, "a=1:NoSchedule", False),
        ({"key": "a", "value": ""}, "a:NoSchedule", True),
        ({"key": "a", "operator": "Exists"}, "a=1:NoSchedule", True),
        ({"key": "a", "operator": "Exists"}, "b:NoSchedule", False),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute"}, "a:NoSchedule", False),
        ({"operator": "Exists"}, "anything=at-all:NoExecute", True),
        ({"operator": "Exists", "effect": "NoSchedule"}, "anything:NoExecute", False),
        ({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}, "a:NoExecute", True),
    ],
)
def test_a_toleration_bears_a_taint_as_in_kubernetes(toleration: dict[str, Any], taint: str, bears: bool) -> None:
    assert taints.tolerates(pods.Toleration(**toleration), builders.taint(taint)) is bears


def test_a_taint_that_nothing_tolerates_keeps_both_components_away() -> None:
    node = builders.node(machine=builders.profile(taints=[builders.taint("dedicated=db:NoSchedule")]))

    decided = decision(builders.policy(), node)

    assert (decided.driver.image, decided.device_plugin.image, decided.pool, decided.resources) == (
        None,
        None,
        None,
        (),
    )
    assert decided.policy is not None
    assert "dedicated=db:NoSchedule" in decided.driver.reason
    assert "dedicated=db:NoSchedule" in decided.device_plugin.reason


def test_a_preference_keeps_nobody_away() -> None:
    node = builders.node(machine=builders.profile(taints=[builders.taint("dedicated:PreferNoSchedule")]))

    assert decision(builders.policy(), node).driver.image is not None


def test_each_taint_needs_a_toleration() -> None:
    taints = [builders.taint("a:NoSchedule"), builders.taint("b:NoExecute")]
    node = builders.node(machine=builders.profile(taints=taints))
    policy = builders.policy(daemonSets={"tolerations": [{"key": "a", "operator": "Exists"}]})

    decided = decision(policy, node)

    assert "b:NoExecute" in decided.driver.reason
    assert "a:NoSchedule" not in decided.driver.reason


@pytest.mark.parametrize(
    ("label", "driver", "plugin"), [(DRIVER_OUT, False, True), (PLUGIN_OUT, True, False), ("other", True, True)]
)
def test_an_opt_out_keeps_one_component_away(label: str, driver: bool, plugin: bool) -> None:
    decided = decision(builders.policy(), builders.node(labels={label: "false"}))

    assert (decided.driver.image is not None, decided.device_plugin.image is not None) == (driver, plugin)
    assert (decided.pool is not None) is driver
    assert [part for part in (decided.driver, decided.device_plugin) if f"{label}=false" in part.reason] == [
        part for part in (decided.driver, decided.device_plugin) if part.image is None
    ]


@pytest.mark.parametrize("value", ["true", "", "no", "False"])
def test_only_the_word_false_opts_out(value: str) -> None:
    assert decision(builders.policy(), builders.node(labels={DRIVER_OUT: value})).driver.image is not None


def test_what_nfd_has_not_seen_is_unknown_and_what_it_has_not_found_is_absent() -> None:
    unknown = builders.node(machine=builders.profile({}, discovered=False))
    absent = builders.node(machine=builders.profile({"feature.node.kubernetes.io/x": "1"}))

    reasons = [decision(builders.policy(), node).driver.reason for node in (unknown, absent)]

    assert "unknown" in reasons[0]
    assert "it has no device of hpre" in reasons[1]


@pytest.mark.parametrize("value", ["false", "", "True", "1"])
def test_a_kind_is_present_where_its_label_says_true(value: str) -> None:
    machine = builders.profile({"openfuyao.com/kae.hpre.present": value})

    assert decision(builders.policy(), builders.node(machine=machine)).driver.image is None


def test_a_kind_that_the_policy_does_not_enable_is_no_reason_to_land() -> None:
    machine = counted(sec_pf="2", zip_pf="2")
    served = builders.policy(operator={"enabledHPRE": False, "enabledZIP": True})

    assert decision(builders.policy(), builders.node(machine=machine)).driver.image is None
    assert decision(served, builders.node(machine=machine)).resources == (("openfuyao.com/kae.zip", 2),)


def test_a_component_that_is_not_enabled_is_pre_installed() -> None:
    decided = decision(builders.policy(driver={"enabled": False}), builders.node())

    assert (decided.driver.image, decided.pool) == (None, None)
    assert "driver.enabled is false" in decided.driver.reason
    assert decided.device_plugin.image is not None


def test_the_image_is_the_one_behind_the_mirror() -> None:
    policy = builders.policy(**builders.PINNED)
    mirror = {"from": "cr.openfuyao.cn", "to": "registry.test"}

    decided = decision(policy, builders.node(), images={"mirrors": [mirror]})

    assert decided.driver.image == "registry.test/openfuyao/kae-driver-installer:2.2.0"
    assert decided.device_plugin.image == "registry.test/openfuyao/kae-device-plugin:1.4.1"


def test_a_node_that_no_policy_matches_gets_nothing() -> None:
    decided = decision(builders.selecting("tls", pool="tls"), builders.node())

    assert (decided.policy, decided.pool, decided.driver.image, decided.device_plugin.image) == (None, None, None, None)
    assert decided.resources == ()
    assert decided.why


def test_the_reason_for_a_policy_is_what_its_selector_says() -> None:
    node = builders.node(labels={"pool": "tls"})

    assert "pool In [tls]" in decision(builders.selecting("tls", pool="tls"), node).why
    assert "every node" in decision(builders.policy(), node).why
    assert "default" in decision(builders.policy(default=True), node).why


@pytest.mark.parametrize(
    ("counts", "spec", "offered"),
    [
        ({"hpre_pf": "2"}, {}, 2),
        ({"hpre_pf": "2", "hpre_vf": "6"}, {}, 6),
        ({"hpre_vf": "3"}, {}, 3),
        ({"hpre_pf": "2"}, {"driver": {"sriov": {"hpre": 4}}}, 8),
        ({"hpre_pf": "2", "hpre_vf": "6"}, {"driver": {"sriov": {"hpre": 4}}}, 8),
        ({"hpre_pf": "2", "hpre_vf": "6"}, {"driver": {"sriov": {"hpre": 0}}}, 2),
        ({"hpre_vf": "3"}, {"driver": {"sriov": {"hpre": 4}}}, 3),
        ({"hpre_pf": "2"}, {"devicePlugin": {"sharing": {"hpre": 8}}}, 16),
        ({"hpre_pf": "2"}, {"driver": {"sriov": {"hpre": 4}}, "devicePlugin": {"sharing": {"hpre": 8}}}, 64),
        ({"hpre_pf": "2"}, {"driver": {"state": "Absent"}}, 0),
        ({"hpre_pf": "none"}, {}, 0),
    ],
)
def test_a_node_offers_its_devices_times_replicas(counts: dict[str, str], spec: dict[str, Any], offered: int) -> None:
    decided = decision(builders.policy(**spec), builders.node(machine=counted(**counts)))

    assert dict(decided.resources) == ({"openfuyao.com/kae.hpre": offered} if offered else {})


def test_a_kind_for_virtual_machines_has_a_resource_of_its_own() -> None:
    policy = builders.policy(operator={"enabledSEC": True}, devicePlugin={"mode": {"hpre": "vfio", "sec": "vfio"}})

    decided = decision(policy, builders.node(machine=counted(hpre_pf="2", hpre_vf="6", sec_pf="2", sec_vf="3")))

    assert dict(decided.resources) == {"openfuyao.com/kae.hpre.vfio": 6, "openfuyao.com/kae.sec.vfio": 3}


@pytest.mark.parametrize(
    ("counts", "offered"),
    [
        ({"hpre_pf": "2", "sec_pf": "2", "zip_pf": "2"}, {"hpre": 8, "sec": 2, "zip": 2}),
        (
            {"hpre_pf": "2", "hpre_vf": "8", "sec_pf": "2", "sec_vf": "6", "zip_pf": "2", "zip_vf": "3"},
            {"hpre": 8, "sec": 6, "zip": 2},
        ),
        ({"hpre_vf": "1", "sec_vf": "2", "zip_vf": "3"}, {"hpre": 1, "sec": 2, "zip": 3}),
        ({"sec_vf": "2"}, {"sec": 2}),
    ],
    ids=["new-host", "host", "guest", "guest-of-one-kind"],
)
def test_one_policy_counts_what_hosts_split_by_it_and_what_guests_were_given(
    counts: dict[str, str], offered: dict[str, int]
) -> None:
    every = {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}
    policy = builders.policy(operator=every, driver={"sriov": {"hpre": 4, "zip": 0}})

    decided = decision(policy, builders.node(machine=counted(**counts)))

    assert dict(decided.resources) == {f"openfuyao.com/kae.{kind}": count for kind, count in offered.items()}


@pytest.mark.parametrize(("driver", "offered"), [({"sriov": {"hpre": 4}}, 2), ({"state": "Absent"}, 2)])
def test_a_driver_that_stays_away_changes_no_device(driver: dict[str, Any], offered: int) -> None:
    node = builders.node(labels={DRIVER_OUT: "false"}, machine=counted(hpre_pf="2"))

    assert decision(builders.policy(driver=driver), node).resources == (("openfuyao.com/kae.hpre", offered),)


def test_a_node_without_a_device_plugin_offers_nothing() -> None:
    node = builders.node(machine=counted(hpre_pf="2"))

    assert decision(builders.policy(devicePlugin={"enabled": False}), node).resources == ()


def test_nodes_that_no_selector_can_tell_apart_are_judged_once() -> None:
    machine = builders.profile()
    nodes = [builders.node(f"node-{number}", {"zone": f"{number % 2}", "pool": "tls"}, machine) for number in range(6)]
    by_zone = builders.selecting("a", pool="tls", zone="0")

    anywhere = builders.view([builders.selecting("a", pool="tls")], nodes)[0].decisions
    zoned = builders.view([by_zone], nodes)[0].decisions

    assert [len(decided.nodes) for decided in anywhere] == [6]
    assert [[node.name for node in decided.nodes] for decided in zoned] == [
        ["node-0", "node-2", "node-4"],
        ["node-1", "node-3", "node-5"],
    ]


def test_a_selector_by_hostname_tells_alike_nodes_apart() -> None:
    machine = builders.profile()
    policy = builders.selecting("one", **{"kubernetes.io/hostname": "b"})

    decisions = builders.view([policy], [builders.node(name, machine=machine) for name in "abc"])[0].decisions

    assert [(item.names, item.policy is not None) for item in decisions] == [
        (("a",), False),
        (("b",), True),
        (("c",), False),
    ]


@pytest.mark.parametrize("text", ["a=1:NoSchedule", "a:NoExecute"])
def test_a_taint_is_shown_as_kubectl_writes_it(text: str) -> None:
    assert taints.text(builders.taint(text)) == text
