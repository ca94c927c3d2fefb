"""The nodes of a cluster as values."""

from collections.abc import Mapping
from typing import NamedTuple, NewType

import msgspec
from msgspec import structs

ClusterName = NewType("ClusterName", str)

HOSTNAME = "kubernetes.io/hostname"
"""The label that the kubelet sets to the name of the host, which usually is that of the node."""


class Taint(NamedTuple):
    """A taint of a node that the pods of DaemonSets do not tolerate by themselves."""

    key: str
    value: str
    effect: str


class Profile(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A machine, with the labels that follow from it; equal nodes share one profile."""

    architecture: str
    kernel_version: str
    kubelet_version: str
    os_image: str
    container_runtime_version: str = ""
    """Such as containerd://2.1.4; empty where an inventory of an earlier release does not say."""
    discovered: bool
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    _hash: int = 0
    """Computed once, because thousands of nodes look up the same profile."""

    def __post_init__(self) -> None:
        system = (self.architecture, self.kernel_version, self.kubelet_version, self.os_image)
        facts = (*system, self.container_runtime_version, self.taints)
        structs.force_setattr(self, "_hash", hash((facts, frozenset(self.labels.items()))))

    def __hash__(self) -> int:
        return self._hash


class Node(NamedTuple):
    """A node: its profile, and the labels that people and clouds set; a tuple, as fleets have a million of them."""

    name: str
    profile: Profile
    hostname: str | None
    """The label kubernetes.io/hostname."""
    labels: Mapping[str, str]

    def label(self, key: str) -> str | None:
        """Return the value of a label, or None."""
        if key == HOSTNAME:
            return self.hostname
        value = self.labels.get(key)
        return self.profile.labels.get(key) if value is None else value


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a cluster at one moment, sorted by name."""

    cluster: ClusterName
    file: str
    nodes: tuple[Node, ...]
