"""A vendor's own program, built from its source: a recipe brings it to a node, and a pod gets what it offers.

It needs KAE_INTEL_PLUGINS, as tests/vendors. The program's own flag -prefix has it look at a fake host, a folder with
files of /sys/class/accel and with real device nodes.
"""

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control import manifests, pods
from tests.cluster.nodes import driver_node
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.vendors import intel

RECIPE, RESOURCE = "intel-npu", "npu.intel.com/accel"
PROGRAM = "usr/local/bin/intel_npu_device_plugin"
PLACES = ("/dev/accel", "/sys/class/accel")
NUMBERS = {"accel0": os.makedev(1, 5), "accel1": os.makedev(1, 7)}
"""Of nodes that every machine has: zero and full."""

SHARES = 2


@pytest.fixture(scope="module")
def image(images: image_store.Images, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The vendor's device plugin in an image of its own, without anything else."""
    source, root = intel.checkout(tmp_path_factory.mktemp("vendor")), tmp_path_factory.mktemp("root")
    command = ("go", "build", "-o", str(root / PROGRAM), "./cmd/npu_plugin")
    subprocess.run(command, cwd=source, env={**os.environ, "CGO_ENABLED": "0"}, timeout=1800, check=True)
    return images.build(f"localhost/intel-npu-plugin:{intel.RELEASE}", root, Entrypoint=[f"/{PROGRAM}"])


@pytest.fixture(scope="module")
def host(node: nodes.Node) -> Path:
    """A fake host with two devices."""
    folder = node.plane.instance.state / "accel"
    nodes_, entries = (folder / place.lstrip("/") for place in PLACES)
    nodes_.mkdir(parents=True)
    for name, number in NUMBERS.items():
        (entries / name / "device").mkdir(parents=True)
        (entries / name / "device/vendor").write_text("0x8086\n")
        (entries / name / "device/device").write_text("0x7d1d\n")
        os.mknod(nodes_ / name, stat.S_IFCHR | 0o666, number)
    return folder


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, image: str, host: Path, tmp_path_factory: pytest.TempPathFactory, repository_root: Path
) -> Iterator[pods.Namespace]:
    repository, _, name = image.partition(":")[0].partition("/")
    labels = {f"openfuyao.com/{RECIPE}.present": "true", f"openfuyao.com/{RECIPE}.npu.present": "true"}
    policy = {
        "recipe": RECIPE,
        "images": {"plugin": {"repository": repository, "image": name}},
        "values": {"sharedDevNum": SHARES},
    }
    driver_node.set_labels(node, labels)
    documents: dict[str, Any] = {
        f"recipes/{RECIPE}/recipe.yaml": (repository_root / f"templates/recipes/{RECIPE}/recipe.yaml").read_text(),
        "policies/one.yaml": manifests.document("DevicePolicy", "one", policy),
        "policies/test.yaml": manifests.cluster(),
        "inventory/test.json": {"apiVersion": "v1", "kind": "List", "items": [node.describe()]},
    }
    output = manifests.compiled(tmp_path_factory.mktemp("project"), documents) / "output/test"
    objects = [dict(item.data) for item in manifests.of(output) if item.component in ("namespace", RECIPE)]
    (daemon_set,) = (item for item in objects if item["kind"] == "DaemonSet")
    spec = daemon_set["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    container["args"].append(f"-prefix={host}")
    places = [(mount, "mountPath") for mount in container["volumeMounts"]]
    places += [(volume["hostPath"], "path") for volume in spec["volumes"]]
    for part, key in places:
        if part[key] in PLACES:
            part[key] = f"{host}{part[key]}"
    node.plane.apply(*objects)
    try:
        node.wait_for_allocatable(RESOURCE, SHARES * len(NUMBERS))
        yield pods.Namespace(name=manifests.NAMESPACE, plane=node.plane)
    finally:
        node.plane.kubectl("delete", "namespace", manifests.NAMESPACE, "--wait=true")
        driver_node.set_labels(node, dict.fromkeys(labels))


def test_the_vendors_program_is_ready_as_the_recipe_has_it(deployed: pods.Namespace) -> None:
    (pod,) = deployed.staying(f"app.kubernetes.io/name={RECIPE}-plugin")

    (container,) = pod["spec"]["containers"]
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert container["args"][:2] == ["-v=0", f"-shared-dev-num={SHARES}"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_pod_gets_a_device_of_it(
    deployed: pods.Namespace, host: Path, debian: str, namespace: pods.Namespace
) -> None:
    del deployed
    place = f"{host}{PLACES[0]}"
    look = f"import os; print({{name: os.stat(f'{place}/{{name}}').st_rdev for name in os.listdir('{place}')}})"
    limits = {"limits": {RESOURCE: 1}}

    namespace.apply(pods.pod("user", debian, ["python3", "-c", look], container={"resources": limits}))
    namespace.wait_for_phase("user", "Succeeded")

    assert namespace.logs("user").strip() in {str({name: number}) for name, number in NUMBERS.items()}
