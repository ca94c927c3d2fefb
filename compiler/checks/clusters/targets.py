"""Rules for the Kubernetes clusters and the folders that KAEClusters stand for: each has its own."""

import re
import urllib.parse
from collections.abc import Iterable, Iterator

from compiler import names
from compiler.diagnostics import Diagnostic, Span, shared_rule
from compiler.fleet import definitions
from compiler.formats import documents

shared_rule("shared-target", "guard", "Each KAECluster is for a Kubernetes cluster and a folder of its own.")

_SPEC: documents.Path = ("spec", "gitops")
_Folder = tuple[str, ...]
"""The parts of a path below the top of a repository."""

_OWN_NAME = "in-cluster"
_OWN_HOST = re.compile(r"kubernetes(\.default(\.svc(\..*)?)?)?")
"""The cluster that an Argo CD runs in, which is another one for each Argo CD, by its name and by its API server."""

_REPOSITORY = re.compile(r"(?:[a-z]+://)?(?:[^@/]*@)?([^:/]*)(?::[0-9]+(?=/))?[:/](.*)")
"""The URL of a repository, as a scheme's or as that of scp, with its host and its path."""

_PORTS = {"https": 443, "http": 80}


def findings(clusters: Iterable[definitions.Cluster], output: str = names.OUTPUT) -> Iterator[Diagnostic]:
    """Yield every two KAEClusters for one Kubernetes cluster or one folder; `output` is the folder of outputs."""
    clusters = tuple(clusters)
    yield from shared_clusters(clusters)
    yield from shared_folders(clusters, output)


def shared_clusters(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """Two KAEClusters are for two Kubernetes clusters, also if their namespaces differ."""
    first: dict[tuple[object, ...], tuple[definitions.Cluster, documents.Path]] = {}
    for cluster in clusters:
        for identity, path in _identities(cluster):
            earlier, where = first.setdefault(identity, (cluster, path))
            if earlier is not cluster:
                yield Diagnostic(
                    code="shared-target",
                    span=_span(cluster, path),
                    message=f"Clusters '{earlier.name}' and '{cluster.name}' are one Kubernetes cluster.",
                    notes=(
                        f"The other destination is at {_span(earlier, where)}.",
                        "ClusterRoles, the admission policy, NodeFeatureRules and the labels of nodes have one name in "
                        "a cluster, so two namespaces of it overwrite each other's.",
                    ),
                    hint="Correct one destination, or make them one KAECluster and one namespace; for two clusters "
                    "after all, set shared-target to ignore in kae.yaml.",
                )


def _identities(cluster: definitions.Cluster) -> Iterator[tuple[tuple[object, ...], documents.Path]]:
    """Yield what tells a Kubernetes cluster from others, with the path of the setting."""
    gitops = cluster.spec.gitops
    destination, flux = gitops.argocd.destination, gitops.flux
    path = (*_SPEC, "argocd", "destination")
    if gitops.engine == "argocd":
        server = _server(destination.server) if destination.server else None
        if server:
            yield server, (*path, "server")
        if destination.name and destination.name != _OWN_NAME:
            yield ("name", gitops.argocd.namespace, destination.name), (*path, "name")
    if gitops.engine == "flux" and flux.kubeConfig is not None:
        identity = ("flux", flux.namespace, flux.kubeConfig.secretRef, _source(cluster))
        yield identity, (*_SPEC, "flux", "kubeConfig", "secretRef", "name")


def _server(url: str) -> tuple[object, ...] | None:
    """Return host, port and path of an API server; None for the own cluster of an Argo CD."""
    parts = urllib.parse.urlsplit(url)
    try:
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:  # a port above 65535
        port = None
    if parts.hostname is None or _OWN_HOST.fullmatch(parts.hostname):
        return None
    return "server", parts.hostname, port, parts.path.rstrip("/")


def shared_folders(clusters: Iterable[definitions.Cluster], output: str) -> Iterator[Diagnostic]:
    """An engine applies a folder to one cluster, and no folder with that of another cluster in it."""
    clusters = tuple(clusters)
    owners: dict[_Folder, list[definitions.Cluster]] = {}
    for cluster in clusters:
        owners.setdefault(_folder(cluster, output), []).append(cluster)
    for inner in clusters:
        folder = _folder(inner, output)
        for outer in (owner for length in range(len(folder) + 1) for owner in owners.get(folder[:length], ())):
            is_told_from_the_other_side = _folder(outer, output) == folder and outer.name >= inner.name
            if outer is not inner and not is_told_from_the_other_side and _is_same_source(outer, inner):
                first, second = sorted((outer, inner), key=_states_path)
                yield _shared_folder(first, second, output)


def _shared_folder(earlier: definitions.Cluster, cluster: definitions.Cluster, output: str) -> Diagnostic:
    """Return the finding on two clusters, at the second one, which states a path if one of them does."""
    one, other = ("/".join(_folder(each, output)) or "." for each in (earlier, cluster))
    return Diagnostic(
        code="shared-target",
        span=_span(cluster, (*_SPEC, "repository", "path")),
        message=f"Cluster '{cluster.name}' has the folder '{other}' applied, and cluster '{earlier.name}' "
        f"'{one}' of the same repository.",
        notes=(f"The other setting is at {_span(earlier, (*_SPEC, 'repository', 'path'))}.",),
        hint="Remove gitops.repository.path: each cluster then has the folder of its own output applied.",
    )


def _is_same_source(*clusters: definitions.Cluster) -> bool:
    """Return whether the engines of two clusters read one repository, or one folder on somebody's disk."""
    if any(map(_is_artifact, clusters)):
        return False
    return _is_applied_by_hand(*clusters) or len(set(map(_source, clusters))) == 1


def _states_path(cluster: definitions.Cluster) -> bool:
    repository = cluster.spec.gitops.repository
    return repository is not None and repository.path is not None


def _is_applied_by_hand(*clusters: definitions.Cluster) -> bool:
    """Return whether one of the clusters has no engine: its folder is in the repository of the documents."""
    return any(cluster.spec.gitops.engine == "none" for cluster in clusters)


def _source(cluster: definitions.Cluster) -> tuple[object, ...]:
    """Return what the engine reads: a source of Flux, or a branch of a repository."""
    gitops = cluster.spec.gitops
    if gitops.engine == "flux" and gitops.flux.sourceRef is not None:
        reference = gitops.flux.sourceRef
        return reference.kind, reference.namespace or gitops.flux.namespace, reference.name
    if gitops.repository is None:
        return ("none", cluster.name)
    # One repository has URLs of several schemes, ports and users.
    host, path = _REPOSITORY.sub(r"\1 \2", gitops.repository.url).partition(" ")[::2]
    return host.lower(), path.strip("/").removesuffix(".git"), gitops.repository.revision


def _is_artifact(cluster: definitions.Cluster) -> bool:
    """Return whether the engine reads what a pipeline packs, which may have any path there."""
    reference = cluster.spec.gitops.flux.sourceRef
    return cluster.spec.gitops.engine == "flux" and reference is not None and reference.kind != "GitRepository"


def _folder(cluster: definitions.Cluster, output: str) -> _Folder:
    """Return the folder that the engine of a cluster applies; the whole repository has no parts."""
    repository = cluster.spec.gitops.repository if cluster.spec.gitops.engine != "none" else None
    path = (repository and repository.path) or f"{output}/{cluster.name}"
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _span(cluster: definitions.Cluster, path: documents.Path) -> Span:
    return cluster.source.setting_span(*path) if cluster.source else cluster.span()
