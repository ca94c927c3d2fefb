"""The input of the templates in bootstrap/: the objects by which Argo CD or Flux applies a cluster's manifests."""

from dataclasses import dataclass

from compiler.rendering import ir


@dataclass(frozen=True, slots=True, kw_only=True)
class KindRef:
    """A kind of the Kubernetes API, as an AppProject allows it."""

    group: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgoApplication:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxSource:
    """The GitRepository that Flux reads."""

    name: str
    namespace: str
    url: str
    branch: str
    interval: str
    secret: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FluxKustomization:
    """The Kustomization that applies a cluster's manifests."""

    name: str
    namespace: str
    interval: str
    path: str
    prune: bool
    source: ir.Map
    """CrossNamespaceSourceReference: kind, name and perhaps namespace."""
    kube_config: ir.Map | None
