"""What others add to roles, bindings and the guard: Argo CD and Flux take it out, and `kae status` shows what stays."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests import in_process
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, following, gitops

_EVICTIONS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}
_SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
_EVE = {"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"}

GOING: Mapping[str, Callable[[Any], Mapping[str, Any]]] = {
    "Role": lambda live: {"rules": [*live["rules"], _SECRETS]},
    "RoleBinding": lambda live: {"subjects": [*live["subjects"], _EVE]},
    "ClusterRole": lambda live: {"rules": [*live["rules"], _SECRETS]},
    "ClusterRoleBinding": lambda live: {"subjects": [*live["subjects"], _EVE]},
    "ValidatingAdmissionPolicy": lambda live: {
        "spec": {
            "matchConstraints": {
                "excludeResourceRules": [_EVICTIONS],
                "namespaceSelector": {"matchLabels": {"a": "b"}},
                "objectSelector": {"matchLabels": {"a": "b"}},
            }
        }
    },
    "ValidatingAdmissionPolicyBinding": lambda live: {
        "spec": {
            "matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}, "excludeResourceRules": [_EVICTIONS]},
            "paramRef": {"selector": {"matchLabels": {"a": "b"}}},
        }
    },
}
"""By kind, a merge patch that adds something which an engine takes out."""

STAYING: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "ClusterRole": ({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}, "aggregationRule"),
    "ValidatingAdmissionPolicyBinding": ({"spec": {"validationActions": ["Deny", "Audit"]}}, "spec.validationActions"),
    "ValidatingAdmissionPolicy": ({"spec": {"variables": [{"name": "a", "expression": "true"}]}}, "spec.variables"),
}
"""By kind, a merge patch that adds something which no engine sees, and where `kae status` shows it."""


@dataclass(frozen=True, kw_only=True)
class Followed(following.Followed):
    plane: control_planes.ControlPlane

    @property
    def restricted(self) -> Mapping[str, manifests.Manifest]:
        return {item.kind: item for item in self.manifests if item.kind in GOING}

    def add(self, item: manifests.Manifest, change: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change a live object, as nobody whom the engine knows; return what has become of it."""
        path = f"{self.objects.path(item.data)}?fieldManager=somebody"
        return fields(self.plane.api.ask("PATCH", path, change))

    def live(self) -> Mapping[str, Mapping[str, Any]]:
        return {kind: fields(self.objects.get(item.data)) for kind, item in self.restricted.items()}


def fields(live: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in live.items() if key not in ("metadata", "status")}


@pytest.fixture(params=["argocd", "flux"])
def followed(
    request: pytest.FixtureRequest,
    control_plane: control_planes.ControlPlane,
    engines: Mapping[str, argocd.ArgoCd | flux.Flux],
    objects: kinds.Objects,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Followed]:
    repository = gitops.Repository(tmp_path_factory.mktemp(request.param) / "fleet")
    policy = manifests.document("KAEPolicy", "tls", {"driver": {"version": "2.0.1"}})
    cluster = manifests.cluster(gitops=following.settings(request.param, repository))
    manifests.compiled(repository.folder, {"policies/tls.yaml": policy, "policies/test.yaml": cluster})
    repository.commit("Compile")
    with following.follow(Followed, engines[request.param], repository, objects, plane=control_plane) as made:
        yield made


def test_an_engine_takes_out_what_others_add(followed: Followed) -> None:
    before = followed.live()
    for kind, item in followed.restricted.items():
        assert followed.add(item, GOING[kind](followed.objects.get(item.data))) != before[kind]

    followed.application.resync()

    assert before.keys() == GOING.keys()
    followed.wait_until("the objects as they were", lambda: followed.live() == before)
    followed.wait_until("a sync", followed.is_synced)


def test_what_an_engine_leaves_is_shown_by_status(followed: Followed) -> None:
    assert differing(followed) == {}
    for kind, (change, _) in STAYING.items():
        followed.add(followed.restricted[kind], change)

    followed.application.resync()
    followed.wait_until("a sync", followed.is_synced)

    assert {kind: paths[0].partition("[")[0] for kind, paths in differing(followed).items()} == {
        kind: path for kind, (_, path) in STAYING.items()
    }


def differing(followed: Followed) -> dict[str, list[str]]:
    asked = ("status", "--cluster", "test", "--kubeconfig", str(followed.plane.kubeconfig), "-o", "json")
    answer = in_process.kae(followed.repository.folder, *asked)
    assert answer.code in (0, 4), answer
    changed = [item for item in json.loads(answer.out)["cluster"]["objects"] if item["state"] != "kept"]
    return {item["kind"]: [change["path"] for change in item["changes"]] for item in changed}
