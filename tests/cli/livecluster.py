"""A cluster in the stand-in API server: a project's output is applied, and its controllers have done their work."""

import copy
import fnmatch
import functools
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests import in_process
from tests.cli import fleet
from tests.golden import trees
from tests.kube import apiserver

NAMESPACE = "kae-operator"
TIME = "2024-11-05T03:00:00Z"
"""When everything of the stand-in was as it is."""
_REVISION = "controller-revision-hash"


def applied(server: apiserver.ApiServer, folder: Path, cluster: str) -> None:
    """Put the nodes of east, everything of output/<cluster>/, and what the controllers make of it if all is well."""
    server.put(*nodes(), *json.loads(_applied(folder, cluster)))


@functools.cache
def _applied(folder: Path, cluster: str) -> str:
    planned = nodes_planned(folder, cluster)
    return json.dumps([made for item in objects(folder, cluster) for made in _controlled(item, planned)])


def _controlled(item: dict[str, Any], planned: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield an object as the API server and the controllers complete it, and the objects that they make of it."""
    name = item["metadata"]["name"]
    item["metadata"] |= {"uid": f"uid-of-{name}", "generation": 1}
    if item["kind"] == "Deployment":
        item["status"] = {"availableReplicas": item["spec"]["replicas"]}
    if item["kind"] == "DaemonSet":
        landed = landing(planned, name)
        item["status"] = {"observedGeneration": 1, "desiredNumberScheduled": len(landed)}
        yield from (revision(item, 1), *(pod(item, node) for node in landed))
    yield item


def objects(folder: Path, cluster: str) -> Iterator[dict[str, Any]]:
    """Return the objects of a cluster that are to be applied."""
    return parsed(trees.read(folder / "output" / cluster))


def parsed(files: trees.Files) -> Iterator[dict[str, Any]]:
    """Yield the objects of a tree, apart from bootstrap/."""
    for path, text in files.items():
        if fnmatch.fnmatch(path, "*/*.yaml") and not path.startswith("bootstrap/"):
            yield yaml.load(text, Loader=yaml.CSafeLoader)


def nodes_planned(folder: Path, cluster: str) -> list[dict[str, Any]]:
    """The nodes as `kae plan` tells of them."""
    (answer,) = json.loads(in_process.kae(folder, "plan", "--cluster", cluster, "-o", "json").out)["clusters"]
    told: list[dict[str, Any]] = answer["nodes"]
    return told


def landing(planned: Iterable[Mapping[str, Any]], name: str) -> list[str]:
    """Of planned nodes those that get a pod of a DaemonSet; of NFD's worker, all that are not tainted."""
    fields = {"kae-driver": "driver", "kae-device-plugin": "devicePlugin"}
    for stem, field in fields.items():
        if name.startswith(stem):
            policy = name.removeprefix(f"{stem}-")
            return [node["name"] for node in planned if node[field] and node["policy"] == policy]
    return [node["metadata"]["name"] for node in nodes() if not node["spec"]["taints"]]


def nodes() -> list[dict[str, Any]]:
    """The nodes of cluster east, as kubelets register them."""
    registered = copy.deepcopy(list(fleet.NODES))
    for node in registered:
        node["metadata"]["labels"]["kubernetes.io/os"] = "linux"
    return registered


def revision(daemon_set: Mapping[str, Any], number: int) -> dict[str, Any]:
    """A template of a DaemonSet as its controller remembers it."""
    name = daemon_set["metadata"]["name"]
    metadata = _belonging(daemon_set, f"{name}-{number}", f"rev-{number}")
    return {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "revision": number}


def pod(daemon_set: Mapping[str, Any], node: str, number: int = 1, suffix: str = "") -> dict[str, Any]:
    """A pod that is ready, of the DaemonSet's template, on a node."""
    template = copy.deepcopy(daemon_set["spec"]["template"])
    name = f"{daemon_set['metadata']['name']}-{node}{suffix}"
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": TIME}]
    running = [{"name": template["spec"]["containers"][0]["name"], "ready": True, "state": {"running": {}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _belonging(daemon_set, name, f"rev-{number}"),
        "spec": {**template["spec"], "nodeName": node},
        "status": {"phase": "Running", "conditions": conditions, "containerStatuses": running},
    }


def unready(item: dict[str, Any], reason: Mapping[str, str] | None = None, since: str = "") -> dict[str, Any]:
    """The pod, not ready: its container waits for a reason, or its probe says no."""
    condition = {"status": "False", "reason": "ContainersNotReady", "lastTransitionTime": since}
    item["status"]["conditions"][0] |= condition
    (container,) = item["status"]["containerStatuses"]
    container["ready"] = False
    if reason is not None:
        container["state"] = {"waiting": dict(reason)}
    return item


def lease(name: str, holder: str, acquired: str, renewed: str) -> dict[str, Any]:
    """A Lease that a host holds for 15 minutes."""
    spec = {"holderIdentity": holder, "acquireTime": acquired, "renewTime": renewed, "leaseDurationSeconds": 900}
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


def event(name: str, pod: str, **more: str) -> dict[str, Any]:
    """An event of a pod."""
    metadata = {"name": name, "namespace": NAMESPACE}
    involved = {"kind": "Pod", "name": pod}
    return {"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": involved, **more}


def _belonging(daemon_set: Mapping[str, Any], name: str, mark: str) -> dict[str, Any]:
    metadata = daemon_set["metadata"]
    owner = {"kind": "DaemonSet", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    labels = daemon_set["spec"]["template"]["metadata"]["labels"] | {_REVISION: mark}
    return {"name": name, "namespace": metadata["namespace"], "labels": labels, "ownerReferences": [owner]}
