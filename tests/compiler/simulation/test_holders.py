"""The pods that hold devices, and their budgets, as kubectl prints them."""

from typing import Any

import pytest

from compiler.simulation import holders
from compiler.simulation.rollout import Budget

HPRE = "openfuyao.com/kae.hpre"


def pod(name: str = "web-1", *, limits: Any = None, phase: str = "Running", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {HPRE: "1"} if limits is None else limits}}
    return {
        "kind": "Pod",
        "metadata": {"namespace": "shop", "name": name, "labels": {"app": "web"}},
        "spec": {"nodeName": "a", "containers": [container], **spec},
        "status": {"phase": phase},
    }


def budget(name: str, selector: Any, *, allowed: int = 1, namespace: str = "shop") -> dict[str, Any]:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": namespace, "name": name},
        "spec": {"selector": selector} if selector is not None else {},
        "status": {"disruptionsAllowed": allowed},
    }


def held(*items: dict[str, Any]) -> list[holders.Holder]:
    return [*holders.read({"items": items}).holding("a", {HPRE})]


def test_a_pod_that_asks_for_the_resource_holds_a_device() -> None:
    (found,) = held(pod(terminationGracePeriodSeconds=5))

    assert (found.name, found.budgets, found.grace_s) == ("shop/web-1", (), 5)


def test_a_pod_that_says_no_grace_has_that_of_kubernetes() -> None:
    assert [each.grace_s for each in held(pod())] == [30]


def test_a_grace_is_no_longer_than_a_month_so_that_times_still_grow_by_seconds() -> None:
    assert [each.grace_s for each in held(pod(terminationGracePeriodSeconds=10**18))] == [30 * 24 * 3600]


@pytest.mark.parametrize(
    "other",
    [
        pod(limits={"cpu": "2"}),
        pod(limits={"example.com/other": 1}),
        pod(limits={HPRE: "0"}),
        pod(phase="Succeeded"),
        pod(phase="Failed"),
        pod(nodeName=None),
        pod(nodeName="b"),
    ],
)
def test_other_pods_hold_none(other: dict[str, Any]) -> None:
    assert held(other) == []


def test_an_init_container_holds_a_device_too() -> None:
    container = {"name": "first", "resources": {"limits": {HPRE: 1}}}

    assert held(pod(limits={}, initContainers=[container]))


@pytest.mark.parametrize(
    ("selector", "counts"),
    [
        ({"matchLabels": {"app": "web"}}, True),
        ({"matchLabels": {"app": "db"}}, False),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web", "db"]}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False),
        ({}, True),
        (None, False),
    ],
)
def test_a_budget_counts_the_pods_that_it_selects(selector: Any, counts: bool) -> None:
    assert [each.budgets for each in held(budget("web", selector), pod())] == [(0,) if counts else ()]


def test_a_budget_counts_no_pod_of_another_namespace() -> None:
    assert [each.budgets for each in held(budget("web", {}, namespace="other"), pod())] == [()]


def test_a_budget_allows_what_its_status_says() -> None:
    found = holders.read({"items": [budget("web", {}, allowed=2), {**budget("db", {}), "status": None}]})

    assert found.budgets == (Budget(name="shop/web", allowed=2), Budget(name="shop/db", allowed=0))


@pytest.mark.parametrize("data", [None, [], {}, {"items": 1}, {"items": [{"kind": "Pod"}]}, {"items": [{}]}, "x"])
def test_data_of_another_shape_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="not the List"):
        holders.read(data)
