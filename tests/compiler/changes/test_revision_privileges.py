"""The privileges that a change gives: an object's own fields say them, however they are written."""

from typing import Any

import pytest

from compiler.changes.revisions import privileges


def texts(**pod: Any) -> list[str]:
    """The privileges that concern secrets and nodes of a Deployment with this pod spec."""
    spec = {"containers": [], "automountServiceAccountToken": False} | pod
    data = {"kind": "Deployment", "spec": {"template": {"metadata": {}, "spec": spec}}}
    return [item.text for item in sorted(privileges.of_object(data)) if item.sort in ("secret", "node")]


def test_a_destination_of_argo_cd_is_said_by_its_name_or_its_server() -> None:
    places = [{"name": "prod", "namespace": "kae"}, {"server": "https://k8s.example.com", "namespace": "kae"}]

    assert sorted(
        item.text for item in privileges.of_object({"kind": "AppProject", "spec": {"destinations": places}})
    ) == [
        "Argo CD may apply to https://k8s.example.com, namespace kae",
        "Argo CD may apply to prod, namespace kae",
    ]


SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "forge", "key": "token"}}}


@pytest.mark.parametrize(
    "pod",
    [
        {"containers": [{"name": "a", "image": "x/a:1", "env": [{"name": "PLAIN", "value": "b"}, SECRET]}]},
        {"initContainers": [{"name": "a", "image": "x/a:1", "env": [SECRET]}]},
        {"volumes": [{"name": "v", "secret": {"secretName": "forge"}}]},
        {"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "forge"}}]}}]},
    ],
    ids=["variable", "variable of an init container", "volume", "projected volume"],
)
def test_a_pod_that_reads_a_secret_says_which(pod: dict[str, Any]) -> None:
    assert texts(**pod) == ["reads Secret forge"]
