"""Findings about the size of DaemonSets, beside the size of those that are rendered."""

import json

import pytest

from compiler import diagnostics
from compiler.fleet import definitions
from tests import builders

LIMITS = {"argocd": 256 << 10, "flux": 1536 << 10, "none": 1536 << 10}
"""Of the API server, by engine: bytes of an object's annotations, or of an object in etcd."""
ROOM = 32 << 10
"""What the compiler leaves for the rest of a DaemonSet."""


def said(policies: list[definitions.Policy], engine: str) -> list[diagnostics.Diagnostic]:
    where = builders.cluster(gitops={"engine": engine}, kubernetesVersion="1.31")
    _, findings = builders.view(policies, (), where)
    return [finding for finding in findings if finding.code == "object-too-large"]


def rendered(policies: list[definitions.Policy], engine: str) -> int:
    """Return the size of the largest DaemonSet that the policies compile to, as JSON."""
    where = builders.cluster(gitops={"engine": engine}, kubernetesVersion="1.31")
    objects = builders.objects(policies, (), where).values()
    return max(len(json.dumps(item, separators=(",", ":"))) for item in objects if item["kind"] == "DaemonSet")


def selecting_by_five_labels(**more: object) -> definitions.Policy:
    """A policy that lists the most values of five labels, as long as they can be."""
    values = [f"{index:03}-".ljust(63, "x") for index in range(256)]
    expressions = [{"key": f"example.com/label-{number}", "operator": "In", "values": values} for number in range(5)]
    kinds = {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}
    return builders.policy(
        **{**builders.PINNED, "operator": kinds, "nodeSelector": {"matchExpressions": expressions}, **more}
    )


@pytest.mark.parametrize("engine", LIMITS)
def test_a_daemonset_that_is_too_large_is_refused(engine: str) -> None:
    largest = LIMITS[engine] - ROOM

    assert said(builders.excluding(largest - 1500), engine) == []
    (finding,) = said(builders.excluding(largest), engine)

    assert finding.message.startswith("DaemonSet 'kae-device-plugin-rest' of policy 'rest' in cluster 'east' selects")
    assert f"{largest:,} fit" in finding.message
    assert finding.span.text.strip() == "default: true"
    assert ("annotation" in finding.notes[0]) == (engine == "argocd")


@pytest.mark.parametrize("engine", ["argocd", pytest.param("none", marks=pytest.mark.long)])
def test_the_largest_daemonset_that_compiles_fits(engine: str) -> None:
    limit = LIMITS[engine]

    assert 0.85 * limit < rendered(builders.excluding(limit - ROOM - 1500), engine) < limit - ROOM / 2


def test_a_policy_with_too_many_values_of_its_own_is_refused_at_its_selector() -> None:
    policy = selecting_by_five_labels()

    (finding,) = said([policy], "argocd")

    assert finding.span.text.strip() == "nodeSelector:"
    assert "split the policy" in finding.hint
    assert said([policy], "flux") == []


def test_the_largest_of_a_policys_pools_is_named() -> None:
    mappings = [{"name": name, "literal": f"5.10.0-{name}"} for name in ("old", "younger")]
    policy = selecting_by_five_labels(driver={"version": "2.2.0", "kernelMappings": mappings})

    (finding,) = said([policy], "argocd")

    assert "DaemonSet 'kae-driver-tls--younger'" in finding.message


def test_the_daemonsets_of_a_recipe_are_measured_too() -> None:
    offering = {"resources": [{"name": "x.com/a", "class": "token", "count": 1}]}
    selector = selecting_by_five_labels().source.data["spec"]["nodeSelector"]
    cards = [{"kind": kind, "vendor": "1924", "classes": ["0200"]} for kind in "abc"]
    recipe = builders.recipe("nic", match={"pci": cards}, devicePlugin=offering)

    (finding,) = said([builders.device_policy("desk", recipe, nodeSelector=selector)], "argocd")

    assert finding.message.startswith("DaemonSet 'nic-device-plugin-desk' of policy 'desk'")
