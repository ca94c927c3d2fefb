"""Nodes to inventory and back: one reduction, whoever asked for it, and one canonical text.

A profile is what a machine is: its kernel, operating system, architecture, kubelet, taints, and the labels
that NFD and the kubelet derive from it. Labels of people and clouds (roles, zones, pools) stand on the
node's own line, so that the profiles stay few and a label that somebody changes is a change of one line.
"""

import fnmatch
import hashlib
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler import API_VERSION, devices, diagnostics, documents, repeats
from compiler.formats import canonical

_LIFECYCLE_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that come and go with a node's state; DaemonSet pods tolerate nearly all of them anyway."""

_MACHINE_DOMAINS = (".feature.node.kubernetes.io", ".profile.node.kubernetes.io", ".beta.kubernetes.io")
_MACHINE_KEYS = frozenset({"kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"})
NFD_ANNOTATION = "nfd.node.kubernetes.io/feature-labels"
_DISCOVERED = ("feature.node.kubernetes.io/", f"{devices.DOMAIN}/kae.")

_POOLS = f"{devices.DOMAIN}/kae.pool."
"""What the compiler's own rules make of nodes: it says nothing of a node that the rules do not."""

_KEYS = 10_000
"""Label keys about which a decision is remembered; some carry the names of what comes and goes."""


def is_machine_label(key: str) -> bool:
    """Whether a label is derived from the machine, by NFD or the kubelet, and so belongs to a profile."""
    domain = key.rpartition("/")[0]
    if f".{domain}".endswith(_MACHINE_DOMAINS):
        return True
    return key in _MACHINE_KEYS or (
        domain == devices.DOMAIN and key.startswith(f"{devices.DOMAIN}/kae.") and not is_opt_out(key)
    )


def is_opt_out(key: str) -> bool:
    """Whether a label is a person's: it keeps one of our components away from the node."""
    return key in (devices.OPT_OUT_DRIVER, devices.OPT_OUT_DEVICE_PLUGIN)


def of_kubernetes(
    cluster: documents.ClusterName, file: str, items: Sequence[Mapping[str, Any]], ignored: Iterable[str] = ()
) -> documents.Inventory:
    """The inventory of Nodes as the API server prints them; `ignored` are keys or globs of labels to drop."""
    reducer = Reducer(ignored)
    nodes = sorted((reducer.node(item) for item in items), key=lambda node: node.name)
    return documents.Inventory(cluster=cluster, file=file, nodes=tuple(nodes))


class Reducer:
    """Reduces Nodes one by one, as the API server prints them, and makes every profile and every decision once.

    Nodes that are alike share a profile, which is forgotten with the last of them: what is kept follows the profiles
    of the nodes that the caller keeps, however long they come and go. One thread at a time uses it.
    """

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        """`ignored` are keys or globs of labels to drop."""
        self._ignored = tuple(ignored)
        self._profiles: weakref.WeakValueDictionary[Any, documents.Profile] = weakref.WeakValueDictionary()
        self._belongs: dict[str, tuple[str, str]] = {}

    def node(self, item: Mapping[str, Any]) -> documents.Node:
        """The node without what is volatile; nothing of the raw one is kept."""
        metadata = item["metadata"]
        machine: dict[str, str] = {}
        own: dict[str, str] = {}
        side = {"machine": machine, "own": own, "hostname": {}, "ignored": {}}
        belongs = self._belongs
        if len(belongs) > _KEYS:
            belongs.clear()
        labels = metadata.get("labels") or {}
        for key, value in labels.items():
            known = belongs.get(key)
            if known is None:
                known = belongs[key] = (self._home(key), key)
            home, shared = known
            side[home][shared] = value
        return documents.Node(
            name=metadata["name"],
            profile=self._profile(item, machine),
            hostname=labels.get(documents.HOSTNAME) or None,
            labels={key: sys.intern(value) for key, value in own.items()},
        )

    def _home(self, key: str) -> str:
        if key == documents.HOSTNAME:
            return "hostname"
        if key.startswith(_POOLS) or any(fnmatch.fnmatchcase(key, pattern) for pattern in self._ignored):
            return "ignored"
        return "machine" if is_machine_label(key) else "own"

    def _profile(self, item: Mapping[str, Any], labels: dict[str, str]) -> documents.Profile:
        info = (item.get("status") or {}).get("nodeInfo") or {}
        taints = tuple(sorted(_lasting((item.get("spec") or {}).get("taints") or ())))
        annotations = item["metadata"].get("annotations") or {}
        discovered = bool(annotations.get(NFD_ANNOTATION)) or any(
            key.startswith(_DISCOVERED) and not is_opt_out(key) for key in item["metadata"].get("labels") or {}
        )
        facts = tuple(info.get(field, "") for field in ("architecture", "kernelVersion", "kubeletVersion", "osImage"))
        key = (facts, discovered, taints, frozenset(labels.items()))
        found = self._profiles.get(key)
        if found is None:
            found = self._profiles[key] = documents.Profile(
                architecture=facts[0],
                kernel_version=facts[1],
                kubelet_version=facts[2],
                os_image=facts[3],
                discovered=discovered,
                labels=labels,
                taints=tuple(documents.Taint(key=k, value=v, effect=e) for k, v, e in taints),
            )
        return found


