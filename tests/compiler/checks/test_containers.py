"""Rules for amounts of resources: what breaks each, where it is shown, and what is just within it."""

from collections.abc import Mapping
from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import policy
from tests import builders

CARD = "example.com/card"


def findings(component: str = "driver", **resources: Mapping[str, Any]) -> list[diagnostics.Diagnostic]:
    spec = {**builders.PINNED, component: {**builders.PINNED[component], "resources": resources}}
    return list(policy.findings(builders.policy(**spec)))


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"limits": {"cpu": 1}, "requests": {"cpu": "1001m"}}, "is more than its limit of '1'"),
        ({"limits": {"memory": "1G"}, "requests": {"memory": "1Gi"}}, "is more than its limit of '1G'"),
        ({"requests": {"cpu": "0.1m"}}, "is finer than a thousandth"),
        ({"requests": {"cpu": 0.0005}}, "is finer than a thousandth"),
        ({"limits": {"memory": "9.3P"}}, "is more than Kubernetes can count"),
        ({"limits": {"cpu": "1e1000"}}, "is more than Kubernetes can count"),
        ({"limits": {CARD: 1}, "requests": {CARD: 2}}, "differs from its limit of '1'"),
        ({"requests": {CARD: 1}}, "has no limit"),
        ({"requests": {"hugepages-2Mi": "2Mi", "cpu": 1}}, "has no limit"),
    ],
    ids=str,
)
def test_an_amount_that_the_api_server_minds_is_reported(resources: Mapping[str, Any], words: str) -> None:
    (diagnostic,) = findings(**resources)

    assert diagnostic.code == "resource-amount"
    assert words in diagnostic.message
    assert diagnostic.hint


@pytest.mark.parametrize(
    "resources",
    [
        {},
        {"requests": {"cpu": "1m", "memory": "1.5Ki"}},
        {"limits": {"cpu": 0.5}, "requests": {"cpu": "500m"}},
        {"limits": {"memory": "1024Ki"}, "requests": {"memory": "1Mi"}},
        {"limits": {"memory": "9P"}},
        {"limits": {CARD: 2}},
        {"limits": {CARD: 2}, "requests": {CARD: "2000m"}},
        {"limits": {"hugepages-2Mi": "4Mi"}, "requests": {"memory": "1Gi"}},
        {"requests": {"example.kubernetes.io/card": "500m"}},
    ],
    ids=str,
)
def test_an_amount_that_the_api_server_takes_is_sound(resources: Mapping[str, Any]) -> None:
    assert findings(**resources) == []


def test_an_amount_is_shown_where_it_stands() -> None:
    (diagnostic,) = findings("devicePlugin", limits={"cpu": 1}, requests={"cpu": 2})

    assert diagnostic.span.text.strip() == "cpu: 2"
