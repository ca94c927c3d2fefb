"""The projects that git cannot keep, or that would be dull to read: made where they are needed."""

import codecs
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from compiler import API_VERSION
from compiler.formats import decode
from tests import builders, imagefiles, in_process, project

IMAGE = "image.tar"
"""The archive of an image in a project, which `kae preflight --image` reads."""
POLICY = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAEPolicy
metadata:
  name: tls
spec:
  driver:
    version: 2.2.0
  devicePlugin:
    version: 1.4.1
"""
CLUSTER = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: KAECluster
metadata:
  name: east
spec:
  kubernetesVersion: "1.31"
"""


_RECIPE = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: ascend
spec:
  title: NPU
  match:
    pci:
      - {kind: npu, vendor: "19e5", devices: [d801, d802]}
  images:
    device-plugin: {repository: registry.example.com/npu, image: kae-device-plugin, version: 1.4.1}
  devicePlugin:
    resources:
      - {name: example.com/npu, class: char, groups: [{paths: [{path: /dev/davinci*}]}]}
"""
_DESK = """apiVersion: device.openfuyao.com/v1alpha1
kind: DevicePolicy
metadata:
  name: desk
spec:
  recipe: ascend
"""


def npu(devices: str = "d801, d802") -> dict[str, str]:
    """Return a recipe for these devices, its policy, and four nodes that it was for."""
    present = {f"openfuyao.com/ascend{kind}.present": "true" for kind in ("", ".npu")}
    nodes = [builders.kubernetes_node(f"kp-{number}", present) for number in range(1, 5)]
    return {
        "policies/east.yaml": CLUSTER,
        "policies/desk.yaml": _DESK,
        "recipes/ascend/recipe.yaml": _RECIPE.replace("d801, d802", devices),
        "inventory/east.json": inventory(*nodes),
    }


_PROGRAM = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: Recipe
metadata:
  name: net
spec:
  title: A vendor's device plugin
  match: {all: {}}
  parameters:
    properties:
      level: {type: integer, default: 1}
  images:
    plugin: {repository: registry.example.com/net, image: net-plugin, version: 1.0.0}
  programs:
    - name: plugin
      disrupts: true
      pod:
        containers:
          - {name: plugin, image: plugin, args: ["-v=${values.level}"]}
"""
_LAB = """\
apiVersion: device.openfuyao.com/v1alpha1
kind: DevicePolicy
metadata:
  name: lab
spec:
  recipe: net
"""


def program(more: str = "") -> dict[str, str]:
    """Return a recipe with a vendor's program, its policy with these lines, and two nodes."""
    return {
        "policies/east.yaml": CLUSTER,
        "policies/lab.yaml": _LAB + more,
        "recipes/net/recipe.yaml": _PROGRAM,
        "inventory/east.json": inventory(*(builders.kubernetes_node(f"kp-{number}") for number in (1, 2))),
    }


def _removes_programs(folder: Path) -> None:
    _compiled(folder, program())
    project.write(folder, program("  programs: {plugin: {enabled: false}}\n"))


def _match_narrowed(folder: Path) -> None:
    _compiled(folder, npu())
    project.write(folder, npu("d802"))


def _not_a_file(folder: Path) -> None:
    project.write(folder, {"policies/tls.yaml/notes.txt": "A folder in a document's place.\n"})
    (folder / "policies/west.yaml").symlink_to("clusters/west.yaml")
    os.mkfifo(folder / "policies/vm.yaml")


def _link_outside(folder: Path) -> None:
    project.write(folder, {"policies/tls.yaml": POLICY, ".git/config": "[http]\n"})
    for name, target in (("env.yaml", "/proc/self/environ"), ("git.yaml", "../.git/config"), ("root", "/")):
        (folder / "policies" / name).symlink_to(target)


def _file_too_large(folder: Path) -> None:
    size = decode.YAML_BYTES + (1 << 20)
    project.write(folder, {"inventory/east.yaml": "apiVersion: v1\nkind: List\nitems:\n".ljust(size, "#")})


def _bad_encoding(folder: Path) -> None:
    policies = folder / "policies"
    policies.mkdir(parents=True)
    (policies / "latin.yaml").write_bytes(f"# Für die Front-Ends\n{POLICY}".encode("latin-1"))
    (policies / "marked.yaml").write_bytes(codecs.BOM_UTF8 + POLICY.encode())
    (policies / "wide.yaml").write_bytes(POLICY.encode("utf-16"))


