"""Documents as they travel down the line: raw with their places first, then typed."""

import functools
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NewType, Protocol

from compiler import diagnostics
from compiler.model import cluster, driver, policy

Path = tuple[str | int, ...]
"""The way to a value inside a document: keys and indexes from the top."""

ClusterName = NewType("ClusterName", str)
PolicyName = NewType("PolicyName", str)

HOSTNAME = "kubernetes.io/hostname"
"""The label that the kubelet sets to the host's name, which mostly is the node's."""


class Places(Protocol):
    """Where the values of a document stand in its file."""

    def span(self, path: Path, *, key: bool = False) -> diagnostics.Span:
        """The place of the value at `path`, or of its key; of the nearest value around it where it is absent."""
        ...


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it was read: plain data, and the places of its values."""

    file: str
    data: Any
    places: Places

    def has(self, path: Path) -> bool:
        """Whether the document itself writes a value at `path`."""
        value = self.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return False
        return True

    def span(self, *path: str | int) -> diagnostics.Span:
        """The place of the value at `path`."""
        return self.places.span(path)

    def place(self, *path: str | int) -> diagnostics.Span:
        """Where a setting stands: its value, or the key of a mapping or list; unwritten, the document's name."""
        if not self.has(path):
            return self.span("metadata", "name")
        value = functools.reduce(operator.getitem, path, self.data)
        return self.places.span(path, key=isinstance(value, dict | list))


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A KAEPolicy that its schema accepts."""

    name: PolicyName
    spec: policy.KAEPolicySpec
    source: Document

    @property
    def groups(self) -> tuple[tuple[Path, driver.Frozen | driver.Wave], ...]:
        """Frozen groups, then waves, in the order in which they take nodes, with their places."""
        rollout = self.spec.driver.rollout
        path: Path = ("spec", "driver", "rollout")
        frozen = (((*path, "frozen", index), group) for index, group in enumerate(rollout.frozen))
        waves = (((*path, "waves", index), wave) for index, wave in enumerate(rollout.waves))
        return (*frozen, *waves)

    @property
    def mappings(self) -> tuple[tuple[Path, driver.KernelMapping], ...]:
        """Kernel mappings, in the order in which they take kernels, with their places."""
        path: Path = ("spec", "driver", "kernelMappings")
        return tuple(((*path, index), mapping) for index, mapping in enumerate(self.spec.driver.kernelMappings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What holds for a cluster: its KAECluster, or the defaults where there is none."""

    name: ClusterName
    spec: cluster.KAEClusterSpec
    source: Document | None

    def span(self, *path: str | int) -> diagnostics.Span:
        """The place of a value in the KAECluster; nowhere where there is none."""
        return self.source.span(*path) if self.source else diagnostics.Span(file=f"cluster {self.name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A node's taint that is not one of the lifecycle."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True, weakref_slot=True)
class Profile:
    """What a machine is; shared by all nodes that are alike. Its labels are those of the machine."""

    architecture: str
    kernel_version: str
    kubelet_version: str
    os_image: str
    discovered: bool
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node: its profile, and the labels that people and clouds gave it beside the machine's."""

    name: str
    profile: Profile
    hostname: str | None
    """The label kubernetes.io/hostname."""
    labels: Mapping[str, str]

    def label(self, key: str) -> str | None:
        """The value of a label, or None."""
        if key == HOSTNAME:
            return self.hostname
        value = self.labels.get(key)
        return self.profile.labels.get(key) if value is None else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The nodes of a cluster at one moment, sorted by name."""

    cluster: ClusterName
    file: str
    nodes: tuple[Node, ...]
