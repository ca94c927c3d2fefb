"""The plans of random fleets of both interfaces, and what the real scheduler gives to pods on hollow nodes."""

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from device_plugin.dra import slices
from device_plugin.host import sysfs
from device_plugin.kubelet import advertised
from runtime import device_plugin_config as config
from tests import effort
from tests.cli import answers
from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.local import waiting
from tests.cluster.simulated import hollow_nodes
from tests.device_plugin import settings

HPRE = "openfuyao.com/kae.hpre"
_MARK = "example.com/fleet"
_SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def devices(count: int) -> list[advertised.Device]:
    """Return healthy devices of HPRE, as the program reads them."""
    made = []
    for number in range(count):
        entry = sysfs.Entry(
            name=f"hisi_hpre-{number}",
            folder="",
            node=f"hisi_hpre-{number}",
            node_numbers="1:3",
            node_state="there",
            missing=(),
            api="hisi_qm_v2",
            algorithms=("rsa",),
            isolated=0,
            free_queues=256,
        )
        function = sysfs.Function(
            address=f"0000:{0x79 + number:02x}:00.0",
            kind=settings.kind("hpre"),
            virtual=False,
            driver="hisi_hpre",
            numa_node=number % 2,
            vfs=0,
            entry=entry,
        )
        made.append(advertised.Device(function=function, reasons=()))
    return made


def published(node: str, count: int, queues: Any) -> list[dict[str, Any]]:
    """Return the slices that the program of a node writes."""
    stated = settings.settings(settings.uacce(), interface="DRA", dra=config.Dra(queues=queues))
    offers = slices.offers(stated, devices(count))
    made = [slices.device(offer, stated, 256) for offer in offers.values()]
    return slices.slices(settings.HOME.dra_driver, node, None, made, (1, "0"))


def policy(pool: str, **plugin: Any) -> dict[str, Any]:
    spec = {
        "nodeSelector": {"matchLabels": {"pool": pool}},
        "driver": {"enabled": False},
        "devicePlugin": {"version": "1.4.1", **plugin},
    }
    return manifests.document("KAEPolicy", pool, spec)


def listed(name: str, labels: dict[str, str]) -> dict[str, Any]:
    info = {"kubeletVersion": "v1.36.3", "containerRuntimeVersion": "containerd://2.1.4", "architecture": "arm64"}
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"nodeInfo": info}}


def user(name: str, seed: int) -> dict[str, Any]:
    limits = {"resources": {"limits": {HPRE: 1}}}
    return pods.pod(name, "example.com/user:1", ["true"], container=limits, nodeSelector={_MARK: str(seed)})


@pytest.mark.parametrize("seed", range(effort.examples(gate=30, long=30)))
def test_the_scheduler_gives_what_the_plan_says_and_no_more(
    seed: int, control_plane: control_planes.ControlPlane, namespace: pods.Namespace, tmp_path: Path
) -> None:
    draw = random.Random(seed)  # noqa: S311 - it is to be the same each time
    pools = {f"fleet-{seed}-{number}": draw.choice(("plugin", "dra")) for number in range(draw.randint(2, 5))}
    counts = {name: draw.randint(0, 3) for name in pools}
    queues = draw.choice(("Exclusive", "Shared"))
    labels = {
        name: {"pool": pool, _MARK: str(seed), f"{HPRE}.present": "true", f"{HPRE}.pf": str(counts[name])}
        for name, pool in pools.items()
    }
    files: dict[str, Any] = {
        "policies/test.yaml": manifests.cluster(),
        "policies/plugin.yaml": policy("plugin"),
        "policies/dra.yaml": policy("dra", interface="DRA", dra={"queues": queues}),
        "inventory/test.json": {
            "kind": "List",
            "apiVersion": "v1",
            "items": [listed(*each) for each in labels.items()],
        },
    }
    manifests.compiled(tmp_path, files)
    (planned,) = json.loads(answers.told(tmp_path, "plan", "-o", "json"))["clusters"]
    amounts = Counter({node["name"]: node["resources"].get(HPRE, 0) for node in planned["nodes"]})
    classes = [item.data for item in manifests.of(tmp_path / "output/test") if item.kind == "DeviceClass"]
    api = control_plane.api
    written = [each for name, pool in pools.items() if pool == "dra" for each in published(name, counts[name], queues)]
    with hollow_nodes.Nodes(api, labels).working():
        control_plane.apply(*classes)
        for name, pool in pools.items():
            if pool == "plugin":
                own = {HPRE: str(counts[name])}
                api.request("PATCH", f"/api/v1/nodes/{name}/status", {"status": {"capacity": own, "allocatable": own}})
        for each in written:
            assert api.request("POST", _SLICES, each).status == 201
        try:
            total, extra = sum(amounts.values()), draw.randint(1, 3)
            namespace.apply(*(user(f"u{number}", seed) for number in range(total + extra)))

            def bound() -> Counter[str]:
                return Counter(pod["spec"]["nodeName"] for pod in namespace.pods() if "nodeName" in pod["spec"])

            waiting.until(f"{total} pods", lambda: bound().total() >= total, explain=lambda: f"{bound()} of {amounts}")
            waiting.until("looks at the rest", lambda: len(told(namespace)) >= extra)
            assert bound() == +amounts
        finally:
            for each in written:
                api.request("DELETE", f"{_SLICES}/{each['metadata']['name']}", {})


def told(namespace: pods.Namespace) -> list[Any]:
    """Return the pods that the scheduler looked at and found no node for."""
    return [
        pod
        for pod in namespace.pods()
        if "nodeName" not in pod["spec"]
        and any(each.get("reason") == "Unschedulable" for each in pod["status"].get("conditions", ()))
    ]
