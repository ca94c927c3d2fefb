"""gitops of a KAECluster: the engine that applies the manifests, and where it finds them."""

from typing import Annotated, Literal

from pydantic import Field

from compiler.formats import urls
from compiler.model import base, repositories
from compiler.model.base import Model


class Repository(Model):
    """Where output/<cluster> lives."""

    url: Annotated[
        str,
        repositories.git_url(
            "Remove them; the engine reads them from a Secret: that of gitops.flux.secretRef, or one of Argo CD."
        ),
    ]
    """The repository that the engine clones."""
    revision: repositories.Branch = "main"
    """The branch that the engine applies."""
    path: repositories.GitPath | None = None
    """The folder that the engine applies; absent means output/<cluster>."""


class Destination(Model):
    """The cluster as Argo CD knows it: by its API server's URL or by its name."""

    server: (
        Annotated[
            str,
            repositories.url(
                urls.HTTP,
                "the URL of an API server, such as https://10.0.0.1:6443",
                "Remove them; Argo CD reads them from its Secret of the cluster.",
            ),
        ]
        | None
    ) = None
    """The URL of its API server."""
    name: Annotated[str, Field(min_length=1, max_length=250)] | None = None
    """Its name in Argo CD."""


class ArgoCD(Model):
    """How Argo CD applies the cluster's manifests."""

    namespace: base.DnsLabel = "argocd"
    """Where Argo CD runs."""
    project: base.ProjectName | None = None
    """The AppProject, which bootstrap/ holds too; absent means kae-<cluster>."""
    destination: Destination = base.defaults()
    """Absent means the cluster that Argo CD runs in."""
    prune: bool = True
    """Delete what leaves git."""
    selfHeal: bool = True
    """Undo changes that did not come from git."""


class SourceRef(Model):
    """An existing source of Flux."""

    kind: Literal["GitRepository", "OCIRepository", "Bucket"] = "GitRepository"
    """Its kind."""
    name: base.ObjectName
    """Its name."""
    namespace: base.DnsLabel | None = None
    """Its namespace; absent means that of Flux."""


class KubeConfigSecret(Model):
    """The Secret that holds a kubeconfig."""

    name: base.ObjectName
    """The Secret's name."""
    key: Annotated[str, Field(min_length=1, max_length=253)] | None = None
    """The key in it; absent means value, or value.yaml."""


class KubeConfig(Model):
    """A remote cluster, as Flux reaches it."""

    secretRef: KubeConfigSecret
    """Where the kubeconfig is."""


class Flux(Model):
    """How Flux applies the cluster's manifests."""

    namespace: base.DnsLabel = "flux-system"
    """Where Flux runs."""
    sourceRef: SourceRef | None = None
    """An existing source; absent means a GitRepository of our own in bootstrap/."""
    secretRef: base.LocalObjectReference | None = None
    """Credentials of our own GitRepository."""
    interval: base.Duration = "5m"
    """Between two reconciliations."""
    prune: bool = True
    """Delete what leaves git."""
    kubeConfig: KubeConfig | None = None
    """For a cluster other than the one that Flux runs in."""


class GitOps(Model):
    """The engine that applies output/<cluster>, and where it finds it."""

    engine: Literal["argocd", "flux", "none"] = "none"
    """Decides which annotations the objects carry, and what bootstrap/ holds."""
    repository: Repository | None = None
    """Where the engine finds the output; needed for bootstrap/."""
    argocd: ArgoCD = base.defaults()
    """Settings for Argo CD."""
    flux: Flux = base.defaults()
    """Settings for Flux."""
