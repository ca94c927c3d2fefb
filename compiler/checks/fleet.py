"""Rules for what the documents of several clusters say together."""

from collections.abc import Iterable, Iterator

from compiler import names, repeats
from compiler.diagnostics import Diagnostic, Span
from compiler.fleet import definitions
from compiler.formats import documents


def duplicate_clusters(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """A cluster is declared by one KAECluster."""
    for earlier, item in repeats.of(clusters, key=lambda item: item.name):
        yield Diagnostic(
            code="duplicate-cluster",
            span=item.span("metadata", "name"),
            message=f"Cluster '{item.name}' is declared twice.",
            notes=(f"It was first declared at {earlier.span('metadata', 'name')}.",),
            hint="Merge the two.",
        )


def shared_projects(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """Two clusters of one Argo CD have AppProjects of their own, as each allows one destination."""
    path = ("spec", "gitops", "argocd", "project")
    named = (item for item in clusters if item.spec.gitops.engine == "argocd" and item.spec.gitops.argocd.project)
    for earlier, item in repeats.of(named, key=_project):
        yield Diagnostic(
            code="conflicting-settings",
            span=item.span(*path),
            message=f"Clusters '{earlier.name}' and '{item.name}' both make the AppProject '{_project(item)[1]}'.",
            notes=(f"The first stands at {earlier.span(*path)}.",),
            hint="Leave argocd.project out: each cluster then has an AppProject of its own.",
        )


def _project(item: definitions.Cluster) -> tuple[str, str | None]:
    return item.spec.gitops.argocd.namespace, item.spec.gitops.argocd.project


def duplicate_inventories(inventories: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """A cluster has one inventory; each is given as its cluster and its file."""
    for (_, earlier), (name, file) in repeats.of(inventories, key=lambda pair: pair[0]):
        yield Diagnostic(
            code="duplicate-inventory",
            span=Span(file=file),
            message=f"Cluster '{name}' has two inventories.",
            notes=("Both stand in this file." if earlier == file else f"The other one is {earlier}.",),
            hint="Delete the one that is out of date.",
        )


def uncovered_policies(policies: Iterable[definitions.Policy]) -> Iterator[Diagnostic]:
    """A policy holds in some cluster; asked where there is none at all."""
    for item in policies:
        yield Diagnostic(
            code="no-cluster",
            span=item.source.span("metadata", "name"),
            message=f"Policy '{item.name}' compiles to nothing, as there is no cluster.",
            notes=("A cluster is what has a KAECluster, or an inventory.",),
            hint="Run `kubectl get nodes -o json | kae inventory --cluster NAME > inventory/NAME.json`.",
        )


def unknown_clusters(policies: Iterable[definitions.Policy], clusters: Iterable[str]) -> Iterator[Diagnostic]:
    """Every entry of a policy's clusters names a cluster."""
    known = sorted(clusters)
    for item in policies:
        for path, globs in _globs(item):
            for index, glob in enumerate(globs):
                if not any(names.glob_matches(glob, name) for name in known):
                    yield Diagnostic(
                        code="cluster-unknown",
                        span=item.source.span(*path, index),
                        message=f"'{glob}' matches no cluster.",
                        notes=(f"The clusters are: {', '.join(known)}.",) if known else (),
                        hint="Correct it, or add the cluster's KAECluster or inventory.",
                    )


def _globs(item: definitions.Policy) -> Iterator[tuple[documents.Path, tuple[str, ...]]]:
    """Every list of clusters in a policy, with its place."""
    yield ("spec", "clusters"), item.spec.clusters or ()
    for path, group in item.groups:
        yield (*path, "clusters"), group.clusters or ()
