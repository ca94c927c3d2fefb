"""Which kinds of containers can use their devices on the node's container runtime; only the hardware is fake.

KAE_CLUSTER_RUNTIME=containerd-2 runs them on a current containerd and runc; without it they run on the machine's own.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.test_device_plugin import Deployed, address_of, deployed, expected

__all__ = ("deployed",)

LOOK = """\
import json, os
shown = {}
for name in os.listdir('/sys/class/uacce'):
    if os.path.exists(f'/sys/class/uacce/{name}/api'):
        os.close(os.open(f'/dev/{name}', os.O_RDWR))
        node = os.stat(f'/dev/{name}')
        entry = os.path.basename(os.path.realpath(f'/sys/class/uacce/{name}'))
        shown[name] = (entry, f'{os.major(node.st_rdev)}:{os.minor(node.st_rdev)}')
print(json.dumps({'shown': shown, 'nodes': sorted(name for name in os.listdir('/dev') if name.startswith('hisi_'))}))
"""
"""Open each device that libwd would choose from, by its name there."""

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
"""The security contexts of pods with one container."""

HAS_USER_NAMESPACES = os.environ.get("KAE_CLUSTER_RUNTIME") == "containerd-2"


def container(image: str, **fields: Any) -> dict[str, Any]:
    """Return a container that opens its device and ends."""
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
    """Return the pod of one container with this name."""
    resources = limits("hpre", "zip") if "two" in name else limits("sec")
    fields = container(image, securityContext=CONTEXTS[name], resources=resources)
    return pods.pod(name, image, (), volumes=[volume], container=fields, hostUsers="user-namespace" not in name)


def several(image: str, volume: Mapping[str, Any]) -> dict[str, Any]:
    """Return a pod whose init container, sidecar and main container have a device each."""
    pod = pods.pod("several", image, (), volumes=[volume], container=container(image))
    stays = ["sh", "-c", 'python3 -c "$0" && while :; do sleep 0.1; done', LOOK]
    pod["spec"]["initContainers"] = [
        container(image, name="first"),
        container(image, name="sidecar", command=stays, restartPolicy="Always"),
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
    """Return what a container found."""
    return json.loads(namespace.kubectl("logs", pod, "-c", name).splitlines()[0])


def assert_own(found: Any, deployed: Deployed, modules: Sequence[str]) -> None:
    """Assert that a container opened a device of each module, and that each is the one that its name stands for."""
    assert sorted(name.partition("-")[0] for name in found["shown"]) == list(modules)
    for name, (entry, numbers) in found["shown"].items():
        assert (entry, numbers) == expected(deployed, address_of(name))


@pytest.mark.parametrize("name", [name for name in CONTEXTS if HAS_USER_NAMESPACES or "namespace" not in name])
def test_a_container_opens_its_devices_by_their_names_and_sees_no_other(
    name: str, deployed: Deployed, started: pods.Namespace
) -> None:
    started.wait_for_phase(name, "Succeeded", timeout_s=60)

    found = opened(started, name)

    assert_own(found, deployed, ["hisi_hpre", "hisi_zip"] if "two" in name else ["hisi_sec2"])
    own = set(found["shown"])
    # A privileged container has every node of the host's /dev beside its own.
    assert own < set(found["nodes"]) if name == "privileged" else own == set(found["nodes"])


def test_init_containers_and_sidecars_open_their_devices_too(deployed: Deployed, started: pods.Namespace) -> None:
    started.wait_for_phase("several", "Succeeded", timeout_s=60)

    for name in ("first", "sidecar", "main"):
        assert_own(opened(started, "several", name), deployed, ["hisi_sec2"])


@pytest.mark.skipif(HAS_USER_NAMESPACES, reason="this runtime has user namespaces")
def test_a_runtime_without_user_namespaces_says_so_in_an_event(started: pods.Namespace) -> None:
    sentence = "runtime does not support user namespaces"

    waiting.until(
        "the event", lambda: any(sentence in event for event in started.events("user-namespace")), timeout_s=30
    )
