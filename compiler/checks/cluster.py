"""Rules for one KAECluster, and for what a cluster's documents say together."""

from collections.abc import Iterator

from compiler import repeats
from compiler.checks import images as image_checks
from compiler.checks import policy
from compiler.diagnostics import Diagnostic
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.planning import images, supported

_FLUX_SCHEMES = ("http://", "https://", "ssh://")
"""https://fluxcd.io/flux/components/source/gitrepositories/#url"""


def findings(item: definitions.Cluster) -> Iterator[Diagnostic]:
    """Everything that is wrong with a cluster by itself."""
    source = item.source
    if source is None:
        return
    yield from nfd_release(item, source)
    yield from policy.tolerations(source, ("spec", "nfd", "tolerations"), item.spec.nfd.tolerations)
    yield from kubernetes_release(item, source)
    yield from engine_settings(item, source)
    yield from flux_repository(item, source)
    yield from watcher(item, source)
    yield from mirrors(item, source)


def nfd_release(item: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """NFD is rendered for its releases 0.16 to 0.19."""
    tag = item.spec.nfd.image.tag
    if item.spec.nfd.enabled and supported.nfd_minor(tag) is None:
        yield Diagnostic(
            code="nfd-release",
            span=source.span("spec", "nfd", "image", "tag"),
            message=f"'{tag}' is no tag of NFD's releases 0.16 to 0.19.",
            notes=("Arguments and rights of NFD differ from release to release.",),
            hint="Use a tag from v0.16.4 up to those of 0.19.",
        )


def kubernetes_release(item: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """Manifests are rendered for Kubernetes 1.25 and newer."""
    version = item.spec.kubernetesVersion
    if version is not None and supported.kubernetes_minor(version) < supported.OLDEST_KUBERNETES:
        yield Diagnostic(
            code="kubernetes-release",
            span=source.span("spec", "kubernetesVersion"),
            message=f"Kubernetes '{version}' is older than 1.{supported.OLDEST_KUBERNETES}, the oldest supported one.",
            hint="Correct the version, or upgrade the cluster first.",
        )


def engine_settings(item: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """Settings do not contradict each other, and a GitOps engine knows its repository."""
    gitops = item.spec.gitops
    destination = gitops.argocd.destination
    if destination.server is not None and destination.name is not None:
        yield Diagnostic(
            code="conflicting-settings",
            span=source.span("spec", "gitops", "argocd", "destination", "name"),
            message="An Argo CD destination has a server or a name, not both.",
            hint="Remove one of the two.",
        )
    if gitops.engine == "argocd" and gitops.argocd.project == "default":
        yield Diagnostic(
            code="conflicting-settings",
            span=source.span("spec", "gitops", "argocd", "project"),
            message="'default' is Argo CD's own project, which bootstrap/ would overwrite.",
            hint="Leave argocd.project out, or choose another name.",
        )
    if gitops.flux.sourceRef is not None and gitops.flux.secretRef is not None:
        yield Diagnostic(
            code="conflicting-settings",
            span=source.setting_span("spec", "gitops", "flux", "secretRef"),
            message="A secretRef is for a GitRepository of our own, and sourceRef names another source.",
            hint="Remove one of the two.",
        )
    if item.spec.psa.enabled and not item.spec.namespaceManaged:
        yield Diagnostic(
            code="conflicting-settings",
            span=source.setting_span("spec", "psa", "enabled"),
            message=f"The namespace '{item.spec.namespace}' is made elsewhere, so it is not labelled as privileged.",
            hint="Remove psa.enabled and label the namespace where it is made, or let namespaceManaged be true.",
        )
    needs_url = gitops.engine == "argocd" or (gitops.engine == "flux" and gitops.flux.sourceRef is None)
    if needs_url and gitops.repository is None:
        yield Diagnostic(
            code="bootstrap-incomplete",
            span=source.span("spec", "gitops", "engine"),
            message=f"Nothing says from which repository '{gitops.engine}' applies cluster '{item.name}'.",
            notes=("So there is no bootstrap/ to point it there.",),
            hint=f"Set gitops.repository.url{' or gitops.flux.sourceRef' if gitops.engine == 'flux' else ''}.",
        )


def flux_repository(item: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """A GitRepository of our own has a URL with one of the schemes that Flux's definition of the kind allows."""
    gitops = item.spec.gitops
    if gitops.engine != "flux" or gitops.flux.sourceRef is not None or gitops.repository is None:
        return
    url = gitops.repository.url
    if url.startswith(_FLUX_SCHEMES):
        return
    host, colon, path = url.partition(":")
    is_short = "@" in host and colon
    yield Diagnostic(
        code="conflicting-settings",
        span=source.span("spec", "gitops", "repository", "url"),
        message=f"Flux fetches from URLs with ssh://, https:// or http://, and '{url}' has none of them.",
        hint=f"Write ssh://{host}/{path.removeprefix('/')}." if is_short else "Name the repository by such a URL.",
    )


def watcher(item: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """An enabled watcher names its repository and its secret, and pins its image."""
    spec = item.spec.watcher
    if not spec.enabled:
        return
    parts = (
        ("repository", spec.repository, "the git repository of inventories, which no GitOps engine applies"),
        ("secretName", spec.secretName, "the Secret with that repository's credentials"),
    )
    for field, value, meaning in parts:
        if value is None:
            yield Diagnostic(
                code="watcher-incomplete",
                span=source.span("spec", "watcher", "enabled"),
                message=f"The watcher of cluster '{item.name}' is enabled without '{field}'.",
                hint=f"Set watcher.{field}: {meaning}.",
            )
    if images.tag(spec.image) == "latest":
        yield image_checks.mutable_tag(source, ("spec", "watcher", "image"), spec.image, "the watcher's image")


def mirrors(item: definitions.Cluster, source: documents.Document) -> Iterator[Diagnostic]:
    """A prefix is mirrored once."""
    prefixes = enumerate(mirror.from_ for mirror in item.spec.images.mirrors)
    for _, (index, prefix) in repeats.of(prefixes, key=lambda pair: pair[1]):
        yield Diagnostic(
            code="duplicate-name",
            span=source.span("spec", "images", "mirrors", index, "from"),
            message=f"The prefix '{prefix}' is mirrored twice.",
            hint="Keep one of the two.",
        )
