"""Rules for the assignment of nodes to policies: no node is assigned to two."""

from collections.abc import Sequence
from typing import Any

from compiler import diagnostics
from compiler.checks import assignment as checks
from compiler.fleet import assignment, definitions
from compiler.inventory import snapshot
from tests import builders


def findings(
    policies: Sequence[definitions.Policy], inventory: snapshot.Inventory | None = None
) -> list[diagnostics.Diagnostic]:
    return list(checks.findings(policies, assignment.assign(policies), inventory or builders.nodes_of()))


def judged(*policies: definitions.Policy) -> list[str]:
    return builders.codes(findings(policies))


def test_a_name_may_return_in_clusters_that_are_not_shared() -> None:
    policies = [builders.policy("tls", clusters=["east"]), builders.policy("tls", clusters=["west"])]

    for cluster in ("east", "west"):
        assert judged(*assignment.in_cluster(policies, cluster)) == []


def test_a_name_that_returns_in_a_shared_cluster_is_reported_once_and_no_overlap() -> None:
    policies = [builders.policy("tls", clusters=["east"]), builders.policy("tls", clusters=["*"])]

    assert judged(*assignment.in_cluster(policies, "east")) == ["duplicate-policy"]


def test_every_further_default_is_reported() -> None:
    assert judged(*[builders.policy(name, default=True) for name in "abc"]) == ["two-defaults", "two-defaults"]


def test_a_policy_of_every_node_overlaps_with_each_other() -> None:
    assert judged(builders.policy("a"), builders.selecting("b", pool="tls")) == ["policy-overlap"]


def test_an_overlap_shows_a_node_that_both_would_match_and_those_that_do_today() -> None:
    one, other = builders.selecting("a", pool="tls"), builders.selecting("b", zone="1")
    nodes = [builders.node("both", {"pool": "tls", "zone": "1"}), builders.node("one", {"pool": "tls"})]

    (finding,) = findings([one, other], builders.nodes_of(*nodes))

    assert any("pool=tls, zone=1" in note for note in finding.notes)
    assert any("both" in note and "one" not in note for note in finding.notes)
    assert finding.span == other.source.key_span("spec", "nodeSelector")


def test_a_default_that_is_left_no_node_is_reported() -> None:
    with_pool = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    without = {"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}

    findings = judged(
        builders.policy("a", nodeSelector=with_pool),
        builders.policy("b", nodeSelector=without),
        builders.policy("rest", default=True),
    )

    assert findings == ["selector-never-matches"]


def test_a_default_that_takes_too_many_terms_to_say_is_reported_and_left_out() -> None:
    others = [
        builders.selecting(f"team-{team}", pool=f"{team}", **{f"key-{team}-{number}": "1" for number in range(20)})
        for team in range(4)
    ]

    policies = [*others, builders.policy("rest", default=True)]

    assert judged(*policies) == ["default-too-complex"]
    assert [item.policy.name for item in assignment.assign(policies).policies] == [f"team-{team}" for team in range(4)]


DESK = {"matchLabels": {"desk": "lab"}}


def of_onload(name: str, **spec: Any) -> definitions.Policy:
    """Return a policy of a recipe that claims nothing else."""
    return builders.device_policy(name, builders.recipe(match={"labels": {"nic": ["x2"]}}), **spec)


def test_policies_of_two_recipes_without_a_common_claim_share_nodes() -> None:
    assert judged(builders.policy("a"), of_onload("b")) == []


def test_a_node_gets_a_recipe_once() -> None:
    one, other = of_onload("a"), of_onload("b", nodeSelector=DESK)

    (finding,) = findings([one, other])

    assert finding.code == "policy-overlap"
    assert finding.notes[1] == "Both run recipe 'onload', which a node can have once."


def test_each_recipe_has_a_default_of_its_own() -> None:
    policies = [builders.policy("a", default=True), of_onload("b", default=True)]

    assert judged(*policies) == []
    assert judged(*policies, of_onload("c", default=True)) == ["two-defaults"]


def test_a_default_takes_what_the_policies_of_its_own_recipe_leave() -> None:
    policies = [
        builders.selecting("a", pool="tls"),
        builders.policy("b", default=True),
        of_onload("c", nodeSelector=DESK),
        of_onload("d", default=True),
    ]

    taken = [item.policy.name for item in assignment.assign(policies).policies if item.takes({"pool": "tls"}.get)]

    assert judged(*policies) == []
    assert taken == ["a", "d"]


def test_a_name_is_given_once_in_a_cluster_over_all_recipes() -> None:
    assert judged(builders.policy("a"), of_onload("a")) == ["duplicate-policy"]
