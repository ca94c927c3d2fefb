"""Nodes to inventory and back: one reduction, whoever asked for it, and one canonical text.

A profile is what a machine is: its kernel, operating system, architecture, kubelet, taints, and the labels
that NFD and the kubelet derive from it. Labels of people and clouds (roles, zones, pools) stand on the
node's own line, so that the profiles stay few and a label that somebody changes is a change of one line.
"""

import fnmatch
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from compiler import devices
from compiler.inventory import snapshot

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
    cluster: snapshot.ClusterName, file: str, items: Sequence[Mapping[str, Any]], ignored: Iterable[str] = ()
) -> snapshot.Inventory:
    """The inventory of Nodes as the API server prints them; `ignored` are keys or globs of labels to drop."""
    reducer = Reducer(ignored)
    nodes = sorted((reducer.node(item) for item in items), key=lambda node: node.name)
    return snapshot.Inventory(cluster=cluster, file=file, nodes=tuple(nodes))


class Reducer:
    """Reduces Nodes one by one, as the API server prints them, and makes every profile and every decision once.

    Nodes that are alike share a profile, which is forgotten with the last of them: what is kept follows the profiles
    of the nodes that the caller keeps, however long they come and go. One thread at a time uses it.
    """

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        """`ignored` are keys or globs of labels to drop."""
        self._ignored = tuple(ignored)
        self._profiles: weakref.WeakValueDictionary[Any, snapshot.Profile] = weakref.WeakValueDictionary()
        self._belongs: dict[str, tuple[str, str]] = {}

    def node(self, item: Mapping[str, Any]) -> snapshot.Node:
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
        return snapshot.Node(
            name=metadata["name"],
            profile=self._profile(item, machine),
            hostname=labels.get(snapshot.HOSTNAME) or None,
            labels={key: sys.intern(value) for key, value in own.items()},
        )

    def _home(self, key: str) -> str:
        if key == snapshot.HOSTNAME:
            return "hostname"
        if key.startswith(_POOLS) or any(fnmatch.fnmatchcase(key, pattern) for pattern in self._ignored):
            return "ignored"
        return "machine" if is_machine_label(key) else "own"

    def _profile(self, item: Mapping[str, Any], labels: dict[str, str]) -> snapshot.Profile:
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
            found = self._profiles[key] = snapshot.Profile(
                architecture=facts[0],
                kernel_version=facts[1],
                kubelet_version=facts[2],
                os_image=facts[3],
                discovered=discovered,
                labels=labels,
                taints=tuple(snapshot.Taint(key=k, value=v, effect=e) for k, v, e in taints),
            )
        return found


def _lasting(taints: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for taint in taints:
        if not taint["key"].startswith(_LIFECYCLE_TAINTS):
            yield taint["key"], taint.get("value", ""), taint["effect"]
