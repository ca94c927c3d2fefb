"""The driver's DaemonSets as the compiler renders them, and all that they need, in a cluster for as long as a test."""

import contextlib
import json
import subprocess
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests import in_process, project
from tests.cluster.control import control_plane as control_planes
from tests.cluster.nodes import images as image_store
from tests.cluster.nodes import node as nodes
from tests.images import archives
from tests.installer import machines

NAMESPACE = "kae-operator"
IMAGE = "localhost/kae-driver-installer"
POOL = "example.com/pool"
"""The label of nodes whose value is the name of the policy that they belong to."""

_CONFIG = "device.openfuyao.com/config"
_CLUSTER = {"kubernetesVersion": "1.36", "nfd": {"enabled": False, "nodefeaturerules": True}}
_SHARED = ("/run/kae", "/var/lib/kubelet")
"""Folders of the node itself, which its fake host has too: what the kubelet and the programs say to each other."""


def compiled(folder: Path, **drivers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the objects of policies with these names and these fields of `driver`, the namespace first."""
    documents = {f"policies/{name}.yaml": _policy(name, driver) for name, driver in drivers.items()}
    documents["policies/test.yaml"] = _document("KAECluster", "test", _CLUSTER)
    project.write(folder, {path: json.dumps(document) for path, document in documents.items()})
    answer = in_process.kae(folder, "compile")
    assert answer.code == 0, answer.err
    paths = [path for part in ("namespace", "driver", "guard") for path in sorted(folder.glob(f"output/test/{part}/*"))]
    return [yaml.safe_load(path.read_text()) for path in paths]


def daemon_set(objects: Sequence[dict[str, Any]], policy: str) -> dict[str, Any]:
    """Return the DaemonSet of a policy."""
    (found,) = (item for item in objects if _is_daemon_set(item) and item["metadata"]["name"] == f"kae-driver-{policy}")
    return found


def pod_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the template of a DaemonSet's pods."""
    template: dict[str, Any] = item["spec"]["template"]
    return template


def config_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a pod, or its template, tells the installer."""
    found: dict[str, Any] = json.loads(pod["metadata"]["annotations"][_CONFIG])
    return found


def set_config(item: Mapping[str, Any], **fields: Any) -> None:
    """Set fields of the config in a DaemonSet's template."""
    template = pod_of(item)
    template["metadata"]["annotations"][_CONFIG] = json.dumps({**config_of(template), **fields})


def set_version(item: Mapping[str, Any], version: str) -> None:
    """Make a DaemonSet bring another driver, by an image of its own."""
    set_config(item, driverVersion=version)
    (container,) = pod_of(item)["spec"]["containers"]
    container["image"] = f"{IMAGE}:{version}"


def apply(plane: control_planes.ControlPlane, *objects: Mapping[str, Any]) -> None:
    """Make objects, or change them to this."""
    plane.kubectl("apply", "-f", "-", text=_list(objects))


@contextlib.contextmanager
def applied(plane: control_planes.ControlPlane, objects: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Make the objects of `compiled` in the cluster; at the end they are gone, with all pods of their namespace."""
    try:
        apply(plane, *objects)
        yield
    finally:
        path = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets?propagationPolicy=Background"
        plane.api.request("DELETE", path)
        plane.api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
        everywhere = [item for item in objects if "namespace" not in item["metadata"] and item["kind"] != "Namespace"]
        plane.kubectl("delete", "-f", "-", "--ignore-not-found", "--wait=true", text=_list(everywhere))
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


def make_images(images: image_store.Images, host: machines.Machine, folder: Path, *versions: str) -> None:
    """Build an image from the installer's for each version of a driver for the host, as `FROM` and `COPY` do."""
    parts, settings = layers(archives.built_image("kae-driver-installer"), folder / "built")
    for version in versions:
        host.add_image(folder / version, version)
        images.build(f"{IMAGE}:{version}", *parts, folder / version, **settings)


def layers(archive: Path, folder: Path) -> tuple[list[Path], dict[str, Any]]:
    """Unpack Docker's archive into the folder; return the layers of the image, lowest first, and its settings."""
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    (image,) = json.loads((folder / "manifest.json").read_text())
    settings: dict[str, Any] = json.loads((folder / image["Config"]).read_text())["config"]
    return [folder / name for name in image["Layers"]], settings


def _list(objects: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


def _policy(name: str, driver: Mapping[str, Any]) -> dict[str, Any]:
    image = {"repository": "localhost", "source": {"prebuilt": {}}}
    operator = {"enabledHPRE": True, "enabledSEC": True, "enabledZIP": True}
    spec = {
        "nodeSelector": {"matchLabels": {POOL: name}},
        "operator": operator,
        "driver": {**image, **driver},
        "devicePlugin": {"enabled": False},
    }
    return _document("KAEPolicy", name, spec)


def _document(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "device.openfuyao.com/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def _is_daemon_set(item: Mapping[str, Any]) -> bool:
    return bool(item["kind"] == "DaemonSet")
