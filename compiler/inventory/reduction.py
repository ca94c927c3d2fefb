"""The reduction of Kubernetes Nodes to an inventory.

A profile describes a machine: kernel, operating system, architecture, kubelet, taints, and the labels that NFD and
the kubelet derive from it. Labels that people and clouds set (roles, zones, pools) belong to the node, so that there
are few profiles and a changed label changes one line of the inventory.
"""

import fnmatch
import functools
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from compiler import recipes
from compiler.inventory import snapshot

_TOLERATED_TAINTS = frozenset(
    {
        ("node.kubernetes.io/disk-pressure", "NoSchedule"),
        ("node.kubernetes.io/memory-pressure", "NoSchedule"),
        ("node.kubernetes.io/not-ready", "NoExecute"),
        ("node.kubernetes.io/pid-pressure", "NoSchedule"),
        ("node.kubernetes.io/unreachable", "NoExecute"),
        ("node.kubernetes.io/unschedulable", "NoSchedule"),
    }
)
"""Taints that every pod of a DaemonSet tolerates (`AddOrUpdateDaemonPodTolerations` in pkg/controller/daemon/util).

network-unavailable is one of them for pods with hostNetwork, which none of these pods has.
"""

_PASSING_TAINTS = frozenset(
    {("node.kubernetes.io/not-ready", "NoSchedule"), ("node.kubernetes.io/unreachable", "NoSchedule")}
)
"""Taints that come and go with every reboot; they end no pod, and the pods of a new node wait for the node anyway."""

_PASSED_BY = _TOLERATED_TAINTS | _PASSING_TAINTS

_MACHINE_DOMAINS = (".feature.node.kubernetes.io", ".profile.node.kubernetes.io", ".beta.kubernetes.io")
_MACHINE_KEYS = frozenset({"kubernetes.io/arch", "kubernetes.io/os", "node.kubernetes.io/instance-type"})
_FACTS = ("architecture", "kernelVersion", "kubeletVersion", "osImage", "containerRuntimeVersion")
"""The fields of status.nodeInfo that an inventory has."""
NFD_ANNOTATION = "nfd.node.kubernetes.io/feature-labels"

_KEYS = 10_000
"""The most label keys whose destination is remembered; some keys hold names of short-lived objects."""

_SHAPES = 1_000
"""The most sets of label keys that are remembered; the nodes of a cluster have few."""


def is_machine_label(key: str) -> bool:
    """Return whether NFD or the kubelet derives a label from the machine, so that it belongs to a profile."""
    domain = key.rpartition("/")[0]
    if f".{domain}".endswith(_MACHINE_DOMAINS):
        return True
    return key in _MACHINE_KEYS or recipes.is_of_machine(key)


def is_ignored(key: str, pattern: str) -> bool:
    """Return whether a key or glob of ignored labels leaves a label out; the name of the host is never left out."""
    return key != snapshot.HOSTNAME and fnmatch.fnmatchcase(key, pattern)


def is_kept(key: str, name: str) -> bool:
    """Return whether a key, or a beginning of keys that ends with / or *, of the labels to keep keeps a label."""
    return key.startswith(name.removesuffix("*")) if name.endswith(("/", "*")) else key == name


def of_kubernetes(
    cluster: snapshot.ClusterName,
    file: str,
    items: Sequence[Mapping[str, Any]],
    ignored: Iterable[str] = (),
    kept: Sequence[str] = (),
) -> snapshot.Inventory:
    """Return the inventory of Nodes of the API server; `Reducer` says which labels it ignores and keeps."""
    reducer = Reducer(ignored, kept)
    nodes = sorted((reducer.node(raw) for raw in items), key=lambda node: node.name)
    return snapshot.Inventory(cluster=cluster, file=file, nodes=tuple(nodes))


class _Shape(NamedTuple):
    """What the keys of a node's labels say of it."""

    machine: tuple[str, ...]
    """The keys that enter its profile, sorted."""
    own: tuple[str, ...]
    discovered: bool
    """Whether NFD sets one of the labels."""


