"""The driver's DaemonSets as the compiler renders them, and all that they need, in a cluster for as long as a test."""

import contextlib
import json
import subprocess
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.cluster.control import control_plane as control_planes
from tests.cluster.control import manifests, pods
from tests.cluster.nodes import containers
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import stores
from tests.installer import layouts, machines, modulefiles, podresources
from tests.property import nfd_rules

NAMESPACE = manifests.NAMESPACE
IMAGE = "localhost/kae-driver-installer"
HPRE = "openfuyao.com/kae.hpre"
POOL = "example.com/pool"
"""The label of nodes whose value is the name of the policy that they belong to."""

_CONFIG = "device.openfuyao.com/config"
_SHARED = ("/run/kae", "/var/lib/kubelet")
"""Folders of the node itself, which its fake host has too: what the kubelet and the programs say to each other."""


def compiled(
    folder: Path, cluster: Mapping[str, Any] | None = None, **drivers: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the objects of policies with these names and these fields of `driver`, the namespace first.

    `cluster` are fields of the KAECluster.
    """
    documents = {f"policies/{name}.yaml": policy(name, driver) for name, driver in drivers.items()}
    documents["policies/test.yaml"] = manifests.cluster(
        **{"nfd": {"enabled": False, "nodefeaturerules": True}, **(cluster or {})}
    )
    objects = manifests.of(manifests.compiled(folder, documents) / "output/test")
    return [dict(item.data) for item in objects if item.component in ("namespace", "driver", "guard")]


def daemon_set(objects: Sequence[dict[str, Any]], policy: str) -> dict[str, Any]:
    wanted = ("DaemonSet", f"kae-driver-{policy}")
    return next(item for item in objects if (item["kind"], item["metadata"]["name"]) == wanted)


def pod_of(item: Mapping[str, Any]) -> dict[str, Any]:
    template: dict[str, Any] = item["spec"]["template"]
    return template


def config_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(pod["metadata"]["annotations"][_CONFIG])
    return config


def set_config(item: Mapping[str, Any], **fields: Any) -> None:
    template = pod_of(item)
    template["metadata"]["annotations"][_CONFIG] = json.dumps({**config_of(template), **fields})


def folders(root: Path) -> dict[str, Path]:
    """Return the folders of a fake host by the volume that a driver's pod mounts each of them from."""
    own = {f"sys-{name}": root / "sys" / name for name in ("bus", "class", "devices", "module")}
    for folder in own.values():
        folder.mkdir(exist_ok=True)  # A fake kernel has /sys/module once it has a module.
    return {"host": root, **own}


@contextlib.contextmanager
def applied(plane: control_planes.ControlPlane, objects: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Make the objects of `compiled` in the cluster; at the end they are gone, with all pods of their namespace."""
    try:
        plane.apply(*objects)
        yield
    finally:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets?propagationPolicy=Background"
        plane.api.request("DELETE", path)
        plane.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        everywhere = [item for item in objects if "namespace" not in item["metadata"] and item["kind"] != "Namespace"]
        plane.delete(*everywhere)
        plane.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", "--wait=true")


def machine(plane: control_planes.ControlPlane, name: str, *, mknod: bool = False) -> machines.Machine:
    """Return a fake host in a folder of this name: a small Debian with Python, whose kmod is real."""
    root = plane.instance.state / name
    root.mkdir()
    debian = image_store.debian_root(("kmod", "python3"))
    subprocess.run(("tar", "--extract", "--numeric-owner", "--file", debian, "--directory", root), check=True)
    return machines.Machine(root, chroot=True, mknod=mknod)


def share(node: nodes.Node, host: machines.Machine) -> None:
    """Mount the node's folders that its kubelet and its programs use into its fake host."""
    for folder in _SHARED:
        inside = host.root / folder.lstrip("/")
        for path in (node.path(folder), inside):
            path.mkdir(parents=True, exist_ok=True)
        node.run("mount", "--bind", folder, str(inside))


def set_labels(node: nodes.Node, labels: Mapping[str, str | None]) -> None:
    node.plane.api.ask("PATCH", f"/api/v1/nodes/{node.name}", {"metadata": {"labels": labels}})


def labels_of(
    rules: Iterable[Any],
    name: str,
    kernel: str,
    functions: tuple[Mapping[str, str], ...],
    told: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, str]:
    """Return the labels that NodeFeatureRules give a node with this kernel and these PCI functions.

    `told` are the features of its driver installers.
    """
    attributes = {"kernel.version": {"full": kernel}, "system.name": {"nodename": name}, "local.feature": told}
    features = nfd_rules.Features(attributes=attributes, instances={"pci.device": functions})
    return dict(nfd_rules.labels(list(rules), features))


def make_images(images: image_store.Images, host: machines.Machine, folder: Path, *versions: str) -> None:
    """Build an image from the installer's for each version of a driver for the host, as `FROM` and `COPY` do.

    It has modules for each kernel of the host.
    """
    parts, settings = layers(stores.built_image("kae-driver-installer"), folder / "built")
    for version in versions:
        host.add_image(folder / version, version)
        for kernel in (path.name for path in (host.root / "lib/modules").iterdir() if path.name != host.kernel):
            for name, content in modulefiles.driver(version, kernel).items():
                layouts.put(folder / f"{version}/opt/lib/modules/{kernel}/{name}", content)
        images.build(f"{IMAGE}:{version}", *parts, folder / version, **settings)


def layers(archive: Path, folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Unpack Docker's archive into the folder; return the layers of the image, lowest first, and its settings."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (image,) = json.loads((folder / "manifest.json").read_text())
    settings: dict[str, Any] = json.loads((folder / image["Config"]).read_text())["config"]
    return [folder / name for name in image["Layers"]], settings


@contextlib.contextmanager
def holding(kubelet: podresources.Kubelet, namespace: pods.Namespace, node: nodes.Node) -> Iterator[str]:
    """A pod of the node that has a device of its fake host until it has gone; its name."""
    namespace.apply(pods.pod("holder", containers.PAUSE, ["/pause"], nodeName=node.name))
    namespace.wait_for_ready("holder")
    kubelet.give(f"{namespace.name}/holder", "main", HPRE, "0000:79:00.0")
    yield "holder"
    kubelet.remove(f"{namespace.name}/holder")


def policy(name: str, driver: Mapping[str, Any]) -> dict[str, Any]:
    image = {"repository": "localhost", "source": {"prebuilt": {}}}
    operator = {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}
    spec = {
        "nodeSelector": {"matchLabels": {POOL: name}},
        "operator": operator,
        "driver": {**image, **driver},
        "devicePlugin": {"enabled": False},
    }
    return manifests.document("KAEPolicy", name, spec)
