"""Resources of recipes on a real node: the real kubelet gives tokens and device nodes to real containers."""

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.control import manifests, pods
from tests.cluster.local import instances, waiting
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.cluster.nodes import plugin_node
from tests.images import stores

ONLOAD, LATENCY, NPU, OTHER = "amd.com/onload", "amd.com/onload-latency", "example.com/npu", "example.org/other"
SHOW = f"/dev/kae-recipes-{instances.configured().number}"
"""A folder of the node's /dev, with nodes that the node's containers alone see.

It is of this cluster alone: where somebody removes a folder, the kernel unmounts what lies upon it in any namespace.
"""

NODES: Mapping[str, str] = {"onload": "1:3", "npu0": "1:5", "npu1": "1:7", "npu2": "1:8", "control": "1:9"}
"""Device nodes, with numbers that every kernel serves (Documentation/admin-guide/devices.txt)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    node: nodes.Node
    namespace: pods.Namespace
    files: Path
    """A folder of the node with the library that containers get."""

    def make(self, *names: str) -> None:
        for name in names:
            self.node.run("mknod", "-m", "0666", f"{SHOW}/{name}", "c", *NODES[name].split(":"))

    def remove(self, *names: str) -> None:
        self.node.run("rm", *(f"{SHOW}/{name}" for name in names))

    def plugin(self, recipe: str) -> Any:
        return next(iter(self.namespace.staying(f"app.kubernetes.io/name={recipe}-device-plugin")), None)

    def wait_for(self, **counts: int) -> None:
        for name, count in counts.items():
            resource = {"onload": ONLOAD, "latency": LATENCY, "npu": NPU, "other": OTHER}[name]
            self.node.wait_for_allocatable(resource, count)


IMAGES = "images: {device-plugin: {repository: localhost, image: kae-device-plugin, version: '1'}}"

TOOLS = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata: {name: tools}
spec:
  title: Tokens, a profile of them, and device nodes
  match: {all: {}}
  @IMAGES
  devicePlugin:
    resources:
      - name: amd.com/onload
        class: token
        count: 3
        requires: [@SHOW/onload, @FILES/libonload.so]
        profiles: {latency: {EF_POLL_USEC: "100000"}}
        inject:
          - nodes: [{path: @SHOW/onload, as: /dev/onload}]
            mounts: [{path: "@FILES/libonload*.so*", as: /usr/lib/onload/}]
            env: {EF_NAME: onload}
            files: [{name: conf, as: /etc/onload.conf, text: "fast = 1\\n"}]
      - name: example.com/npu
        class: char
        shares: 2
        groups:
          - paths:
              - {path: "@SHOW/npu*", as: /dev/}
              - {path: @SHOW/control, as: /dev/npu-control, limit: 8}
"""

OTHER_RECIPE = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata: {name: other}
spec:
  title: Tokens without anything
  match: {all: {}}
  @IMAGES
  devicePlugin:
    resources: [{name: example.org/other, class: token, count: 2}]
"""


def policy(recipe: str) -> dict[str, Any]:
    return manifests.document("DevicePolicy", f"{recipe}-desk", {"recipe": recipe, "nodeSelector": {}})


def compiled(folder: Path, files: Path) -> list[Mapping[str, Any]]:
    def filled(recipe: str) -> str:
        return recipe.replace("@IMAGES", IMAGES).replace("@SHOW", SHOW).replace("@FILES", str(files))

    documents: dict[str, Any] = {
        "recipes/tools/recipe.yaml": filled(TOOLS),
        "recipes/other/recipe.yaml": filled(OTHER_RECIPE),
        **{f"policies/{recipe}.yaml": policy(recipe) for recipe in ("tools", "other")},
        "policies/test.yaml": manifests.cluster(),
    }
    objects = manifests.of(manifests.compiled(folder, documents) / "output/test")
    kinds = ("Namespace", "ServiceAccount", "DaemonSet")
    return [item.data for item in objects if item.kind in kinds]


@pytest.fixture(scope="module")
def deployed(
    node: nodes.Node, images: image_store.Images, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployed]:
    images.load(plugin_node.IMAGE, stores.built_image())
    folder = tmp_path_factory.mktemp("project")
    # The plugin sees the folder above.
    files = node.plane.instance.state / folder.name / "stack"
    files.mkdir(parents=True)
    (files / "libonload.so").write_text("a library")
    Path(SHOW).mkdir(exist_ok=True)
    node.run("mount", "-t", "tmpfs", "tmpfs", SHOW)
    made = Deployed(node=node, namespace=pods.Namespace(name=manifests.NAMESPACE, plane=node.plane), files=files)
    made.make(*NODES)
    try:
        node.plane.apply(*compiled(folder, files))
        made.wait_for(onload=3, latency=3, npu=6, other=2)
        yield made
    finally:
        node.plane.kubectl("delete", "namespace", manifests.NAMESPACE, "--wait=true")
        node.run("umount", SHOW)
        Path(SHOW).rmdir()
        shutil.rmtree(files.parent)


LOOK = """\
import json, os
def text(path):
    return open(path).read() if os.path.exists(path) else None
nodes = {}
for name in sorted(os.listdir('/dev')):
    if name == 'onload' or name.startswith('npu'):
        os.close(os.open(f'/dev/{name}', os.O_RDWR))
        numbers = os.stat(f'/dev/{name}').st_rdev
        nodes[name] = f'{os.major(numbers)}:{os.minor(numbers)}'
