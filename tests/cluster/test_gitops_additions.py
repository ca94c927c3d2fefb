"""What others add to roles, bindings and the guard: Argo CD and Flux take it out, and `kae status` shows what stays."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from tests import in_process, project
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.engines import argocd, flux, gitops
from tests.cluster.local import waiting
from tests.cluster.test_gitops import NOWHERE

SYNC_S = 60
_POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: tls
spec:
  driver: {version: 2.0.1}
"""
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
    "ValidatingAdmissionPolicy": (
        {"spec": {"variables": [{"name": "a", "expression": "true"}]}},
        "spec.variables",
    ),
}
"""By kind, a merge patch that adds something which no engine sees, and where `kae status` shows it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """A project whose output an engine follows."""

    repository: gitops.Repository
    application: gitops.Application
    objects: kinds.Objects
    plane: control_planes.ControlPlane
    restricted: Mapping[str, manifests.Manifest]
    """The objects that grant or confine, by kind."""

    def add(self, item: manifests.Manifest, change: Mapping[str, Any]) -> None:
        """Change a live object, as nobody whom the engine knows."""
        path = f"{self.objects.path(item.data)}?fieldManager=somebody"
        answer = self.plane.api.request("PATCH", path, change)
        assert answer.status == 200, answer

    def wait_until(self, what: str, probe: Callable[[], Any]) -> None:
        """Wait for the engine."""
        waiting.until(what, probe, timeout_s=SYNC_S, explain=self.application.explain)

    def is_synced(self) -> bool:
        """Return whether the engine says so."""
        return self.application.is_synced(self.repository.head())

    def fields(self, item: manifests.Manifest) -> Mapping[str, Any]:
        """Return a live object without what the API server records."""
        return {key: value for key, value in self.objects.get(item.data).items() if key not in ("metadata", "status")}


@pytest.fixture(params=["argocd", "flux"])
def followed(
    request: pytest.FixtureRequest,
    control_plane: control_planes.ControlPlane,
    engines: Mapping[str, argocd.ArgoCd | flux.Flux],
    objects: kinds.Objects,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Followed]:
    """The project, synced; at the end all that was applied is gone."""
    repository = gitops.Repository(tmp_path_factory.mktemp(request.param) / "fleet")
    url = repository.url if request.param == "argocd" else NOWHERE
    engine = f"  gitops: {{engine: {request.param}, repository: {{url: '{url}'}}}}\n"
    texts = {"policies/tls.yaml": _POLICY, "policies/test.yaml": manifests.CLUSTER + engine}
    assert in_process.kae(project.write(repository.folder, texts), "compile").code == 0
    repository.commit("Compile")
    found = manifests.of(repository.folder / "output/test")
    application = engines[request.param].follow([item for item in found if item.is_bootstrap], repository)
    applied = [item for item in found if not item.is_bootstrap]
    made = Followed(
        repository=repository,
        application=application,
        objects=objects,
        plane=control_plane,
        restricted={item.kind: item for item in applied if item.kind in GOING},
    )
    made.wait_until("the first sync", made.is_synced)
    yield made
    application.end()
    for item in applied:
        objects.delete(item.data)
    made.wait_until("its end", lambda: not any(objects.get(item.data) for item in applied))


def test_an_engine_takes_out_what_others_add(followed: Followed) -> None:
    before = {kind: followed.fields(item) for kind, item in followed.restricted.items()}
    for kind, item in followed.restricted.items():
        followed.add(item, GOING[kind](followed.objects.get(item.data)))
        assert followed.fields(item) != before[kind]

    followed.application.resync()

    assert before.keys() == GOING.keys()

    def is_as_before() -> bool:
        return all(followed.fields(item) == before[kind] for kind, item in followed.restricted.items())

    followed.wait_until("the objects as they were", is_as_before)
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
    """Return the fields in which `kae status` finds a difference, by the kind of the object."""
    asked = ("status", "--cluster", "test", "--kubeconfig", str(followed.plane.kubeconfig), "-o", "json")
    answer = in_process.kae(followed.repository.folder, *asked)
    assert answer.code in (0, 4), answer
    found = json.loads(answer.out)["cluster"]["objects"]
    return {item["kind"]: [change["path"] for change in item["changes"]] for item in found if item["state"] != "kept"}
