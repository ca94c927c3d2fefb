"""What the API server adds to pods that ask for EPC memory, by the policies of the recipe intel-sgx."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests
from tests.cluster.control import objects as kinds
from tests.cluster.local import waiting
from tests.golden import trees

TREE = "tests/golden/recipes-of-vendors/output/east"
PODS = "/api/v1/namespaces/default/pods?dryRun=All&fieldValidation=Strict"
EPC, ENCLAVE, PROVISION = (f"sgx.intel.com/{name}" for name in ("epc", "enclave", "provision"))
QUOTE = "sgx.intel.com/quote-provider"
SOCKET = {"name": "aesmd-socket", "mountPath": "/var/run/aesmd"}


def container(name: str = "main", epc: str | None = "512Ki", **more: Any) -> dict[str, Any]:
    limits = {} if epc is None else {"resources": {"limits": {EPC: epc}}}
    return {"name": name, "image": "registry.example.com/main:1", **limits, **more}


class Made:
    """Pods that a control plane with the policies of the recipe would make."""

    def __init__(self, plane: control_planes.ControlPlane, reorder: Callable[[int], None]) -> None:
        self._plane = plane
        self.reorder = reorder

    def answer(self, *containers: dict[str, Any], provider: str = "", volumes: Any = ()) -> Any:
        metadata = {"name": "pod", **({"annotations": {QUOTE: provider}} if provider else {})}
        pod = {"containers": list(containers), "volumes": list(volumes), "automountServiceAccountToken": False}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}
        return self._plane.api.request("POST", PODS, body)

    def pod(self, *containers: dict[str, Any], provider: str = "", volumes: Any = ()) -> Any:
        answer = self.answer(*containers, provider=provider, volumes=volumes)
        assert answer.status == 201, answer.body
        return answer.body


@pytest.fixture(scope="module")
def made(control_plane: control_planes.ControlPlane, objects: kinds.Objects) -> Iterator[Made]:
    every = [item for item in manifests.parsed(trees.files(TREE)) if item.kind.startswith("MutatingAdmissionPolicy")]
    assert len(every) == 6
    account = {"metadata": {"name": "default"}}
    control_plane.api.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
    for item in every:
        objects.apply(item.data, item.text, "kae")

    def reorder(count: int) -> None:
        objects.merge(every[0].data, {"metadata": {"annotations": {"changed": str(count)}}})

    found = Made(control_plane, reorder)

    def in_force() -> bool:
        # The API server's plugin hears of a policy a moment later.
        answer = found.answer(container(), provider="aesmd")
        if answer.status != 201:  # Of a mount whose volume another one brings.
            return False
        pod = answer.body
        return ENCLAVE in amounts(pod)["main"] and mounts(pod)["main"] == [SOCKET] and bool(pod["spec"].get("volumes"))

    waiting.until("the policies to be in force", in_force)
    yield found
    for item in reversed(every):
        objects.delete(item.data)


def amounts(pod: Any) -> dict[str, dict[str, str]]:
    return {one["name"]: one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]}


def mounts(pod: Any) -> dict[str, list[Any]]:
    return {one["name"]: one.get("volumeMounts", []) for one in pod["spec"]["containers"]}


def variables(pod: Any) -> dict[str, list[Any]]:
    return {one["name"]: one.get("env", []) for one in pod["spec"]["containers"]}


def test_a_pod_without_epc_gets_nothing(made: Made) -> None:
    pod = made.pod(container(epc=None), provider="aesmd")

    assert (amounts(pod), mounts(pod), variables(pod)) == ({"main": {}}, {"main": []}, {"main": []})
    assert EPC not in pod["metadata"]["annotations"]


def test_a_container_with_epc_gets_an_enclave(made: Made) -> None:
    pod = made.pod(container())

    assert amounts(pod) == {"main": {EPC: "512Ki", ENCLAVE: "1"}}
    assert pod["spec"]["containers"][0]["resources"]["requests"][ENCLAVE] == "1"
    assert pod["metadata"]["annotations"][EPC] == "524288"


def test_a_quote_provider_gets_a_provision_and_the_sum_is_told(made: Made) -> None:
    pod = made.pod(container("a"), container("b"), container("c", None), provider="b")

    assert amounts(pod) == {
        "a": {EPC: "512Ki", ENCLAVE: "1"},
        "b": {EPC: "512Ki", ENCLAVE: "1", PROVISION: "1"},
        "c": {},
    }
    assert pod["metadata"]["annotations"][EPC] == "1048576"


def test_two_users_share_the_socket_of_aesmd_in_memory(made: Made) -> None:
    pod = made.pod(container("aesmd"), container("main"), provider="aesmd")

    assert mounts(pod) == {"aesmd": [SOCKET], "main": [SOCKET]}
    assert variables(pod) == {name: [{"name": "SGX_AESM_ADDR", "value": "1"}] for name in ("aesmd", "main")}
    assert pod["spec"]["volumes"] == [{"name": "aesmd-socket", "emptyDir": {"medium": "Memory"}}]


def test_one_user_gets_the_socket_of_the_host_and_keeps_its_variables(made: Made) -> None:
    env = [{"name": "SGX_AESM_ADDR", "value": "0"}, {"name": "X", "value": "1"}]

    pod = made.pod(container(env=env), provider="aesmd")

    assert sorted((one["name"], one["value"]) for one in variables(pod)["main"]) == [("SGX_AESM_ADDR", "1"), ("X", "1")]
    (volume,) = pod["spec"]["volumes"]
    assert volume["hostPath"] == {"path": "/var/run/aesmd", "type": "DirectoryOrCreate"}


def test_a_mount_that_is_there_is_left_alone_without_a_further_volume(made: Made) -> None:
    own = {"name": "mine", "mountPath": "/var/run/aesmd"}

    pod = made.pod(container(volumeMounts=[own]), provider="aesmd", volumes=[{"name": "mine", "emptyDir": {}}])

    assert mounts(pod) == {"main": [own]}
    assert [volume["name"] for volume in pod["spec"]["volumes"]] == ["mine"]


def test_a_variable_with_a_source_of_its_own_leaves_its_container_out(made: Made) -> None:
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}

    pod = made.pod(container(env=[{"name": "SGX_AESM_ADDR", "valueFrom": source}]), provider="aesmd")

    assert variables(pod)["main"] == [{"name": "SGX_AESM_ADDR", "valueFrom": source}]
    assert amounts(pod)["main"][ENCLAVE] == "1"
    assert "volumes" not in pod["spec"]


def test_the_policies_act_in_any_order(made: Made) -> None:
    # The API server keeps them in a map, and runs them in the order in which it last walked that: at each change anew.
    seen = []
    for count in range(12):
        made.reorder(count)
        time.sleep(1.2)  # It looks for changes each second.
        seen.append(made.answer(container("aesmd"), container("main"), provider="aesmd").status)

    assert seen == [201] * 12


def test_a_part_of_a_byte_is_refused_by_the_api_server_itself(made: Made) -> None:
    answer = made.answer(container(epc="512m"))

    assert answer.status == 422
