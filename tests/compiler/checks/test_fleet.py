"""Rules for what the documents of a fleet say together."""

from typing import Any

import pytest

from compiler import diagnostics
from compiler.checks import fleet
from compiler.formats import decode
from tests import builders

REPOSITORY = {"url": "https://git.test/fleet.git"}


@pytest.mark.parametrize("second", ["inventory/a/east.json", "inventory/east.json"])
def test_a_cluster_has_one_inventory_in_one_file_or_in_two(second: str) -> None:
    inventories = [("east", "inventory/east.json"), ("east", second), ("west", "inventory/west.json")]

    (finding,) = fleet.duplicate_inventories(inventories)

    assert (finding.code, finding.span.file) == ("duplicate-inventory", second)


@pytest.mark.parametrize("place", ["policy", "wave", "frozen"])
def test_a_literal_name_of_a_list_is_a_cluster(place: str) -> None:
    sick = {"name": "sick", "nodes": ["a"], "version": "2.1.0", "clusters": ["eats"]}
    specs: dict[str, dict[str, Any]] = {
        "policy": {"clusters": ["east", "eats"]},
        "wave": {"driver": {"rollout": {"waves": [{"name": "w", "percent": 5, "clusters": ["eats"]}]}}},
        "frozen": {"driver": {"rollout": {"frozen": [sick]}}},
    }

    (finding,) = fleet.unknown_clusters([builders.policy(**specs[place])], ["east", "west"])

    assert (finding.code, finding.severity) == ("cluster-unknown", "error")
    assert finding.message == "There is no cluster 'eats'; did you mean 'east'?"


@pytest.mark.parametrize("glob", ["lab-*", "lab?", "[lx]ab"])
def test_a_glob_may_wait_for_its_clusters(glob: str) -> None:
    (finding,) = fleet.unknown_clusters([builders.policy(clusters=[glob, "we*"])], ["east", "west"])

    assert (finding.code, finding.severity) == ("glob-unmatched", "warning")
    assert f"'{glob}'" in finding.message


def test_a_long_list_of_clusters_is_cut() -> None:
    (finding,) = fleet.unknown_clusters([builders.policy(clusters=["x"])], [f"c{number:02}" for number in range(50)])

    assert finding.notes[0].endswith("c19 and 30 more.")


@pytest.mark.parametrize("name", ["wets", "1", "19e5", "true"])
def test_the_hint_on_an_undeclared_cluster_is_a_kaecluster(name: str) -> None:
    hint = fleet.undeclared(name, diagnostics.Span(file="inventory"), []).hint
    text = hint[hint.index("{") : hint.rindex("}") + 1]

    (document,), faults = decode.decode("policies/new.yaml", text.encode())

    assert (document.data["metadata"]["name"], faults) == (name, [])
    assert builders.judge().judge(document) == ("KAECluster", [])


def test_two_clusters_of_one_argo_cd_share_no_project() -> None:
    def item(name: str, **argocd: str) -> Any:
        return builders.cluster(name, gitops={"engine": "argocd", "repository": REPOSITORY, "argocd": argocd})

    shared = [item("a", project="kae"), item("b", project="kae")]
    apart = [item("a", project="kae"), item("b", project="kae", namespace="other"), item("c")]

    assert builders.codes(list(fleet.shared_projects(shared))) == ["conflicting-settings"]
    assert list(fleet.shared_projects(apart)) == []
