"""Policies, clusters and the fleet as values; each policy and cluster keeps the document that it was read from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NewType, cast

from compiler import devices, diagnostics, recipes
from compiler.fleet import selectors
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.model import cluster, driver, policy

if TYPE_CHECKING:  # Projects without DevicePolicies need none of its models.
    from compiler.fleet import stacks

ImageParts = Mapping[str, str]
"""The parts of a reference to an image: repository, image and version, or those of them that differ."""

PolicyName = NewType("PolicyName", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A Recipe that its schema accepts."""

    name: str
    source: documents.Document

    def span(self, *path: str | int) -> diagnostics.Span:
        """Return the position of a value in the recipe."""
        return self.source.span(*path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """A KAEPolicy or DevicePolicy that its schema accepts."""

    name: PolicyName
    recipe: recipes.Recipe = devices.KAE
    """The stack that its nodes get."""
    spec: policy.KAEPolicySpec
    """The spec of a KAEPolicy; that of a DevicePolicy in the same terms (see `stacks`)."""
    term: selectors.Term
    """Its nodeSelector; without one, the term that matches every node."""
    source: documents.Document

    @property
    def path(self) -> documents.Path:
        """The path of `rollout` and `kernelMappings` in the document."""
        return ("spec", "driver") if self.recipe is devices.KAE else ("spec",)

    @property
    def kinds(self) -> tuple[recipes.Kind, ...]:
        """The kinds of devices that it serves, in the order of its recipe."""
        if self.recipe is not devices.KAE:
            return self.recipe.kinds
        return tuple(kind for kind in devices.KINDS if getattr(self.spec.operator, kind.switch))

    @property
    def groups(self) -> tuple[tuple[documents.Path, driver.Frozen | driver.Wave], ...]:
        """The frozen groups, then the waves, in the order in which they take nodes, each with its path."""
        rollout = self.spec.driver.rollout
        path = (*self.path, "rollout")
        frozen = (((*path, "frozen", index), group) for index, group in enumerate(rollout.frozen))
        waves = (((*path, "waves", index), wave) for index, wave in enumerate(rollout.waves))
        return (*frozen, *waves)

    @property
    def mappings(self) -> tuple[tuple[documents.Path, driver.KernelMapping], ...]:
        """The kernel mappings, in the order in which they take kernels, each with its path."""
        path = (*self.path, "kernelMappings")
        return tuple(((*path, index), mapping) for index, mapping in enumerate(self.spec.driver.kernelMappings))


def stack(spec: driver.Driver) -> "stacks.Driver | None":
    """Return a driver with the fields that only one of a DevicePolicy has; None for that of a KAEPolicy."""
    return None if type(spec) is driver.Driver else cast("stacks.Driver", spec)


def offer(spec: policy.DevicePlugin) -> "stacks.DevicePlugin | None":
    """Return a device plugin with the fields that only one of a DevicePolicy has; None for that of a KAEPolicy."""
    return None if type(spec) is policy.DevicePlugin else cast("stacks.DevicePlugin", spec)


def has_none(owner: Policy, component: Literal["driver", "devicePlugin"]) -> bool:
    """Return whether the recipe of a policy has no such component, which the policy then cannot enable."""
    found = stack(owner.spec.driver) if component == "driver" else offer(owner.spec.devicePlugin)
    return owner.recipe is not devices.KAE and found is None


def images(owner: Policy) -> frozenset[str]:
    """Return the names of the images of a policy's recipe; none for a KAEPolicy."""
    known = stack(owner.spec.driver) or offer(owner.spec.devicePlugin)
    if known is None:
        return frozenset()
    parts = (known.filled.driver, known.filled.devicePlugin)
    return frozenset((*known.filled.images, *(part.image for part in parts if part)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The settings of a cluster: those of its KAECluster, or the defaults if it has none."""

    name: snapshot.ClusterName
    spec: cluster.KAEClusterSpec
    source: documents.Document | None

    def span(self, *path: str | int) -> diagnostics.Span:
        """Return the position of a value in the KAECluster; without one, a span that only names the cluster."""
        return self.source.span(*path) if self.source else diagnostics.Span(file=f"cluster {self.name}")

    def setting_span(self, otherwise: diagnostics.Span, *path: str) -> diagnostics.Span:
        """Return the position of a setting in the KAECluster, or of what leads to it; without one, `otherwise`."""
        return self.source.setting_span(*path) if self.source else otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The accepted documents of a project: policies, clusters sorted by name, and inventories by cluster."""

    policies: tuple[Policy, ...]
    clusters: tuple[Cluster, ...]
    inventories: Mapping[str, snapshot.Inventory]
    sound: bool = True
    """True when no document was refused; a refused one may explain a finding about nodes, so none is made then."""

    def inventory(self, cluster: Cluster) -> snapshot.Inventory:
        """Return the cluster's inventory; an empty one if it has none yet."""
        known = self.inventories.get(cluster.name)
        return known or snapshot.Inventory(cluster=cluster.name, file="", nodes=())

    def selected(self, names: Sequence[str]) -> tuple[Cluster, ...]:
        """Return the clusters with these names; all clusters if no name is given."""
        return tuple(cluster for cluster in self.clusters if not names or cluster.name in names)