print(json.dumps({
    'nodes': nodes,
    'library': text('/usr/lib/onload/libonload.so'),
    'file': text('/etc/onload.conf'),
    'env': {name: value for name, value in os.environ.items() if name.startswith('EF_') or name == 'LD_PRELOAD'},
    'writable': [path for path in ('/usr/lib/onload/libonload.so', '/etc/onload.conf')
                 if os.path.exists(path) and not os.statvfs(path).f_flag & os.ST_RDONLY],
}))
"""


def view(namespace: pods.Namespace, image: str, name: str, *resources: str, count: int = 1) -> Any:
    limits = {"limits": dict.fromkeys(resources, count)}
    namespace.apply(pods.pod(name, image, ["python3", "-c", LOOK], container={"resources": limits}))
    namespace.wait_for_phase(name, "Succeeded")
    return json.loads(namespace.logs(name))


def test_a_token_gives_nodes_files_and_variables(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    expected = {
        "nodes": {"onload": "1:3"},
        "library": "a library",
        "file": "fast = 1\n",
        "env": {"EF_NAME": "onload"},
        "writable": [],
    }

    assert view(namespace, debian, "plain", ONLOAD) == expected
    profile = {"EF_NAME": "onload", "EF_POLL_USEC": "100000"}
    assert view(namespace, debian, "latency", LATENCY) == {**expected, "env": profile}
    assert view(namespace, debian, "three", ONLOAD, count=3) == expected


def test_two_resources_in_one_container_give_both(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    both = view(namespace, debian, "both", ONLOAD, LATENCY, NPU, OTHER)

    npu = next(iter(both["nodes"].keys() - {"onload", "npu-control"}))
    assert both["nodes"] == {"onload": "1:3", npu: NODES[npu], "npu-control": "1:9"}
    assert both["env"] == {"EF_NAME": "onload", "EF_POLL_USEC": "100000"}


def test_device_nodes_are_given_by_group_and_shared(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    all_of_them = {"npu0": "1:5", "npu1": "1:7", "npu2": "1:8", "npu-control": "1:9"}

    one = view(namespace, debian, "one", NPU)["nodes"]
    assert len(one) == 2
    assert one.items() <= all_of_them.items()
    # Different devices come before shares of one.
    assert view(namespace, debian, "three", NPU, count=3)["nodes"] == all_of_them


def test_tokens_go_with_what_they_need_and_return(deployed: Deployed, debian: str, namespace: pods.Namespace) -> None:
    library = deployed.files / "libonload.so"
    deployed.remove("onload")
    deployed.wait_for(onload=0, latency=0, npu=6, other=2)
    assert deployed.node.capacity(ONLOAD) == 3
    deployed.make("onload")
    deployed.wait_for(onload=3, latency=3)
    library.rename(library.with_name("aside"))
    deployed.wait_for(onload=0, latency=0, npu=6, other=2)
    library.with_name("aside").rename(library)
    deployed.wait_for(onload=3, latency=3)
    assert view(namespace, debian, "after", ONLOAD)["library"] == "a library"


def test_a_device_node_that_goes_is_no_device_any_more(deployed: Deployed) -> None:
    deployed.remove("npu1")
    deployed.wait_for(npu=4)
    deployed.make("npu1")
    deployed.wait_for(npu=6)


def test_while_one_recipe_changes_its_driver_the_other_goes_on(deployed: Deployed) -> None:
    flag = deployed.node.path("/run/kae/recipes/tools/driver-changing")

    flag.write_text('{"reason": "a test"}')
    deployed.wait_for(onload=0, latency=0, npu=0, other=2)
    assert deployed.node.capacity(NPU) == 6
    flag.unlink()
    deployed.wait_for(onload=3, latency=3, npu=6, other=2)


def test_the_end_of_one_plugin_leaves_the_other_alone(deployed: Deployed) -> None:
    before = deployed.plugin("tools")
    other = deployed.plugin("other")

    deployed.namespace.kubectl("delete", "pod", other["metadata"]["name"], "--wait=true")
    registry = deployed.node.path("/var/lib/kubelet/plugins_registry")
    expected = {"tools": ["npu", "onload", "onload-latency"], "other": ["other"]}

    def sockets() -> dict[str, list[str]]:
        return {
            folder: sorted(path.name.rpartition("-")[0] for path in registry.glob(f"{folder}/*")) for folder in expected
        }

    waiting.until("the sockets of both", lambda: sockets() == expected, explain=lambda: str(sockets()))
    deployed.wait_for(onload=3, latency=3, npu=6, other=2)
    deployed.namespace.wait_for_same(before)


def test_list_in_the_pod_says_what_the_kubelet_was_told(deployed: Deployed) -> None:
    name = deployed.plugin("tools")["metadata"]["name"]
    listed = json.loads(deployed.namespace.run(name, "python", "-m", "device_plugin", "list", "-o", "json"))

    assert {item["name"]: item["allocatable"] for item in listed["resources"]} == {ONLOAD: 3, LATENCY: 3, NPU: 6}
    assert listed["devices"][-1]["nodes"] == [f"{SHOW}/npu2", f"{SHOW}/control"]
    assert "work on this node" not in " ".join(listed["notes"])


def test_a_restart_of_the_kubelet_loses_nothing(deployed: Deployed) -> None:
    deployed.node.restart_kubelet()
    deployed.wait_for(onload=3, latency=3, npu=6, other=2)