def _lasting(taints: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for taint in taints:
        if not taint["key"].startswith(_LIFECYCLE_TAINTS):
            yield taint["key"], taint.get("value", ""), taint["effect"]


def of_document(file: str, data: Mapping[str, Any]) -> documents.Inventory:
    """The inventory that a NodeInventory document holds; its profiles are known to exist."""
    profiles = {name: _profile_of(raw) for name, raw in data["spec"].get("profiles", {}).items()}
    nodes = []
    for raw in data["spec"].get("nodes", ()):
        name = raw["name"]
        hostname = raw.get("hostname", name)
        nodes.append(
            documents.Node(
                name=name,
                profile=profiles[raw["profile"]],
                hostname=hostname or None,
                labels=raw.get("labels", _NO_LABELS),
            )
        )
    nodes.sort(key=lambda node: node.name)
    cluster = documents.ClusterName(data["metadata"]["name"])
    return documents.Inventory(cluster=cluster, file=file, nodes=tuple(nodes))


_NO_LABELS: Mapping[str, str] = {}


def _profile_of(raw: Mapping[str, Any]) -> documents.Profile:
    return documents.Profile(
        architecture=raw.get("architecture", ""),
        kernel_version=raw.get("kernelVersion", ""),
        kubelet_version=raw.get("kubeletVersion", ""),
        os_image=raw.get("osImage", ""),
        discovered=raw["discovered"],
        labels=raw.get("labels", {}),
        taints=tuple(
            documents.Taint(key=taint["key"], value=taint.get("value", ""), effect=taint["effect"])
            for taint in raw.get("taints", ())
        ),
    )


def faults(document: documents.Document) -> Iterator[diagnostics.Diagnostic]:
    """What a schema cannot say of a NodeInventory or a list of Nodes: names are unique, profiles exist."""
    canonical_form = document.data["kind"] == "NodeInventory"
    head: documents.Path = ("spec", "nodes") if canonical_form else ("items",)
    items = document.data["spec"].get("nodes", ()) if canonical_form else document.data["items"]
    profiles = document.data["spec"].get("profiles", {}) if canonical_form else {}
    named = [item["name"] if canonical_form else item["metadata"]["name"] for item in items]
    for _, (index, name) in repeats.of(enumerate(named), key=lambda pair: pair[1]):
        yield diagnostics.Diagnostic(
            code="duplicate-node",
            span=document.span(*head, index),
            message=f"Node '{name}' stands twice in the inventory.",
            hint="Keep one of the two; after a merge, let the watcher or `kae inventory` write the file anew.",
        )
    for index, item in enumerate(items if canonical_form else ()):
        if item["profile"] not in profiles:
            yield diagnostics.Diagnostic(
                code="unknown-profile",
                span=document.span(*head, index, "profile"),
                message=f"Node '{item['name']}' has the profile '{item['profile']}', which is not in the inventory.",
                hint="After a merge, let the watcher or `kae inventory` write the file anew.",
            )


def text(inventory: documents.Inventory) -> str:
    """The canonical NodeInventory: JSON, keys sorted, one node a line, one profile a line."""
    bodies = {id(node.profile): node.profile for node in inventory.nodes}
    lines = {key: canonical.dump_json(_profile_data(profile)) for key, profile in bodies.items()}
    names = _profile_names(sorted(set(lines.values())))
    nodes = [
        canonical.dump_json(_node_data(node, names[lines[id(node.profile)]]))
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
    """An id for each profile: 8 hex digits of its hash, and of a hash of that where two profiles collide."""
    names: dict[str, str] = {}
    taken: set[str] = set()
    for line in lines:
        digest = hashlib.sha256(line.encode()).hexdigest()
        while digest[:8] in taken:
            digest = hashlib.sha256(digest.encode()).hexdigest()
        taken.add(digest[:8])
        names[line] = digest[:8]
    return names


def _profile_data(profile: documents.Profile) -> dict[str, Any]:
    data: dict[str, Any] = {
        "architecture": profile.architecture,
        "kernelVersion": profile.kernel_version,
        "kubeletVersion": profile.kubelet_version,
        "osImage": profile.os_image,
        "labels": dict(profile.labels),
        "taints": [{"key": taint.key, "value": taint.value, "effect": taint.effect} for taint in profile.taints],
    }
    return {key: value for key, value in data.items() if value} | {"discovered": profile.discovered}


def _node_data(node: documents.Node, profile: str) -> dict[str, Any]:
    data: dict[str, Any] = {"name": node.name, "profile": profile}
    if node.labels:
        data["labels"] = dict(node.labels)
    if node.hostname != node.name:
        data["hostname"] = node.hostname or ""
    return data
