"""Which policies hold where, and that no node can have two."""

import pytest

from compiler import diagnostics
from compiler.fleet import assignment, definitions
from tests import builders


def judged(*policies: definitions.Policy) -> list[str]:
    """The codes that these policies of one cluster earn."""
    return builders.codes(assignment.governed(policies, builders.nodes_of())[1])


def governor(policies: list[definitions.Policy], **labels: str) -> list[str]:
    """The policies that govern a node with these labels."""
    found, _ = assignment.governed(policies, builders.nodes_of())
    return [item.policy.name for item in found if item.governs(labels.get)]


@pytest.mark.parametrize(
    ("glob", "cluster", "holds"),
    [
        ("east", "east", True),
        ("east", "east-1", False),
        ("east-*", "east-1", True),
        ("*", "east.example.com", True),
        ("*st", "west", True),
        ("?ast", "east", True),
        ("[ew]*", "west", True),
        ("[!e]*", "east", False),
    ],
)
def test_a_policy_names_its_clusters_by_name_or_glob(glob: str, cluster: str, holds: bool) -> None:
    assert assignment.holds_in(builders.policy(clusters=["other", glob]), cluster) is holds


def test_a_policy_without_clusters_holds_everywhere() -> None:
    assert assignment.holds_in(builders.policy(), "anywhere")


def test_the_policies_of_a_cluster_come_by_name() -> None:
    policies = [builders.policy("b"), builders.policy("a"), builders.policy("c", clusters=["west"])]

    assert [policy.name for policy in assignment.in_cluster(policies, "east")] == ["a", "b"]


def test_a_name_may_return_in_clusters_that_are_not_shared() -> None:
    policies = [builders.policy("tls", clusters=["east"]), builders.policy("tls", clusters=["west"])]

    for cluster in ("east", "west"):
        assert judged(*assignment.in_cluster(policies, cluster)) == []


def test_a_name_that_returns_in_a_shared_cluster_is_reported_once_and_not_as_an_overlap() -> None:
    policies = [builders.policy("tls", clusters=["east"]), builders.policy("tls", clusters=["*"])]

    assert judged(*assignment.in_cluster(policies, "east")) == ["duplicate-policy"]


def test_every_further_default_is_reported() -> None:
    policies = [builders.policy(name, default=True) for name in "abc"]

    assert judged(*policies) == ["two-defaults", "two-defaults"]


def test_a_policy_of_every_node_overlaps_with_each_other() -> None:
    assert judged(builders.policy("a"), builders.selecting("b", pool="tls")) == ["policy-overlap"]


def test_an_overlap_shows_a_node_that_both_would_match_and_those_that_do_today() -> None:
    one, other = builders.selecting("a", pool="tls"), builders.selecting("b", zone="1")
    nodes = [builders.node("both", {"pool": "tls", "zone": "1"}), builders.node("one", {"pool": "tls"})]

    (found,) = assignment.governed([one, other], builders.nodes_of(*nodes))[1]

    assert any("pool=tls, zone=1" in note for note in found.notes)
    assert any("both" in note and "one" not in note for note in found.notes)
    assert found.span == other.source.key_span("spec", "nodeSelector")


def test_the_default_takes_exactly_the_nodes_that_nobody_else_matches() -> None:
    policies = [
        builders.selecting("a", pool="tls"),
        builders.selecting("b", pool="web"),
        builders.policy("rest", default=True),
    ]

    assert governor(policies, pool="tls") == ["a"]
    assert governor(policies, pool="web") == ["b"]
    assert governor(policies, pool="other") == ["rest"]
    assert governor(policies) == ["rest"]


def test_a_default_alone_takes_every_node() -> None:
    (found,), notes = assignment.governed([builders.policy("rest", default=True)], builders.nodes_of())

    assert (found.terms, notes) == (((),), [])


def test_a_default_that_is_left_no_node_is_reported() -> None:
    with_pool = {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}
    without = {"matchExpressions": [{"key": "pool", "operator": "DoesNotExist"}]}

    found = judged(
        builders.policy("a", nodeSelector=with_pool),
        builders.policy("b", nodeSelector=without),
        builders.policy("rest", default=True),
    )

    assert found == ["selector-never-matches"]


def test_a_default_that_takes_too_many_terms_to_say_is_reported_and_left_out() -> None:
    others = [
        builders.selecting(f"team-{team}", pool=f"{team}", **{f"key-{team}-{number}": "1" for number in range(20)})
        for team in range(4)
    ]

    found, notes = assignment.governed([*others, builders.policy("rest", default=True)], builders.nodes_of())

    assert builders.codes(notes) == ["default-too-complex"]
    assert [item.policy.name for item in found] == [f"team-{team}" for team in range(4)]


def test_a_label_that_is_no_integer_belongs_neither_to_a_comparison_nor_to_its_negation() -> None:
    newer = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
    policies = [builders.policy("new", nodeSelector=newer), builders.policy("rest", default=True)]

    assert governor(policies, gen="4") == ["new"]
    assert governor(policies, gen="3") == ["rest"]
    assert governor(policies) == ["rest"]
    assert governor(policies, gen="x") == []


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        (["a"], "1 node (a)"),
        (["b", "a"], "2 nodes (a, b)"),
        (list("gfedcba"), "7 nodes (a, b, c, d, e and 2 more)"),
    ],
)
def test_nodes_are_named_in_order_the_first_few_of_them(nodes: list[str], text: str) -> None:
    assert assignment.listed(nodes) == text


def test_every_finding_about_two_policies_is_an_error() -> None:
    found = assignment.governed([builders.policy("a"), builders.policy("b")], builders.nodes_of())[1]

    assert diagnostics.has_errors(found)
