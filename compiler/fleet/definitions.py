"""Policies and clusters as values: what their schemas accepted, with the document that each came from."""

from dataclasses import dataclass
from typing import NewType

from compiler import diagnostics
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.model import cluster, driver, policy

PolicyName = NewType("PolicyName", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A KAEPolicy that its schema accepts."""

    name: PolicyName
    spec: policy.KAEPolicySpec
    source: documents.Document

    @property
    def groups(self) -> tuple[tuple[documents.Path, driver.Frozen | driver.Wave], ...]:
        """Frozen groups, then waves, in the order in which they take nodes, with their places."""
        rollout = self.spec.driver.rollout
        path: documents.Path = ("spec", "driver", "rollout")
        frozen = (((*path, "frozen", index), group) for index, group in enumerate(rollout.frozen))
        waves = (((*path, "waves", index), wave) for index, wave in enumerate(rollout.waves))
        return (*frozen, *waves)

    @property
    def mappings(self) -> tuple[tuple[documents.Path, driver.KernelMapping], ...]:
        """Kernel mappings, in the order in which they take kernels, with their places."""
        path: documents.Path = ("spec", "driver", "kernelMappings")
        return tuple(((*path, index), mapping) for index, mapping in enumerate(self.spec.driver.kernelMappings))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What holds for a cluster: its KAECluster, or the defaults where there is none."""

    name: snapshot.ClusterName
    spec: cluster.KAEClusterSpec
    source: documents.Document | None

    def span(self, *path: str | int) -> diagnostics.Span:
        """The place of a value in the KAECluster; nowhere where there is none."""
        return self.source.span(*path) if self.source else diagnostics.Span(file=f"cluster {self.name}")
