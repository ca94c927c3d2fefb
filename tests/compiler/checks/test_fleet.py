"""Rules for what the documents of a fleet say together."""

from typing import Any

import pytest

from compiler.checks import fleet
from tests import builders

REPOSITORY = {"url": "https://git.test/fleet.git"}


def test_a_cluster_is_declared_once() -> None:
    east, west, again = builders.cluster("east"), builders.cluster("west"), builders.cluster("east")

    (found,) = fleet.duplicate_clusters([east, west, again])

    assert (found.code, found.span) == ("duplicate-cluster", again.span("metadata", "name"))


@pytest.mark.parametrize("second", ["inventory/a/east.json", "inventory/east.json"])
def test_a_cluster_has_one_inventory_in_one_file_or_in_two(second: str) -> None:
    inventories = [("east", "inventory/east.json"), ("east", second), ("west", "inventory/west.json")]

    (found,) = fleet.duplicate_inventories(inventories)

    assert (found.code, found.span.file) == ("duplicate-inventory", second)


def test_every_glob_of_clusters_means_one() -> None:
    policies = [builders.policy("a", clusters=["east", "we*"]), builders.policy("b", clusters=["north", "*"])]

    (found,) = fleet.unknown_clusters(policies, ["east", "west"])

    assert found.code == "cluster-unknown"
    assert "'north'" in found.message


def test_two_clusters_of_one_argo_cd_share_no_project() -> None:
    def item(name: str, **argocd: str) -> Any:
        return builders.cluster(name, gitops={"engine": "argocd", "repository": REPOSITORY, "argocd": argocd})

    shared = [item("a", project="kae"), item("b", project="kae")]
    apart = [item("a", project="kae"), item("b", project="kae", namespace="other"), item("c")]

    assert builders.codes(list(fleet.shared_projects(shared))) == ["conflicting-settings"]
    assert list(fleet.shared_projects(apart)) == []


def test_a_policy_without_any_cluster_is_said_to_compile_to_nothing() -> None:
    assert builders.codes(list(fleet.uncovered_policies([builders.policy()]))) == ["no-cluster"]
