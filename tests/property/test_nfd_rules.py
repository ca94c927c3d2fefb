"""The second writing of NFD's rules answers as NFD's master was seen to answer."""

from typing import Any

import pytest

from tests.property import nfd_rules

KAE = {"vendor": {"op": "In", "value": ["19e5"]}, "device": {"op": "In", "value": ["a258", "a259"]}}


def rules(name: str, *found: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"rules": list(found)}}


def rule(labels: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """A rule; features are given by name, with `_` for the dot."""
    terms = [
        {"feature": key.replace("_", "."), "matchExpressions": more.pop(key)}
        for key in ("pci_device", "kernel_version", "system_name", "rule_matched")
        if key in more
    ]
    return {"name": "any", **({"labels": labels} if labels else {}), "matchFeatures": terms, **more}


def node(*devices: str, kernel: str = "5.10.0-216.oe2203sp4.aarch64", name: str = "kp-01") -> nfd_rules.Features:
    """A node with devices, each as vendor:device."""
    return nfd_rules.Features(
        attributes={"kernel.version": {"full": kernel}, "system.name": {"nodename": name}},
        instances={
            "pci.device": tuple(dict(zip(("vendor", "device"), one.split(":"), strict=True)) for one in devices)
        },
    )


def test_vendor_and_device_have_to_meet_on_one_device() -> None:
    found = [rules("kae", rule({"present": "true"}, pci_device=KAE))]

    assert nfd_rules.labels(found, node("19e5:a222", "8086:a258")) == {}
    assert nfd_rules.labels(found, node("8086:a222", "19e5:a258")) == {"present": "true"}


def test_a_template_counts_the_devices_that_match_and_says_nothing_of_none() -> None:
    found = [rules("kae", rule(labelsTemplate="count={{ len .pci.device }}", pci_device=KAE))]

    assert nfd_rules.labels(found, node("19e5:a258", "19e5:a259", "19e5:a222")) == {"count": "2"}
    assert nfd_rules.labels(found, node("19e5:a222")) == {}


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ({"op": "In", "value": ["kp-01", "kp-02"]}, True),
        ({"op": "NotIn", "value": ["kp-01"]}, False),
        ({"op": "NotIn", "value": ["kp-02"]}, True),
        ({"op": "Exists"}, True),
        ({"op": "DoesNotExist"}, False),
        ({"op": "InRegexp", "value": ["^x", "p-0"]}, True),
        ({"op": "InRegexp", "value": ["^p-0"]}, False),
    ],
)
def test_an_operator_means_what_it_means_to_nfd(expression: dict[str, Any], holds: bool) -> None:
    found = [rules("kae", rule({"here": "yes"}, system_name={"nodename": expression}))]

    assert nfd_rules.labels(found, node()) == ({"here": "yes"} if holds else {})


@pytest.mark.parametrize(("operator", "holds"), [("NotIn", False), ("In", False), ("DoesNotExist", True)])
def test_of_what_is_not_reported_only_its_absence_holds(operator: str, holds: bool) -> None:
    expression = {"op": operator} | ({} if operator == "DoesNotExist" else {"value": ["kp-01"]})
    found = [rules("kae", rule({"here": "yes"}, system_name={"nodename": expression}))]

    assert nfd_rules.labels(found, nfd_rules.UNREPORTED) == ({"here": "yes"} if holds else {})


def test_a_rule_sees_the_variables_of_earlier_rules_and_the_node_never_does() -> None:
    first = rule(vars={"group": "lab"})
    second = rule({"pool": "lab"}, rule_matched={"group": {"op": "In", "value": ["lab"]}})

    assert nfd_rules.labels([rules("kae", first, second)], node()) == {"pool": "lab"}
    assert nfd_rules.labels([rules("kae", rule({"any": "1"}), second, first)], node()) == {"any": "1"}


def test_objects_are_evaluated_by_name_and_the_later_one_wins() -> None:
    early = rules("aa", rule({"pool": "early"}))
    late = rules("zz", rule({"pool": "late"}), rule({"seen": "1"}, rule_matched={"pool": {"op": "Exists"}}))

    assert nfd_rules.labels([late, early], node()) == {"pool": "late", "seen": "1"}


def test_a_first_rule_that_asks_for_earlier_ones_is_refused() -> None:
    found = rules("kae", rule({"a": "b"}, rule_matched={"group": {"op": "DoesNotExist"}}))

    with pytest.raises(ValueError, match=r"the first rule of kae reads rule\.matched"):
        nfd_rules.labels([found], node())


@pytest.mark.parametrize(
    "unknown",
    [
        rule({"a": "b"}, taints=[]),
        rule(labelsTemplate="a={{ .kernel }}"),
        rule({"a": "b"}, kernel_version={"full": {"op": "Gt", "value": ["1"]}}),
        {"name": "any", "matchFeatures": [{"feature": "cpu.model", "matchExpressions": {}}]},
    ],
)
def test_what_it_does_not_know_is_refused(unknown: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="unknown"):
        nfd_rules.labels([rules("kae", unknown)], node())


def test_a_label_with_a_value_that_no_label_can_have_is_dropped() -> None:
    found = rules("kae", rule({"bad": "a b", "long": "x" * 64, "good": ""}))

    assert nfd_rules.labels([found], node()) == {"good": ""}
