"""Rules for one policy: what breaks each, where it is shown, and what is just within it."""

from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import policy
from tests import builders


def findings(**spec: Any) -> list[diagnostics.Diagnostic]:
    """Return the findings of a policy with pinned images."""
    pinned = {name: builders.PINNED[name] | spec.get(name, {}) for name in builders.PINNED}
    return list(policy.findings(builders.policy(**{**spec, **pinned})))


def codes(**spec: Any) -> list[str]:
    return builders.codes(findings(**spec))


def only(**spec: Any) -> diagnostics.Diagnostic:
    (diagnostic,) = findings(**spec)
    return diagnostic


@pytest.mark.parametrize(
    ("requirement", "code"),
    [
        ({"operator": "In"}, ["selector-values"]),
        ({"operator": "Exists", "values": ["a"]}, ["selector-values"]),
        ({"operator": "Gt", "values": ["a"]}, ["selector-values"]),
        ({"operator": "Gt", "values": ["1", "2"]}, ["selector-values"]),
        ({"operator": "In", "values": ["a"]}, []),
        ({"operator": "DoesNotExist"}, []),
        ({"operator": "Lt", "values": ["5"]}, []),
        ({"operator": "Lt", "values": ["0"]}, ["selector-never-matches"]),
    ],
)
def test_a_requirement_has_the_values_that_its_operator_needs(requirement: dict[str, Any], code: list[str]) -> None:
    assert codes(nodeSelector={"matchExpressions": [{"key": "pool"} | requirement]}) == code


@pytest.mark.parametrize(
    "key",
    [
        *("openfuyao.com/kae.pool.tls", "openfuyao.com/kae.pool.a.b", "openfuyao.com/kae.zip.vf"),
        *("openfuyao.com/kae.driver-version", "openfuyao.com/onload.driver-state"),
    ],
)
def test_no_selector_asks_for_what_follows_from_policies(key: str) -> None:
    by_label = {"matchLabels": {key: "1"}}
    by_expression = {"matchExpressions": [{"key": key, "operator": "Exists"}]}

    for selector in (by_label, by_expression):
        assert codes(nodeSelector=selector) == ["selector-on-effect"]
        for group in ({"waves": [{"name": "a"}]}, {"frozen": [{"name": "a", "version": "1"}]}):
            rollout = {kind: [one | {"inventorySelector": selector} for one in ones] for kind, ones in group.items()}
            assert codes(driver={"rollout": rollout}) == ["selector-on-effect"]


@pytest.mark.parametrize(
    "key",
    ["openfuyao.com/kae.zip.pf", "openfuyao.com/kae.zip.present", "openfuyao.com/kae.pools", "example.com/kae.pool.a"],
)
def test_a_selector_may_ask_for_what_a_machine_is(key: str) -> None:
    assert codes(nodeSelector={"matchLabels": {key: "1"}}) == []


def test_the_selector_of_a_group_is_judged_like_that_of_the_policy() -> None:
    wrong = {"matchExpressions": [{"key": "pool", "operator": "In"}]}
    never = {"matchExpressions": [{"key": "pool", "operator": "Lt", "values": ["0"]}]}
    rollout = {
        "waves": [{"name": "a", "inventorySelector": wrong}],
        "frozen": [{"name": "b", "version": "1", "inventorySelector": never}],
    }

    never_matches, values = findings(driver={"rollout": rollout})

    assert [never_matches.code, values.code] == ["selector-never-matches", "selector-values"]
    assert never_matches.message == "The inventorySelector of policy 'tls' can match no node."


@pytest.mark.parametrize(
    ("toleration", "field"),
    [
        ({"operator": "Equal"}, "operator"),
        ({"effect": "NoSchedule"}, None),
        ({"key": "a", "operator": "Exists", "value": "1"}, "value"),
        ({"key": "a", "tolerationSeconds": 5, "effect": "NoSchedule"}, "tolerationSeconds"),
        ({"key": "a", "tolerationSeconds": 5}, "tolerationSeconds"),
    ],
)
def test_a_toleration_that_the_api_server_refuses_is_shown_at_its_field(
    toleration: dict[str, Any], field: str | None
) -> None:
    diagnostic = only(daemonSets={"tolerations": [{"operator": "Exists"}, toleration]})

    assert diagnostic.code == "toleration"
    if field:
        assert str(toleration[field]) in diagnostic.span.text


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0},
        {"key": "a"},
        {"key": "a", "value": "1", "effect": "PreferNoSchedule"},
        {"key": "a", "operator": "Exists", "value": ""},
    ],
)
def test_a_toleration_that_the_api_server_accepts_is_sound(toleration: dict[str, Any]) -> None:
    assert codes(daemonSets={"tolerations": [toleration]}) == []


def test_labels_of_the_compiler_are_not_replaced() -> None:
    own = ("app.kubernetes.io/name", "device.openfuyao.com/policy", "device.openfuyao.com/pool")

    assert codes(daemonSets={"labels": dict.fromkeys(own, "x")}) == ["reserved-label"] * 3
    assert codes(daemonSets={"labels": {"team": "edge"}}) == []


@pytest.mark.parametrize(("value", "sound"), [(0, False), ("0%", False), (1, True), ("1%", True), ("100%", True)])
def test_a_pod_at_least_may_be_replaced_at_a_time(value: int | str, sound: bool) -> None:
    expected = [] if sound else ["unavailable-zero"]

    assert codes(driver={"rollout": {"maxUnavailable": value}}) == expected
    assert codes(devicePlugin={"maxUnavailable": value}) == expected


@pytest.mark.parametrize(
    ("spec", "is_empty"),
    [
        ({"driver": {}}, True),
        ({"driver": {"drain": {}}, "devicePlugin": {"env": []}}, True),
        ({"nodeSelector": {}}, True),
        ({"driver": {"enabled": True}}, False),
        ({"default": False}, False),
        ({"clusters": ["east"]}, False),
    ],
)
def test_a_spec_that_states_nothing_at_any_depth_is_empty(spec: dict[str, Any], is_empty: bool) -> None:
    found = [one for one in policy.findings(builders.policy(**spec)) if one.code == "invalid-value"]

    assert [one.message for one in found] == (["'spec' is empty: no part of it has a value."] if is_empty else [])
