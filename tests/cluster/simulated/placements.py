"""The nodes of pods: those that `kae plan` expects, and those that the DaemonSet controller chooses."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests import in_process
from tests.cluster.control import objects as kinds

Placement = tuple[str, str, str]
"""A node, the DaemonSet of a pod there, and the pod's image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    placement: Placement
    uid: str
    is_ready: bool

    @property
    def node(self) -> str:
        return self.placement[0]

    @property
    def daemon_set(self) -> str:
        return self.placement[1]


def foretold(root: Path) -> list[Placement]:
    """Return the DaemonSets and images that `kae plan` expects on each node, sorted."""
    answer = in_process.kae(root, "plan", "-o", "json")
    assert answer.code == 0, answer.err
    (cluster,) = json.loads(answer.out)["clusters"]
    placed = []
    for node in cluster["nodes"]:
        policy, pool = node["policy"], node["pool"]
        assert (pool is None) == (node["driver"] is None), node
        if node["driver"] is not None:
            stem = f"kae-driver-{policy}"
            placed.append((node["name"], stem if pool == policy else f"{stem}--{pool}", node["driver"]))
        if node["devicePlugin"] is not None:
            placed.append((node["name"], f"kae-device-plugin-{policy}", node["devicePlugin"]))
    for stack in cluster.get("stacks", ()):
        placed += (pod for node in stack["nodes"] for pod in _of_recipe(stack["recipe"], node))
    return sorted(placed)


def _of_recipe(recipe: str, node: Any) -> Iterator[Placement]:
    """Yield the pods of a recipe on a node; the image of its plugin is called `plugin`, its programs are of pools."""
    policy, pool, images = node["policy"], node["pool"], node["images"]
    end = "" if pool == policy else f"--{pool}"
    programs = node.get("programs", {})
    for name in {"installer", "driver-installer"} & images.keys():
        yield node["name"], f"{recipe}-driver-{policy}{end}", images[name]
    for program, image in programs.items():
        yield node["name"], f"{recipe}-{program}-{policy}{end}", image
    if "plugin" in images and not programs:
        yield node["name"], f"{recipe}-device-plugin-{policy}", images["plugin"]


def pod_of(item: Any) -> Pod:
    meta = item["metadata"]
    (owner,) = meta["ownerReferences"]
    (container,) = item["spec"]["containers"]
    return Pod(
        placement=(_node(item), owner["name"], container["image"]),
        uid=meta["uid"],
        is_ready=kinds.condition(item) == "True",
    )


def _node(item: Any) -> str:
    affinity = item["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (name,) = {
        value
        for term in affinity["nodeSelectorTerms"]
        for field in term["matchFields"]
        for value in field["values"]
        if field["key"] == "metadata.name"
    }
    return str(name)