def _forbidden_character(folder: Path) -> None:
    nodes = '{"apiVersion": "v1", "kind": "List", "items": [{"metadata": {"name": "kp920-\\ud83d"}}]}\n'
    texts = {
        "policies/nul.yaml": POLICY.replace("2.2.0", "2.2.0\0"),
        "policies/pasted.yaml": POLICY.replace(" tls", " \ufefftls"),
        "inventory/east.json": nodes,
    }
    project.write(folder, texts)


def _nesting_too_deep(folder: Path) -> None:
    nested = f"{'[' * 70}{']' * 70}\n"
    project.write(folder, {"policies/tls.yaml": f"{POLICY}  daemonSets: {nested}", "inventory/east.json": nested})


def _pool_rules_too_large(folder: Path) -> None:
    waves = "      waves: [{name: early, percent: 100, version: 2.3.0}]\n"
    policy = POLICY.replace("2.2.0\n", f"2.2.0\n    rollout:\n{waves}")
    # Their names are long, so that a few thousand suffice.
    long = ".".join("x" * 63 for _ in range(3))
    nodes = [{"name": f"{number:04}.{long}", "profile": "0a1b2c3d"} for number in range(7200)]
    machine = {"architecture": "arm64", "discovered": True, "kernelVersion": "5.10.0", "kubeletVersion": "v1.31.4"}
    profiles = {"0a1b2c3d": machine | {"labels": dict(builders.HPRE), "osImage": "openEuler 22.03 (LTS-SP4)"}}
    spec = {"nodes": nodes, "profiles": profiles}
    inventory = {"apiVersion": API_VERSION, "kind": "NodeInventory", "metadata": {"name": "east"}, "spec": spec}
    project.write(folder, {"policies/tls.yaml": policy, "inventory/east.json": json.dumps(inventory)})


def _object_too_large(folder: Path) -> None:
    cluster = CLUSTER.replace(
        "spec:\n", "spec:\n  gitops: {engine: argocd, repository: {url: https://git.example.com/f}}\n"
    )
    all_kinds = POLICY.replace(
        "spec:\n", "spec:\n  operator: {enabledHPRE: true, enabledSEC: true, enabledZIP: true}\n"
    )
    texts = {
        "policies/east.yaml": cluster,
        "policies/tls.yaml": all_kinds.replace("spec:\n", "spec:\n  default: true\n"),
    }
    for number in range(5):
        # Their names are long, so that five policies suffice.
        hosts = ", ".join(f"kp920-{number}-{host:03}-{'x' * 51}" for host in range(256))
        selector = f"{{matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{hosts}]}}]}}"
        policy = POLICY.replace("tls", f"zip{number}").replace("spec:\n", f"spec:\n  nodeSelector: {selector}\n")
        texts[f"policies/zip{number}.yaml"] = policy
    project.write(folder, texts)


def _cluster_removed(folder: Path) -> None:
    project.write(folder, {"policies/east.yaml": CLUSTER, "policies/west.yaml": CLUSTER.replace("east", "west")})
    in_process.kae(folder, "compile", "--no-cache")
    (folder / "policies/west.yaml").unlink()


def _driver_left_behind(folder: Path) -> None:
    tls = POLICY.replace("spec:", "spec:\n  nodeSelector: {matchLabels: {pool: tls}}")
    absent = tls.replace("tls", "absent").replace("2.2.0", "2.2.0\n    state: Absent")
    texts = {"policies/east.yaml": CLUSTER, "policies/tls.yaml": tls, "policies/absent.yaml": absent}
    lowered = "findings: {removes-drivers: warning, removes-device-plugins: ignore}\n"
    _compiled(folder, texts | {"kae.yaml": lowered, "inventory/east.json": inventory(node("kp-1", pool="web"))})
    (folder / "policies/tls.yaml").unlink()
    (folder / "policies/absent.yaml").unlink()


def _compiled(folder: Path, texts: dict[str, str]) -> None:
    project.write(folder, texts)
    in_process.kae(folder, "compile", "--no-cache")


