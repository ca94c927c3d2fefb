"""The input of the templates in bootstrap/: the objects by which Argo CD or Flux applies a cluster's manifests."""

import msgspec

from compiler.rendering import ir


class KindRef(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of the Kubernetes API, as an AppProject allows it."""

    group: str
    kind: str


class ArgoApplication(msgspec.Struct, frozen=True, kw_only=True):
    """The Application and the AppProject that apply a cluster's manifests."""

    name: str
    namespace: str
    project: str
    repository: str
    revision: str
    path: str
    destination: ir.Map
    destination_namespace: str
    prune: bool
    self_heal: bool
    cluster_kinds: tuple[KindRef, ...]
    namespaced_kinds: tuple[KindRef, ...]


class FluxSource(msgspec.Struct, frozen=True, kw_only=True):
    """The GitRepository that Flux reads."""

    name: str
    namespace: str
    url: str
    branch: str
    interval: str
    secret: str | None


class FluxKustomization(msgspec.Struct, frozen=True, kw_only=True):
    """The Kustomization that applies a cluster's manifests."""

    name: str
    namespace: str
    interval: str
    path: str
    prune: bool
    source: ir.Map
    """CrossNamespaceSourceReference: kind, name and perhaps namespace."""
    kube_config: ir.Map | None
