"""Rules for what the documents of a fleet say together."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from msgspec import structs

from compiler import diagnostics
from compiler.checks import fleet
from compiler.fleet import definitions
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


URL = "https://git.example.com/fleet.git"
FLEET = {"name": "fleet"}


def argocd(path: str | None = None, url: str = URL, **destination: str) -> dict[str, Any]:
    repository = {"url": url} | ({"path": path} if path else {})
    return {"engine": "argocd", "repository": repository, "argocd": {"destination": destination}}


def in_namespace(namespace: str, **destination: str) -> dict[str, Any]:
    return {**argocd(), "argocd": {"namespace": namespace, "destination": destination}}


def flux(secret: str, namespace: str = "flux-system", source: Mapping[str, str] = FLEET) -> dict[str, Any]:
    settings = {"namespace": namespace, "sourceRef": source, "kubeConfig": {"secretRef": {"name": secret}}}
    return {"engine": "flux", "flux": settings}


def messages(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    clusters = [builders.cluster("east", gitops=one), builders.cluster("west", namespace="kae-two", gitops=other)]
    return [finding.message for finding in shared_targets(clusters)]


def shared_targets(clusters: Sequence[definitions.Cluster]) -> list[diagnostics.Diagnostic]:
    return [*fleet.shared_clusters(clusters), *fleet.shared_folders(clusters, "output")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (argocd(server="https://10.0.0.1:6443"), argocd(server="https://10.0.0.1:6443/")),
        (argocd(server="https://K8S.example.com:443"), argocd(server="https://k8s.example.com")),
        (argocd(name="prod"), argocd(name="prod")),
        (flux("remote"), flux("remote")),
        (flux("remote"), flux("remote", source=FLEET | {"namespace": "flux-system"})),
    ],
)
def test_one_destination_of_two_clusters_is_one_kubernetes_cluster(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert messages(one, other) == ["Clusters 'east' and 'west' are one Kubernetes cluster."]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (argocd(), argocd()),
        (argocd(name="in-cluster"), argocd(name="in-cluster")),
        (argocd(server="https://kubernetes.default.svc"), argocd(server="https://kubernetes.default.svc")),
        *[(argocd(server=f"https://kubernetes.default{rest}"),) * 2 for rest in (":443", ".svc:443", ".svc.a.example")],
        (argocd(server="https://r.example.com/k8s/c-A"), argocd(server="https://r.example.com/k8s/c-a")),
        (in_namespace("argocd-eu", name="gpu"), in_namespace("argocd-us", name="gpu")),
        (argocd(server="https://10.0.0.1:6443"), argocd(server="https://10.0.0.2:6443")),
        (flux("remote"), flux("remote", namespace="other")),
        (flux("remote"), flux("remote", source={"name": "other"})),
        (flux("remote"), flux("remote", source=FLEET | {"namespace": "other"})),
        (argocd(path="fleet/output/east"), argocd(path="fleet/output/west")),
        (argocd(path="output"), argocd(url="https://git.example.com/other.git")),
    ],
)
def test_what_may_be_two_clusters_and_two_folders_is_fine(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert messages(one, other) == []


@pytest.mark.parametrize("path", ["output/west", ".", "output", "output/west/driver"])
@pytest.mark.parametrize("other", [argocd(), {"engine": "none"}])
def test_the_folder_of_another_cluster_is_an_error(path: str, other: dict[str, Any]) -> None:
    (message,) = messages(argocd(path=path), other)

    assert message.startswith(f"Cluster 'east' has the folder '{path}' applied, and cluster 'west' 'output/west'")


def test_a_named_project_is_not_that_of_another_cluster_by_default() -> None:
    named = argocd() | {"argocd": {"project": "kae-west"}}
    clusters = [builders.cluster("east", gitops=named), builders.cluster("west", gitops=argocd())]

    (finding,) = fleet.shared_projects(clusters)

    assert finding.message == "Clusters 'west' and 'east' both create the AppProject 'kae-west'."


@pytest.mark.parametrize(
    "url",
    ["git@git.example.com:fleet.git", "ssh://git@git.example.com:2222/fleet", "https://GIT.example.com:443/fleet/"],
)
def test_a_repository_is_one_whatever_the_form_of_its_url(url: str) -> None:
    assert len(messages(argocd(path="output/west"), argocd(url=url))) == 1


def test_the_folder_of_a_cluster_without_a_document_is_taken_too() -> None:
    clusters = [
        builders.cluster("east", gitops=argocd(path="output/lab")),
        structs.replace(builders.cluster("lab"), source=None),
    ]

    assert [finding.code for finding in shared_targets(clusters)] == ["shared-target"]