def node(name: str, **labels: str) -> dict[str, Any]:
    """Return a Node with a device of HPRE, as kubectl prints it."""
    info = {"architecture": "arm64", "kernelVersion": "5.10.0-216.0.0.115.oe2203sp4.aarch64"}
    info |= {"kubeletVersion": "v1.31.4", "osImage": "openEuler 22.03 (LTS-SP4)"}
    found = {"openfuyao.com/kae.present": "true", "openfuyao.com/kae.hpre.present": "true"}
    discovered = {"nfd.node.kubernetes.io/feature-labels": ",".join(found)}
    metadata = {"name": name, "labels": found | labels, "annotations": discovered}
    return {"kind": "Node", "metadata": metadata, "spec": {}, "status": {"nodeInfo": info}}


def inventory(*nodes: dict[str, object]) -> str:
    """Return the file of an inventory."""
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})


def _east(folder: Path, policy: str = POLICY, cluster: str = CLUSTER) -> None:
    """Compile a project with one cluster, one policy and two nodes."""
    nodes = inventory(node("kp-1", pool="tls"), node("kp-2", pool="tls"))
    _compiled(folder, {"policies/east.yaml": cluster, "policies/tls.yaml": policy, "inventory/east.json": nodes})


def _removes(folder: Path) -> None:
    _east(folder)
    (folder / "policies/tls.yaml").unlink()


def _moves_namespace(folder: Path) -> None:
    _east(folder, cluster=CLUSTER.replace("spec:", "spec:\n  namespace: kae-prod"))
    project.write(folder, {"policies/east.yaml": CLUSTER})


def _moves_with_cleanup(folder: Path) -> None:
    policy = POLICY.replace("2.2.0\n", "2.2.0\n    enabledCleanup: true\n")
    _east(folder, policy, CLUSTER.replace("spec:", "spec:\n  namespace: kae-prod"))
    project.write(folder, {"policies/east.yaml": CLUSTER})


def _thaws_nodes(folder: Path) -> None:
    frozen = "rollout: {frozen: [{name: sick, inventorySelector: {matchLabels: {rack: r3}}, version: 2.1.0}]}"
    _east(folder, POLICY.replace("2.2.0\n", f"2.2.0\n    {frozen}\n"))
    ill = node("kp-1", pool="tls", rack="r3")
    project.write(folder, {"inventory/east.json": inventory(ill, node("kp-2", pool="tls", rack="r3"))})
    in_process.kae(folder, "compile", "--no-cache")
    project.write(folder, {"inventory/east.json": inventory(node("kp-1", pool="tls"))})


def _drops_protection(folder: Path) -> None:
    engine = "spec:\n  gitops: {engine: flux, repository: {url: 'https://git.example.com/fleet.git'}}"
    _east(folder, cluster=CLUSTER.replace("spec:", engine))
    project.write(folder, {"policies/east.yaml": CLUSTER})


def _removes_guard(folder: Path) -> None:
    _east(folder, POLICY.replace("2.2.0\n", "2.2.0\n    drain: {enabled: true}\n"))
    project.write(folder, {"policies/east.yaml": CLUSTER.replace("1.31", "1.29")})


def _inventory_empty(folder: Path) -> None:
    _east(folder)
    project.write(folder, {"inventory/east.json": ""})


def _nodes_left_out(folder: Path) -> None:
    _east(folder)
    project.write(
        folder, {"policies/tls.yaml": POLICY.replace("spec:", "spec:\n  nodeSelector: {matchLabels: {rack: r3}}")}
    )
    one = inventory(node("kp-1", rack="r3"), node("kp-2"))
    project.write(folder, {"inventory/east.json": one})


def _output_unreadable(folder: Path) -> None:
    _east(folder)
    project.write(folder, {"output/east/driver/daemonset-kae-driver-tls.yaml": "metadata: []\n"})


def _pool_removed(folder: Path) -> None:
    mapping = "{name: all, regexp: oe2203, version: '2.2.0-${KERNEL_FULL_VERSION}'}"
    _east(folder, POLICY.replace("2.2.0\n", f"2.2.0\n    kernelMappings: [{mapping}]\n"))
    older = json.loads(json.dumps(node("kp-2")).replace("216.0.0.115", "136.12.0.86"))
    project.write(folder, {"inventory/east.json": inventory(node("kp-1"), older)})
    in_process.kae(folder, "compile", "--no-cache")
    project.write(folder, {"inventory/east.json": inventory(node("kp-1"))})


