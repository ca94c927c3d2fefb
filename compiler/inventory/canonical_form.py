"""The NodeInventory document: from raw data to an inventory, and from an inventory to its canonical text."""

import hashlib
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compiler import API_VERSION
from compiler.formats import canonical
from compiler.inventory import snapshot


def of_document(file: str, data: Mapping[str, Any]) -> snapshot.Inventory:
    """Return the inventory of a NodeInventory document in which every profile exists."""
    profiles = {name: _profile_of(raw) for name, raw in data["spec"].get("profiles", {}).items()}
    nodes = [
        snapshot.Node(
            name=raw["name"],
            profile=profiles[raw["profile"]],
            hostname=raw.get("hostname", raw["name"]) or None,
            labels=raw.get("labels", _NO_LABELS),
        )
        for raw in data["spec"].get("nodes", ())
    ]
    nodes.sort(key=operator.attrgetter("name"))
    cluster = snapshot.ClusterName(data["metadata"]["name"])
    return snapshot.Inventory(cluster=cluster, file=file, nodes=tuple(nodes))


_NO_LABELS: Mapping[str, str] = {}


def _profile_of(raw: Mapping[str, Any]) -> snapshot.Profile:
    return snapshot.Profile(
        architecture=raw.get("architecture", ""),
        kernel_version=raw.get("kernelVersion", ""),
        kubelet_version=raw.get("kubeletVersion", ""),
        os_image=raw.get("osImage", ""),
        container_runtime_version=raw.get("containerRuntimeVersion", ""),
        discovered=raw["discovered"],
        labels=raw.get("labels", {}),
        taints=tuple(
            snapshot.Taint(key=taint["key"], value=taint.get("value", ""), effect=taint["effect"])
            for taint in raw.get("taints", ())
        ),
    )


def text(inventory: snapshot.Inventory) -> str:
    """Return the canonical NodeInventory: JSON with sorted keys, and a line for each node and each profile."""
    lines = {
        profile: canonical.dump_json(_profile_data(profile)) for profile in {node.profile for node in inventory.nodes}
    }
    names = _profile_names(sorted(set(lines.values())))
    nodes = [
        canonical.dump_json(_node_data(node, names[lines[node.profile]]))
        for node in sorted(inventory.nodes, key=lambda node: node.name)
    ]
    profiles = sorted(f'"{name}":{line}' for line, name in names.items())
    head = {"apiVersion": API_VERSION, "kind": "NodeInventory", "metadata": {"name": inventory.cluster}}
    return (
        canonical.dump_json(head)[:-1]
        + ',\n"spec":{"nodes":['
        + _lines(nodes)
        + '],\n"profiles":{'
        + _lines(profiles)
        + "}}}\n"
    )


def _lines(items: Sequence[str]) -> str:
    return "\n" + ",\n".join(items) + "\n" if items else ""


def _profile_names(lines: Iterable[str]) -> dict[str, str]:
    """Return an id for each profile: 8 hex digits of its hash, which is hashed again where two ids collide."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for line in lines:
        digest = hashlib.sha256(line.encode()).hexdigest()
        while digest[:8] in taken:
            digest = hashlib.sha256(digest.encode()).hexdigest()
        taken.add(digest[:8])
        names[line] = digest[:8]
    return names


def _profile_data(profile: snapshot.Profile) -> dict[str, Any]:
    data: dict[str, Any] = {
        "architecture": profile.architecture,
        "kernelVersion": profile.kernel_version,
        "kubeletVersion": profile.kubelet_version,
        "osImage": profile.os_image,
        "containerRuntimeVersion": profile.container_runtime_version,
        "labels": dict(profile.labels),
        "taints": [taint._asdict() for taint in profile.taints],
    }
    return {key: value for key, value in data.items() if value} | {"discovered": profile.discovered}


def _node_data(node: snapshot.Node, profile: str) -> dict[str, Any]:
    data: dict[str, Any] = {"name": node.name, "profile": profile}
    if node.labels:
        data["labels"] = dict(node.labels)
    if node.hostname != node.name:
        data["hostname"] = node.hostname or ""
    return data
