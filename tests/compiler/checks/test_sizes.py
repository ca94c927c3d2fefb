"""Findings about the size of DaemonSets, beside the size of those that are rendered."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from compiler import diagnostics
from compiler.fleet import definitions
from tests import builders

ANNOTATIONS, STORED = 256 << 10, 1536 << 10
"""The limits of the API server: bytes of an object's annotations, and of an object in etcd."""
KINDS = {"operator": {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}}
SPEC: Mapping[str, Any] = {**builders.PINNED, **KINDS}


def listing(number: int, count: int) -> definitions.Policy:
    """A policy that selects nodes by this many names, as long as a label's value can be."""
    values = [f"{number:03}-{index:03}-".ljust(63, "x") for index in range(count)]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": values}
    return builders.policy(f"p{number}", **SPEC, nodeSelector={"matchExpressions": [expression]})


def fleet(count: int) -> list[definitions.Policy]:
    """A default policy, and others that select by this many names altogether."""
    listed = [listing(number, min(256, count - 256 * number)) for number in range(-(-count // 256))]
    return [*listed, builders.policy("rest", **SPEC, default=True)]


def said(policies: list[definitions.Policy], engine: str) -> list[diagnostics.Diagnostic]:
    """What is said about the sizes of their objects."""
    where = builders.cluster(gitops={"engine": engine}, kubernetesVersion="1.31")
    found = builders.view(policies, (), where)[1]
    return [finding for finding in found if finding.code == "object-too-large"]


def rendered(policies: list[definitions.Policy], engine: str) -> int:
    """Return the size of the largest DaemonSet that the policies compile to, as JSON."""
    where = builders.cluster(gitops={"engine": engine}, kubernetesVersion="1.31")
    found = builders.objects(policies, (), where).values()
    return max(len(json.dumps(item, separators=(",", ":"))) for item in found if item["kind"] == "DaemonSet")


@pytest.mark.parametrize(("engine", "limit"), [("argocd", ANNOTATIONS), ("flux", STORED), ("none", STORED)])
def test_the_largest_daemonset_that_compiles_fits_and_one_of_more_values_is_refused(engine: str, limit: int) -> None:
    room, a_value = limit - (32 << 10), 3 * len(f'"{"x" * 63}",')
    fitting = (room - 1500) // a_value

    assert said(fleet(fitting), engine) == []
    assert 0.85 * limit < rendered(fleet(fitting), engine) < limit - (20 << 10)
    (finding,) = said(fleet(fitting + 10), engine)

    assert finding.message.startswith(
        "DaemonSet 'kae-device-plugin-rest' of policy 'rest' in cluster 'east' selects its"
    )
    assert f"{room:,} fit" in finding.message
    assert finding.span.text.strip() == "default: true"
    assert ("annotation" in finding.notes[0]) == (engine == "argocd")


def test_a_policy_of_its_own_values_is_refused_at_its_selector() -> None:
    values = [f"{index:03}-".ljust(63, "x") for index in range(256)]
    expressions = [{"key": f"example.com/label-{number}", "operator": "In", "values": values} for number in range(5)]
    policy = builders.policy(**SPEC, nodeSelector={"matchExpressions": expressions})

    (finding,) = said([policy], "argocd")

    assert finding.span.text.strip() == "nodeSelector:"
    assert "split the policy" in finding.hint
    assert said([policy], "flux") == []


def test_the_largest_of_a_policys_pools_is_named() -> None:
    values = [f"{index:03}-".ljust(63, "x") for index in range(256)]
    expressions = [{"key": f"example.com/label-{number}", "operator": "In", "values": values} for number in range(5)]
    mappings = [{"name": name, "literal": f"5.10.0-{name}"} for name in ("old", "younger")]
    driver: dict[str, Any] = {"version": "2.2.0", "kernelMappings": mappings}
    spec = {**SPEC, "driver": driver, "nodeSelector": {"matchExpressions": expressions}}

    (finding,) = said([builders.policy(**spec)], "argocd")

    assert "DaemonSet 'kae-driver-tls--younger'" in finding.message
