"""The right to take away programs that come after a driver, on the real API server: on the own node, and no others."""

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from installer.drain import cluster
from tests.cluster.control import access, manifests, pods
from tests.cluster.control import control_plane as control_planes
from tests.cluster.local import waiting

OWN = manifests.NAMESPACE
HERE, THERE = "after-a", "after-b"
ACCOUNT, APP = "net-driver-desk", "net-driver"
SELECTOR = f"device.openfuyao.com/after={APP}"
PROGRAMS = f"/api/v1/namespaces/{OWN}/pods"
NOT_HERE = "A driver installer of 'net' may delete only pods of the node that it runs on."
NOT_AFTER = "A driver installer of 'net' may delete only pods of programs that come after its driver."

RECIPE = {
    "title": "Network cards",
    "match": {"all": {}},
    "images": {
        name: {"repository": "registry.test", "image": name, "version": "1.0"} for name in ("modules", "control")
    },
    "driver": {
        "version": "modules",
        "sources": ["prebuilt"],
        "payloads": [{"image": "modules", "paths": ["/opt/lib/modules"]}],
        "modules": [{"name": "net"}],
    },
    "programs": [
        {"name": "control", "after": "driver", "pod": {"containers": [{"name": "control", "image": "control"}]}}
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installers:
    plane: control_planes.ControlPlane
    here: cluster.Cluster
    """The client of an installer on the node HERE."""
    unbound: cluster.Cluster

    def make(self, name: str, node: str, app: str = APP) -> str:
        """Make a pod of a program, and return its uid."""
        made = pod(name, node)
        made["metadata"] = {**made["metadata"], "namespace": OWN, "labels": {"device.openfuyao.com/after": app}}
        self.plane.apply(made)
        return str(self.plane.api.get(f"{PROGRAMS}/{name}")["metadata"]["uid"])

    def has(self, name: str) -> bool:
        return self.plane.api.get(f"{PROGRAMS}/{name}") is not None


def pod(name: str, node: str, **spec: object) -> dict[str, Any]:
    # There is no kubelet that could confirm its end.
    stays = {"terminationGracePeriodSeconds": 0, "tolerations": [{"operator": "Exists"}]}
    return pods.pod(name, "localhost/none", ["none"], nodeName=node, **stays, **spec)


def node(name: str) -> Mapping[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"unschedulable": True}}


@pytest.fixture(scope="module")
def installers(
    control_plane: control_planes.ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installers]:
    documents = {
        "recipes/net/recipe.yaml": manifests.document("Recipe", "net", RECIPE),
        "policies/desk.yaml": manifests.document("DevicePolicy", "desk", {"recipe": "net"}),
        "policies/test.yaml": manifests.cluster(),
    }
    folder = manifests.compiled(tmp_path_factory.mktemp("project"), documents)
    every = manifests.of(folder / "output/test")
    compiled = [item.data for item in every if item.component in ("namespace", "net", "guard")]
    nodes = [node(name) for name in (HERE, THERE)]
    with contextlib.ExitStack() as stack:
        stack.callback(control_plane.delete, *compiled, *nodes)
        stack.callback(control_plane.api.request, "DELETE", f"{PROGRAMS}?gracePeriodSeconds=0")
        control_plane.apply(*compiled, *nodes)
        namespace = pods.Namespace(name=OWN, plane=control_plane)
        namespace.apply(pod("installer-here", HERE, serviceAccountName=ACCOUNT))
        callers = []
        for name in ("installer-here", ""):
            token = access.bound_token(namespace, ACCOUNT, name)
            folder = tmp_path_factory.mktemp("caller")
            config = access.kubeconfig(control_plane, folder, token=token)
            callers.append(stack.enter_context(contextlib.closing(cluster.Cluster(config))))
        made = Installers(plane=control_plane, here=callers[0], unbound=callers[1])

        def is_guarded() -> bool:
            # A pod of another one of the name, or of none, reaches no guard.
            return NOT_AFTER in refusal(made.here, "probe", made.make("probe", HERE, "none"))

        waiting.until("the guard", is_guarded)
        yield made


def refusal(caller: cluster.Cluster, name: str, uid: str = "00000000-0000-4000-8000-000000000000") -> str:
    """The API server's words about a deletion; empty where it carried it out, or where no such pod is there."""
    try:
        caller.delete(OWN, name, uid)
    except cluster.Refused as refused:
        return str(refused)
    return ""


def test_an_installer_deletes_only_pods_after_its_driver_on_its_node(installers: Installers) -> None:
    own, there = installers.make("own", HERE), installers.make("there", THERE)
    other = installers.make("other", HERE, "kae-driver")

    found = installers.here.pods(OWN, SELECTOR, HERE)

    assert found == {"own": own}
    assert NOT_HERE in refusal(installers.here, "there", there)
    assert NOT_AFTER in refusal(installers.here, "other", other)
    assert NOT_AFTER in refusal(installers.here, "installer-here", uid_of(installers, "installer-here"))
    assert refusal(installers.here, "own", own) == ""
    assert [installers.has(name) for name in ("own", "there", "other", "installer-here")] == [False, True, True, True]


def uid_of(installers: Installers, name: str) -> str:
    return str(installers.plane.api.get(f"{PROGRAMS}/{name}")["metadata"]["uid"])


def test_a_pod_that_is_another_one_of_its_name_stays(installers: Installers) -> None:
    installers.make("again", HERE)

    assert refusal(installers.here, "again") == ""
    assert installers.has("again")
    assert refusal(installers.here, "nobody") == ""


def test_a_token_that_is_bound_to_no_pod_deletes_nothing(installers: Installers) -> None:
    uid = installers.make("unbound", HERE)

    assert NOT_HERE in refusal(installers.unbound, "unbound", uid)
    assert installers.has("unbound")


def test_the_right_ends_at_the_namespace_and_has_no_other_verb(installers: Installers) -> None:
    with pytest.raises(cluster.Forbidden):
        installers.here.pods("kube-system", SELECTOR, HERE)
    with pytest.raises(cluster.Forbidden):
        installers.here.delete("kube-system", "any", "1")
