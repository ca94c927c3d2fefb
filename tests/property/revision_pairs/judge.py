"""The pods of two outputs by brute force: every DaemonSet on every node, and its template.

It shares no code with the compiler, and reads nothing of index.json.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.property import daemonset_controller as controller
from tests.property.walk import judge

Raw = Mapping[str, Any]
Workload = tuple[str, str, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The workloads of a cluster's output, and the nodes that they meet."""

    workloads: Mapping[Workload, Raw]
    nodes: Mapping[Workload, frozenset[str]]
    """The nodes that have a pod of each DaemonSet."""
    kept: Mapping[Workload, frozenset[str]]
    """The nodes on which a pod of each DaemonSet stays, where one has been there before."""
    known: frozenset[str]
    """The nodes of the inventory."""


def cluster(output: Path, nodes: Sequence[Raw]) -> Cluster:
    """Return a cluster by its output."""
    objects = [
        judge.loaded(path.read_bytes()) for path in sorted(output.glob("*/*.yaml")) if path.parts[-2] != "bootstrap"
    ]
    rules = [item for item in objects if item["kind"] == "NodeFeatureRule"]
    labelled = [judge.labelled_node(rules, node) for node in nodes]
    workloads = {
        (item["kind"], item["metadata"]["namespace"], item["metadata"]["name"]): item
        for item in objects
        if item["kind"] in ("DaemonSet", "Deployment")
    }
    placed, kept = (
        {
            name: frozenset(node["metadata"]["name"] for node in labelled if fits(item, node))
            for name, item in workloads.items()
            if name[0] == "DaemonSet"
        }
        for fits in (controller.runs_on, controller.keeps_on)
    )
    return Cluster(
        workloads=workloads,
        nodes=placed,
        kept=kept,
        known=frozenset(node["metadata"]["name"] for node in nodes),
    )


NOTHING = Cluster({}, {}, {}, frozenset())


def settled(before: Cluster, after: Cluster) -> Cluster:
    """Return a cluster after a change with the pods that were there before it, and that the controller lets be."""
    nodes = {
        name: own
        if _is_replaced(before, after, name)
        else own | (before.nodes.get(name, frozenset()) & after.kept[name])
        for name, own in after.nodes.items()
    }
    return replace(after, nodes=nodes)


def pods(before: Cluster, after: Cluster) -> dict[Workload, tuple[frozenset[str], frozenset[str], frozenset[str]]]:
    """Return the nodes of the pods of each DaemonSet that are created, replaced and deleted."""
    found = {}
    for name in sorted(before.nodes.keys() | after.nodes.keys()):
        was, now = (side.nodes.get(name, frozenset()) for side in (before, after))
        stay = was & now if _is_replaced(before, after, name) else frozenset()
        if was != now or stay:
            found[name] = (now - was, stay, was - now)
    return found


def deployments(before: Cluster, after: Cluster) -> dict[Workload, str]:
    """Return what happens to the pods of each Deployment."""
    found = {}
    for name in (*before.workloads, *after.workloads):
        if name[0] == "Deployment":
            if name not in before.workloads or name not in after.workloads:
                found[name] = "deleted" if name in before.workloads else "created"
            elif _is_replaced(before, after, name):
                found[name] = "replaced"
    return found


def _is_replaced(before: Cluster, after: Cluster, name: Workload) -> bool:
    sides = [side.workloads.get(name, {}).get("spec", {}).get("template") for side in (before, after)]
    return None not in sides and sides[0] != sides[1]


def programs(side: Cluster, program: str) -> dict[str, Raw]:
    """Return the DaemonSet of a program that has a pod on each node: its name, policy, image and config.

    A vendor's program has no config of ours.
    """
    found: dict[str, Raw] = {}
    for name, nodes in side.nodes.items():
        template = side.workloads[name]["spec"]["template"]
        if template["metadata"]["labels"]["app.kubernetes.io/name"] != program:
            continue
        config = json.loads(template["metadata"].get("annotations", {}).get("device.openfuyao.com/config", "{}"))
        policy = template["metadata"]["labels"]["device.openfuyao.com/policy"]
        # The files of a recipe's driver are those of another image than the program's.
        copies = [one for one in template["spec"].get("initContainers", ()) if one["name"].startswith("payload-")]
        image = (copies or template["spec"]["containers"])[0]["image"]
        item = {"name": name, "policy": policy, "image": image, "config": config}
        found |= dict.fromkeys(nodes, item)
    return found


def fates(before: Cluster, after: Cluster, program: str) -> dict[str, str]:
    """Return what happens to the pod of a program on each node to which something happens."""
    was, now = programs(before, program), programs(after, program)
    found = dict.fromkeys(now.keys() - was.keys(), "created") | dict.fromkeys(was.keys() - now.keys(), "deleted")
    for node in was.keys() & now.keys():
        old, new = was[node]["name"], now[node]["name"]
        if old != new or _is_replaced(before, after, new):
            found[node] = "replaced"
    return found
