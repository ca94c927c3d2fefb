"""Which kinds of containers can use their devices on the node's container runtime; only the hardware is fake.

KAE_CLUSTER_RUNTIME=containerd-2 runs them on a current containerd and runc; without it they run on the machine's own.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests import tools
from tests.cluster.control import pods
from tests.cluster.nodes.plugin_node import LOOK, Deployed

UNPRIVILEGED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
CONTEXTS: Mapping[str, Mapping[str, Any]] = {
    "ordinary": {},
    "privileged": {"privileged": True},
    "non-root": {"runAsUser": 65532, "runAsGroup": 65532, "runAsNonRoot": True, **UNPRIVILEGED},
    "read-only-root": {"readOnlyRootFilesystem": True},
    "two-resources": {},
    "user-namespace": {},
    "user-namespace-of-two": {},
}
HAS_USER_NAMESPACES = os.environ.get("KAE_CLUSTER_RUNTIME") == "containerd-2"


def container(image: str, **fields: Any) -> dict[str, Any]:
    return {
        "name": "main",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", LOOK],
        "resources": limits("sec"),
        "volumeMounts": [{"name": "sysfs", "mountPath": "/sys", "readOnly": True}],
        **fields,
    }


def limits(*kinds: str) -> dict[str, Any]:
    return {"limits": {f"openfuyao.com/kae.{kind}": 1 for kind in kinds}}


def single(name: str, image: str, volume: Mapping[str, Any]) -> dict[str, Any]:
    resources = limits("hpre", "zip") if "two" in name else limits("sec")
    fields = container(image, securityContext=CONTEXTS[name], resources=resources)
    return pods.pod(name, image, (), volumes=[volume], container=fields, hostUsers="user-namespace" not in name)


def several(image: str, volume: Mapping[str, Any]) -> dict[str, Any]:
    pod = pods.pod("several", image, (), volumes=[volume], container=container(image))
    stays = ["sh", "-c", 'python3 -c "$0" && touch /looked && while :; do sleep 0.1; done', LOOK]
    # The main container waits for it: the sidecar ends with the main container, whether or not it has looked.
    looked = {"exec": {"command": ["test", "-e", "/looked"]}, "periodSeconds": 1, "failureThreshold": 300}
    pod["spec"]["initContainers"] = [
        container(image, name="first"),
        container(image, name="sidecar", command=stays, restartPolicy="Always", startupProbe=looked),
    ]
    return pod


@pytest.fixture(scope="module")
def started(deployed: Deployed, debian: str) -> Iterator[pods.Namespace]:
    """The namespace of all pods, which begin together."""
    volume = {"name": "sysfs", "hostPath": {"path": str(deployed.devices.host.sysfs)}}
    with pods.namespace(deployed.node.plane) as namespace:
        namespace.apply(*(single(name, debian, volume) for name in CONTEXTS), several(debian, volume))
        yield namespace


def opened(namespace: pods.Namespace, pod: str, name: str = "main") -> Any:
    return json.loads(namespace.kubectl("logs", pod, "-c", name).splitlines()[0])


def assert_own(look: Any, deployed: Deployed, modules: Sequence[str]) -> None:
    """Assert that a container opened a device of each module, and that each is the one that its name stands for."""
    assert sorted(name.partition("-")[0] for name in look["shown"]) == list(modules)
    assert {name: tuple(shown) for name, shown in look["shown"].items()} == {
        name: deployed.entry_of(name) for name in look["shown"]
    }


@pytest.mark.parametrize("name", [name for name in CONTEXTS if HAS_USER_NAMESPACES or "namespace" not in name])
def test_a_container_opens_its_devices_by_their_names_and_sees_no_other(
    name: str, deployed: Deployed, started: pods.Namespace
) -> None:
    started.wait_for_phase(name, "Succeeded")

    look = opened(started, name)

    assert_own(look, deployed, ["hisi_hpre", "hisi_zip"] if "two" in name else ["hisi_sec2"])
    own = set(look["shown"])
    # A privileged container has every node of the host's /dev beside its own.
    assert own < set(look["nodes"]) if name == "privileged" else own == set(look["nodes"])


def test_init_containers_and_sidecars_open_their_devices_too(deployed: Deployed, started: pods.Namespace) -> None:
    started.wait_for_phase("several", "Succeeded")

    for name in ("first", "sidecar", "main"):
        assert_own(opened(started, "several", name), deployed, ["hisi_sec2"])


def test_a_runtime_without_user_namespaces_says_so_in_an_event(started: pods.Namespace) -> None:
    if HAS_USER_NAMESPACES:
        tools.skip("This runtime has user namespaces.")
    started.wait_for_event("user-namespace", "runtime does not support user namespaces")
