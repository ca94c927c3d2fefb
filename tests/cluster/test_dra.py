"""The interface DRA on a real node: scheduler, kubelet, containerd 2 and the compiled objects; the hardware is fake.

It needs KAE_CLUSTER_RUNTIME=containerd-2: an older containerd starts pods without the devices of their claims.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control import pods
from tests.cluster.local import waiting
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.cluster.nodes import plugin_node
from tests.cluster.nodes.plugin_node import LOOK, Deployed

DRIVER = "kae.openfuyao.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
STAYS = "while [ ! -e /end ]; do sleep 0.1; done"


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    folder = tmp_path_factory.mktemp("dra")
    with plugin_node.with_cdi(node, images, folder, interface="DRA", dra={"queues": "Shared"}) as made:
        yield made


def slices(deployed: Deployed) -> list[Any]:
    return [item for item in deployed.node.plane.api.get(SLICES)["items"] if item["spec"]["driver"] == DRIVER]


def devices(deployed: Deployed) -> dict[str, Any]:
    return {device["name"]: device for item in slices(deployed) for device in item["spec"].get("devices", ())}


def user(name: str, image: str, deployed: Deployed, *, claim: str = "", **resources: int) -> dict[str, Any]:
    """Return a pod that uses devices, by extended resources or by a template of claims."""
    limits: dict[str, Any] = {f"openfuyao.com/kae.{kind}": count for kind, count in resources.items()}
    volume = {"name": "sysfs", "hostPath": {"path": str(deployed.devices.host.sysfs)}}
    asked: dict[str, Any] = {"claims": [{"name": "accelerator"}]} if claim else {"limits": limits}
    spec: dict[str, Any] = {"volumes": [volume], "restartPolicy": "Always"}
    if claim:
        spec["resourceClaims"] = [{"name": "accelerator", "resourceClaimTemplateName": claim}]
    mounts = [{"name": "sysfs", "mountPath": "/sys", "readOnly": True}]
    return pods.pod(name, image, ["sh", "-c", STAYS], container={"resources": asked, "volumeMounts": mounts}, **spec)


def template(name: str, kind: str = "hpre", expression: str = "", queues: str = "") -> dict[str, Any]:
    exactly: dict[str, Any] = {"deviceClassName": f"kae.{kind}.openfuyao.com"}
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    if queues:
        exactly["capacity"] = {"requests": {"queues": queues}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [{"name": "accelerator", "exactly": exactly}]}}},
    }


def look(namespace: pods.Namespace, name: str) -> Any:
    return json.loads(namespace.run(name, "python3", "-c", LOOK))


def node_of(deployed: Deployed, look: Mapping[str, Any]) -> int:
    """Return the NUMA node of the one device that a pod sees."""
    (name,) = look["shown"]
    number = int(name.rpartition("-")[2])
    address = f"{number >> 16:04x}:{number >> 8 & 0xFF:02x}:{number >> 3 & 0x1F:02x}.{number & 7}"
    return deployed.devices.host.states()[address].function.numa


def test_an_unchanged_pod_gets_its_device_and_sees_no_other(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    namespace.apply(user("both", debian, deployed, hpre=1, zip=1))
    namespace.wait_for_ready("both")

    seen = look(namespace, "both")

    assert sorted(name.partition("-")[0] for name in seen["shown"]) == ["hisi_hpre", "hisi_zip"]
    assert {name: tuple(shown) for name, shown in seen["shown"].items()} == {
        name: deployed.entry_of(name) for name in seen["shown"]
    }
    assert set(seen["nodes"]) == set(seen["shown"])
    assert "OPENSSL_CONF=/run/kae/openssl/openssl.cnf" in namespace.run("both", "env")
    assert deployed.node.allocatable("openfuyao.com/kae.hpre") in (None, 0)


def test_the_plugin_has_no_privilege_and_little_memory(
    deployed: Deployed, record_property: Callable[[str, object], None]
) -> None:
    status = deployed.run("cat", "/proc/1/status")
    kib = int(status.partition("VmHWM:")[2].split()[0])
    # What it shares with the process that reads for it counts once.
    for child in deployed.run("cat", "/proc/1/task/1/children").split():
        rollup = deployed.run("cat", f"/proc/{child}/smaps_rollup")
        kib += sum(int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Private_"))

    record_property("memory_mib", f"{kib / 1024:.1f}")
    assert "CapEff:\t0000000000000000" in status
    assert kib < 56 * 1024, kib


@pytest.mark.parametrize("numa_node", [0, 1])
def test_a_claim_chooses_the_numa_node(
    numa_node: int, deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    expression = f'device.attributes["{DRIVER}"].numaNode == {numa_node}'
    namespace.apply(template("near", "sec", expression), user("near", debian, deployed, claim="near"))
    namespace.wait_for_ready("near")

    assert node_of(deployed, look(namespace, "near")) == numa_node


def test_four_pods_have_a_quarter_of_a_device_each_and_the_fifth_waits(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    expression = f'device.attributes["{DRIVER}"].numaNode == 0'
    namespace.apply(template("quarter", "hpre", expression, "64"))
    namespace.apply(*(user(f"q{number}", debian, deployed, claim="quarter") for number in range(4)))
    for number in range(4):
        namespace.wait_for_ready(f"q{number}")
    namespace.apply(user("q4", debian, deployed, claim="quarter"))
    namespace.wait_for_event("q4", "cannot allocate all claims")

    shown = [look(namespace, f"q{number}")["shown"] for number in range(4)]

    assert [list(each) for each in shown] == [list(shown[0])] * 4
    (name,) = shown[0]
    assert f"KAE_QUEUES_{name.rpartition('-')[2]}=64" in namespace.run("q0", "env")
    namespace.kubectl("delete", "pod", "q0", "--wait=true")
    namespace.wait_for_ready("q4")


def test_a_device_node_keeps_the_group_and_the_mode_of_the_host(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    address = "0000:79:00.0"
    expression = f'device.attributes["resource.kubernetes.io"].pciBusID == "{address}"'
    node = deployed.devices.host.node(address)
    before = node.stat()
    os.chown(node, 0, 994)
    node.chmod(0o660)
    try:
        namespace.apply(template("one", "hpre", expression))
        for name, groups in (("without", []), ("with", [994])):
            pod = user(name, debian, deployed, claim="one")
            pod["spec"]["securityContext"] = {"runAsUser": 1000, "runAsGroup": 1000, "supplementalGroups": groups}
            namespace.apply(pod)
            namespace.wait_for_ready(name)
            says = namespace.run(
                name, "sh", "-c", "stat -c '%a %u:%g' /dev/hisi_hpre-*; test -w /dev/hisi_hpre-*; echo $?"
            )
            assert says.split() == ["660", "0:994", "0" if groups else "1"]
            namespace.kubectl("delete", "pod", name, "--wait=true")
    finally:
        os.chown(node, before.st_uid, before.st_gid)
        node.chmod(before.st_mode & 0o777)


def test_a_restart_while_queues_are_in_use_does_not_lower_their_number(deployed: Deployed) -> None:
    try:
        for free in (1000, 0):
            deployed.devices.host.set_available_instances("0000:b5:00.0", free)
            before = deployed.plugin()["metadata"]
            deployed.namespace.kubectl("delete", "pod", before["name"], "--wait=true")
            deployed.namespace.wait_for_ready(waiting.until("the successor", deployed.plugin)["metadata"]["name"])

            device = devices(deployed)["zip-0000-b5-00-0"]
            assert device["capacity"]["queues"]["value"] == "1k"
            assert "taints" not in device
    finally:
        deployed.devices.host.set_available_instances("0000:b5:00.0", 256)


def test_the_health_of_a_device_is_in_the_status_of_its_pod(
    deployed: Deployed, debian: str, namespace: pods.Namespace
) -> None:
    expression = 'device.attributes["resource.kubernetes.io"].pciBusID == "0000:75:00.0"'
    namespace.apply(template("sick", "zip", expression), user("sick", debian, deployed, claim="sick"))
    namespace.wait_for_ready("sick")
    deployed.devices.host.set_isolate("0000:75:00.0", 1)
    try:
        waiting.until("an unhealthy device", lambda: "Unhealthy" in json.dumps(namespace.pod("sick")["status"]))
        tainted = waiting.until("a taint", lambda: devices(deployed)["zip-0000-75-00-0"].get("taints"))
    finally:
        deployed.devices.host.set_isolate("0000:75:00.0", 0)

    assert [taint["key"] for taint in tainted] == ["openfuyao.com/unhealthy"]


def test_a_restart_of_the_kubelet_loses_nothing(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    namespace.apply(user("survives", debian, deployed, sec=1))
    before = namespace.wait_for_ready("survives")
    known = {item["metadata"]["uid"] for item in slices(deployed)}

    deployed.node.restart_kubelet()
    waiting.until(
        "new slices", lambda: (now := slices(deployed)) and known.isdisjoint(i["metadata"]["uid"] for i in now)
    )
    namespace.wait_for_same(before)
    namespace.apply(user("later", debian, deployed, sec=1))
    namespace.wait_for_ready("later")


def test_a_pod_waits_while_the_driver_is_changed(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    flag = deployed.node.path("/run/kae/driver-changing")
    flag.write_text('{"reason": "a test"}')
    try:
        waiting.until("taints", lambda: all(device.get("taints") for device in devices(deployed).values()))
        namespace.apply(user("waits", debian, deployed, zip=1))
        waiting.until("an event", lambda: namespace.events("waits"))
        assert namespace.pod("waits")["status"]["phase"] == "Pending"
    finally:
        flag.unlink()
    namespace.wait_for_ready("waits")


@pytest.mark.parametrize(
    ("changed", "allowed"),
    [
        ({}, True),
        ({"nodeName": "another", "pool": {"name": "another", "generation": 1, "resourceSliceCount": 1}}, False),
        ({"driver": "gpu.example.com"}, False),
        ({"pool": {"name": "another", "generation": 1, "resourceSliceCount": 1}}, False),
        ({"nodeName": None, "allNodes": True}, False),
    ],
)
def test_the_program_writes_slices_of_its_own_node_alone(
    changed: Mapping[str, Any], allowed: bool, deployed: Deployed, tmp_path: Path
) -> None:
    name = deployed.node.name
    pool = {"name": name, "generation": 0, "resourceSliceCount": 1}
    spec: dict[str, Any] = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": []}
    spec |= changed
    script = """