def _node_leaves_wave(folder: Path) -> None:
    waves = "rollout: {waves: [{name: early, inventorySelector: {matchLabels: {pool: tls}}, version: 2.3.0}]}"
    _east(folder, POLICY.replace("2.2.0\n", f"2.2.0\n    {waves}\n"))
    project.write(folder, {"inventory/east.json": inventory(node("kp-1", pool="tls"))})


def _kind_disabled(folder: Path) -> None:
    _east(folder, POLICY.replace("spec:", "spec:\n  operator: {enabledSEC: true, enabledZIP: true}"))
    project.write(folder, {"policies/tls.yaml": POLICY})


def _nfd_removed(folder: Path) -> None:
    _east(folder)
    project.write(folder, {"policies/east.yaml": f"{CLUSTER}  nfd: {{enabled: false, nodefeaturerules: true}}\n"})


def _nodes_reassigned(folder: Path) -> None:
    _east(folder)
    project.write(folder, {"policies/tls.yaml": POLICY.replace("name: tls", "name: kunpeng")})


def _image_driver(source: str, **labels: str) -> Callable[[Path], None]:
    """Return what makes a policy with a source, and the archive of its image with labels."""

    def make(folder: Path) -> None:
        policy = POLICY.replace("2.2.0\n", f"2.2.0\n    source: {{{source}: {{}}}}\n")
        nodes = inventory(node("kp-1"), node("kp-2"))
        project.write(
            folder, {"policies/east.yaml": CLUSTER, "policies/tls.yaml": policy, "inventory/east.json": nodes}
        )
        name = "cr.openfuyao.cn/openfuyao/kae-driver-installer:2.2.0"
        imagefiles.write_oci(folder / IMAGE, name, imagefiles.labels(**labels))

    return make


def _foreign_file(folder: Path) -> None:
    project.write(folder, {"policies/east.yaml": CLUSTER, "policies/tls.yaml": POLICY})
    in_process.kae(folder, "compile", "--no-cache")
    project.write(folder / "output/east", {"driver/patch.yaml": "a: b\n", "notes/monday.md": "Ask about the lease.\n"})
    project.write(
        folder / "output", {"README.md": "Do not edit.\n", ".gitkeep": "", "est/a.yaml": "a: b\n", "b.yaml": ""}
    )


def _engine_file(folder: Path) -> None:
    _east(folder)
    image = "kustomize:\n  images: [cr.openfuyao.cn/openfuyao/kae-driver-installer=registry.test/other:1]\n"
    project.write(folder / "output", {"east/.argocd-source.yaml": image, "south/Kustomization": "resources: []\n"})


MADE: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "image-driver-version": _image_driver("build", version="2.0.2", sources="build"),
        "image-driver-source": _image_driver("prebuilt", version="2.2.0", sources="build"),
        "image-driver-kernel": _image_driver(
            "prebuilt", version="2.2.0", sources="build prebuilt", kernels="5.10.0-136.12.0.86.oe2203sp4.aarch64"
        ),
        "not-a-file": _not_a_file,
        "link-outside": _link_outside,
        "file-too-large": _file_too_large,
        "bad-encoding": _bad_encoding,
        "forbidden-character": _forbidden_character,
        "nesting-too-deep": _nesting_too_deep,
        "pool-rules-too-large": _pool_rules_too_large,
        "object-too-large": _object_too_large,
        "cluster-removed": _cluster_removed,
        "driver-left-behind": _driver_left_behind,
        "removes-drivers": _removes,
        "removes-device-plugins": _removes,
        "match-narrowed": _match_narrowed,
        "removes-programs": _removes_programs,
        "moves-namespace": _moves_namespace,
        "moves-with-cleanup": _moves_with_cleanup,
        "thaws-nodes": _thaws_nodes,
        "drops-protection": _drops_protection,
        "removes-guard": _removes_guard,
        "inventory-empty": _inventory_empty,
        "output-unreadable": _output_unreadable,
        "pool-removed": _pool_removed,
        "node-leaves-wave": _node_leaves_wave,
        "kind-disabled": _kind_disabled,
        "nfd-removed": _nfd_removed,
        "nodes-left-out": _nodes_left_out,
        "nodes-reassigned": _nodes_reassigned,
        "engine-file": _engine_file,
        "foreign-file": _foreign_file,
    }
)
"""By code, what makes its project in an empty folder."""
