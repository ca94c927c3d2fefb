"""Amounts of resources before the real API server: the compiler takes what it takes, without a warning, unchanged."""

import decimal
import random
from collections.abc import Mapping
from typing import Any

import pytest
from kubernetes.utils import quantity

from compiler.checks import policy
from tests import builders
from tests.cluster.control import control_plane as control_planes

Amounts = Mapping[str, Mapping[str, Any]]
DAEMON_SETS = "/apis/apps/v1/namespaces/default/daemonsets?dryRun=All&fieldValidation=Strict"
CASES = 600

_NAMES = (
    *("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "hugepages-0Mi"),
    *("example.com/card", "requests.example.com/card", "example.kubernetes.io/card"),
    *(f"{'a' * 59}.{'b' * 63}.{'c' * 63}.{'d' * 56}/card", f"{'a' * 60}.{'b' * 63}.{'c' * 63}.{'d' * 56}/card"),
)
"""Among them the longest domain that a container can name, and one that is longer by a letter."""

_AMOUNTS = (
    *(0, 1, 2, 0.5, 0.0001, "0", "1", "1.5", "0.5", "1m", "10m", "1000m", "1500m", "0.1m", "1.5m", "0.9999"),
    *("2Mi", "3Mi", "4Mi", "4096Ki", "1Gi", "1.5Gi", "0.1Gi", "1G", "1e9", "2e0", "1.0001k", "8Pi", "9P"),
    *("10Mb", "-1", -1, "1 Gi", "1K"),
)


def codes_of(resources: Amounts) -> list[str]:
    spec = {**builders.PINNED, "driver": {**builders.PINNED["driver"], "resources": resources}}
    document = builders.document(builders.raw("KAEPolicy", "tls", spec))
    _, findings = builders.judge().judge(document)
    return builders.codes(findings) or builders.codes(list(policy.findings(builders.policy(**spec))))


def complaint(plane: control_planes.ControlPlane, resources: Amounts) -> str:
    """Return the API server's complaints about a DaemonSet with these resources, and its changes to them."""
    texts = {side: {name: str(amount) for name, amount in given.items()} for side, given in resources.items()}
    labels = {"app": "amounts"}
    container = {"name": "main", "image": "registry.example.com/main:1", "resources": texts}
    answer = plane.api.request(
        "POST",
        DAEMON_SETS,
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "amounts"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        },
    )
    if answer.status != 201 or answer.warnings:
        return f"{answer.status} {answer.warnings} {answer.body['message'] if answer.status != 201 else ''}"
    (live,) = answer.body["spec"]["template"]["spec"]["containers"]
    return "" if _valued(live["resources"]) == _valued(texts) else f"changed to {live['resources']}"


def _valued(resources: Amounts) -> Any:
    return {
        side: {name: _worth(amount) for name, amount in given.items()} for side, given in resources.items() if given
    }


def _worth(amount: str) -> decimal.Decimal:
    worth: decimal.Decimal = quantity.parse_quantity(amount)  # type: ignore[no-untyped-call]  # it has no types
    return worth


@pytest.mark.parametrize(
    ("resources", "said"),
    [
        ({"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}, "must be less than or equal to cpu limit"),
        ({"limits": {"memory": "0.5"}}, "fractional byte value"),
        ({"requests": {"cpu": "0.1m"}}, "changed to {'requests': {'cpu': '1m'}}"),
        ({"limits": {"memory": "16Ei"}}, "changed to {'limits': {'memory': '9223372036854775807'}}"),
        ({"limits": {"memory": "10Mb"}}, "quantities must match the regular expression"),
        ({"limits": {"cpu": -1}}, "must be greater than or equal to 0"),
        ({"limits": {"example.com/card": "0.5"}}, "must be an integer"),
        ({"requests": {"example.com/card": 1}}, "Limit must be set for non overcommitable resources"),
        ({"requests": {"example.com/card": 1}, "limits": {"example.com/card": 2}}, "must be equal to"),
        ({"limits": {"requests.example.com/card": 1}}, "doesn't follow extended resource name standard"),
        ({"limits": {"hugepages-2Mi": "4Mi"}}, "HugePages require cpu or memory"),
        ({"limits": {"hugepages-2Mi": "3Mi", "cpu": 1}}, "is not positive integer multiple of hugepages-2Mi"),
    ],
    ids=str,
)
def test_what_the_api_server_minds_is_found_before(
    resources: Amounts, said: str, control_plane: control_planes.ControlPlane
) -> None:
    codes = codes_of(resources)

    assert said in complaint(control_plane, resources)
    assert codes in (["resource-amount"], ["invalid-value"])


def test_the_compiler_and_the_api_server_take_the_same_amounts(control_plane: control_planes.ControlPlane) -> None:
    decisions = {True: 0, False: 0}
    for number in range(CASES):
        resources = _resources(random.Random(number))  # noqa: S311 - It is to be the same each time.
        codes, said = codes_of(resources), complaint(control_plane, resources)

        assert bool(codes) == bool(said), (resources, codes, said)
        decisions[not codes] += 1

    assert min(decisions.values()) > CASES / 5


def _resources(chance: random.Random) -> Amounts:
    """Return few resources, so that many are valid; a request often equals its limit."""
    limits = {chance.choice(_NAMES): chance.choice(_AMOUNTS) for _ in range(chance.randrange(3))}
    kept = {name: amount for name, amount in limits.items() if chance.random() < 0.5}
    requests = kept or {chance.choice(_NAMES[:3]): chance.choice(_AMOUNTS) for _ in range(chance.randrange(2))}
    return {"limits": limits, "requests": requests}
