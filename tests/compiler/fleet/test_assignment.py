"""The assignment of nodes to policies."""

import pytest

from compiler.fleet import assignment, definitions
from tests import builders


def taking(policies: list[definitions.Policy], **labels: str) -> list[str]:
    return [item.policy.name for item in assignment.assign(policies).policies if item.takes(labels.get)]


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


def test_the_default_takes_exactly_the_nodes_that_nobody_else_matches() -> None:
    policies = [
        builders.selecting("a", pool="tls"),
        builders.selecting("b", pool="web"),
        builders.policy("rest", default=True),
    ]

    assert taking(policies, pool="tls") == ["a"]
    assert taking(policies, pool="web") == ["b"]
    assert taking(policies, pool="other") == ["rest"]
    assert taking(policies) == ["rest"]


def test_a_default_alone_takes_every_node() -> None:
    (assigned,) = assignment.assign([builders.policy("rest", default=True)]).policies

    assert assigned.terms == ((),)


def test_a_label_that_is_no_integer_fits_neither_a_comparison_nor_its_negation() -> None:
    newer = {"matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["3"]}]}
    policies = [builders.policy("new", nodeSelector=newer), builders.policy("rest", default=True)]

    assert taking(policies, gen="4") == ["new"]
    assert taking(policies, gen="3") == ["rest"]
    assert taking(policies) == ["rest"]
    assert taking(policies, gen="x") == []