import asyncio, json, sys
from device_plugin.dra import api_server
async def main():
    server, name, spec = api_server.ApiServer.of_pod(), sys.argv[1], json.loads(sys.argv[2])
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}
    path = "/apis/resource.k8s.io/v1/resourceslices"
    try:
        await server.ask("POST", path + "?dryRun=All", body)
        print("allowed")
    except api_server.ApiError as error:
        print(error)
asyncio.run(main())
"""
    stated = json.dumps({k: v for k, v in spec.items() if v is not None})

    said = deployed.run("python", "-c", script, f"{name}-kae-0f-0", stated)

    assert ("allowed" in said) is allowed, said
    assert allowed or "may write only ResourceSlices" in said


def test_slices_go_to_nobody_by_a_token_that_is_bound_to_nothing(deployed: Deployed) -> None:
    (slice_, *_) = slices(deployed)
    token = deployed.namespace.kubectl("create", "token", "kae-device-plugin").strip()
    script = "--token", token, "delete", "resourceslice", slice_["metadata"]["name"], "--dry-run=server"

    with pytest.raises(Exception, match="may write only ResourceSlices of the node"):
        deployed.node.plane.kubectl("--kubeconfig=/dev/null", *server_of(deployed), *script)


def server_of(deployed: Deployed) -> list[str]:
    config = json.loads(deployed.node.plane.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
    cluster = config["clusters"][0]["cluster"]
    return ["--server", cluster["server"], "--insecure-skip-tls-verify"]
