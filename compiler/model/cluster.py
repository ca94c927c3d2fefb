"""KAECluster: what holds for a cluster as a whole, made of the values in `fleet.clusters`."""

from typing import TYPE_CHECKING, Literal, TypeAlias

from compiler.fleet import clusters, forms
from compiler.model import base

if TYPE_CHECKING:
    KAEClusterSpec: TypeAlias = base.Model
else:
    KAEClusterSpec = base.of_value(clusters.Spec)


class ClusterMetadata(base.Metadata):
    """The cluster's name, which is also that of its inventory and its folder in output/."""

    name: forms.ClusterName


class KAECluster(base.Document):
    """A cluster's namespace, GitOps engine, NFD, watcher and monitoring."""

    kind: Literal["KAECluster"]
    metadata: ClusterMetadata
    spec: KAEClusterSpec = base.defaults()