class Reducer:
    """A reduction of Nodes of the API server, one by one, in which equal profiles are one object.

    It holds profiles weakly: a profile is freed with the last node that the caller keeps. It is not thread-safe.
    """

    def __init__(self, ignored: Iterable[str] = (), kept: Sequence[str] = ()) -> None:
        """Take keys or globs of labels to drop, and keys or beginnings of keys to keep; of these none keep all."""
        self._ignored = tuple(ignored)
        self._kept = tuple(kept)
        self._profiles: weakref.WeakValueDictionary[Any, snapshot.Profile] = weakref.WeakValueDictionary()
        self._known: dict[str, tuple[str, str]] = {}
        self._shapes: dict[tuple[str, ...], _Shape] = {}

    def node(self, raw: Mapping[str, Any]) -> snapshot.Node:
        """Return a node without its volatile state; it refers to nothing of the raw object."""
        metadata = raw["metadata"]
        info = (raw.get("status") or {}).get("nodeInfo") or {}
        taints = [
            snapshot.Taint(key=taint["key"], value=taint.get("value", ""), effect=taint["effect"])
            for taint in (raw.get("spec") or {}).get("taints") or ()
        ]
        labels = metadata.get("labels") or {}
        facts = tuple(info.get(field, "") for field in _FACTS)
        return self.reduced(metadata["name"], labels, lambda: _is_annotated(metadata), facts, taints)

    def reduced(
        self,
        name: str,
        labels: Mapping[str, str],
        is_annotated: Callable[[], bool],
        facts: tuple[str, ...],
        taints: Iterable[snapshot.Taint],
    ) -> snapshot.Node:
        """Return the node of this name, with these labels and all its taints.

        Its facts are architecture, kernel, kubelet, image of the operating system and container runtime. `is_annotated`
        says whether it has the annotation that NFD was here, and is asked where no label says so.
        """
        keys = tuple(labels)
        shape = self._shapes.get(keys) or self._shape(keys)
        discovered = shape.discovered or is_annotated()
        lasting = tuple(sorted(taint for taint in taints if (taint.key, taint.effect) not in _PASSED_BY))
        values = tuple(map(labels.__getitem__, shape.machine))
        return snapshot.Node(
            name=name,
            profile=self._profile(facts, discovered, lasting, shape.machine, values),
            hostname=labels.get(snapshot.HOSTNAME) or None,
            labels={key: sys.intern(labels[key]) for key in shape.own},
        )

    def mark(self, metadata: Mapping[str, Any]) -> int:
        """Return a hash of what a node's metadata contributes to it; heartbeats and other labels do not change it."""
        labels = metadata.get("labels") or {}
        kept = frozenset(item for item in labels.items() if self.keeps(item[0]))
        return hash((kept, _is_annotated(metadata) or any(map(_is_of_nfd, labels))))

    def keeps(self, key: str) -> bool:
        """Return whether a label of this key, or the annotation that NFD was here, enters the inventory."""
        return key == NFD_ANNOTATION or self._sorted(key)[0] != "ignored"

    def again(self, nodes: Iterable[snapshot.Node]) -> Iterator[snapshot.Node]:
        """Yield nodes of an earlier reduction without the labels that this one leaves out."""
        profiles: dict[snapshot.Profile, snapshot.Profile] = {}
        for node in nodes:
            if node.profile not in profiles:
                profiles[node.profile] = structs.replace(node.profile, labels=self._of_these(node.profile.labels))
            yield node._replace(profile=profiles[node.profile], labels=self._of_these(node.labels))

    def _of_these(self, labels: Mapping[str, str]) -> dict[str, str]:
        return {key: value for key, value in labels.items() if self.keeps(key)}

    def _sorted(self, key: str) -> tuple[str, str]:
        """Return the destination of a label, and the key as one string for all nodes."""
        found = self._known.get(key)
        if found is None:
            if len(self._known) > _KEYS:
                self._known.clear()
            found = self._known[key] = (self._group(key), key)
        return found

    def _group(self, key: str) -> str:
        if key == snapshot.HOSTNAME:
            return "hostname"
        if self._kept and not any(is_kept(key, name) for name in self._kept):
            return "ignored"
        # NodeFeatureRules of the compiler set the labels of pools: they follow from the policies.
        if recipes.is_of_pool(key) or any(is_ignored(key, pattern) for pattern in self._ignored):
            return "ignored"
        return "machine" if is_machine_label(key) else "own"

    def _shape(self, keys: tuple[str, ...]) -> _Shape:
        """Return what a node's label keys say of it."""
        if len(self._shapes) >= _SHAPES:
            self._shapes.clear()
        groups: dict[str, list[str]] = {"machine": [], "own": [], "hostname": [], "ignored": []}
        for group, shared in map(self._sorted, keys):
            groups[group].append(shared)
        found = _Shape(tuple(sorted(groups["machine"])), tuple(groups["own"]), any(map(_is_of_nfd, keys)))
        self._shapes[keys] = found
        return found

    def _profile(
        self, facts: tuple[str, ...], discovered: bool, taints: tuple[snapshot.Taint, ...], *labels: tuple[str, ...]
    ) -> snapshot.Profile:
        """Return the one profile of these facts, these taints, and the labels of these keys and values."""
        key = (facts, discovered, taints, labels)
        profile = self._profiles.get(key)
        if profile is None:
            architecture, kernel, kubelet, image, runtime = facts
            profile = self._profiles[key] = snapshot.Profile(
                architecture=architecture,
                kernel_version=kernel,
                kubelet_version=kubelet,
                os_image=image,
                container_runtime_version=runtime,
                discovered=discovered,
                labels=dict(zip(*labels, strict=True)),
                taints=taints,
            )
        return profile


def is_annotated(annotations: Mapping[str, str]) -> bool:
    """Return whether annotations say that NFD has labelled the node, by more than what a driver installer told."""
    listed = annotations.get(NFD_ANNOTATION) or ""
    return any(key and not recipes.is_of_driver(key) for key in listed.split(","))


def _is_annotated(metadata: Mapping[str, Any]) -> bool:
    return is_annotated(metadata.get("annotations") or {})


@functools.lru_cache(_KEYS)
def _is_of_nfd(key: str) -> bool:
    """Return whether NFD sets a label, by its own rules or by those of a recipe."""
    return recipes.is_of_machine(key) or recipes.is_of_pool(key) or key.startswith("feature.node.kubernetes.io/")
