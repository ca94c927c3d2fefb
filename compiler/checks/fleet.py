"""Rules for the documents of several clusters together."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import names, repeats, wording
from compiler.diagnostics import Diagnostic, Span
from compiler.fleet import definitions
from compiler.formats import documents


def findings(
    fleet: definitions.Fleet, declared: Iterable[definitions.Cluster], inventories: Iterable[tuple[str, str]]
) -> Iterator[Diagnostic]:
    """Yield contradictions between documents.

    `declared` are the clusters of all KAEClusters, `inventories` the cluster and file of every inventory.
    """
    yield from duplicate_clusters(declared)
    yield from duplicate_inventories(sorted(inventories))
    yield from shared_projects(fleet.clusters)


def unused(fleet: definitions.Fleet) -> Iterator[Diagnostic]:
    """Yield the parts of policies that apply to no cluster of a fleet without errors."""
    if fleet.clusters:
        yield from unknown_clusters(fleet.policies, [cluster.name for cluster in fleet.clusters])
    else:
        yield from uncovered_policies(fleet.policies)


def duplicate_clusters(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """A cluster is declared by one KAECluster."""
    for earlier, cluster in repeats.of(clusters, key=lambda cluster: cluster.name):
        yield Diagnostic(
            code="duplicate-cluster",
            span=cluster.span("metadata", "name"),
            message=f"Cluster '{cluster.name}' is declared twice.",
            notes=(f"The first declaration is at {earlier.span('metadata', 'name')}.",),
            hint="Merge the two.",
        )


def shared_projects(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """Each cluster of an Argo CD has an AppProject of its own, as a project allows one destination."""
    path = ("spec", "gitops", "argocd", "project")
    named = (
        cluster for cluster in clusters if cluster.spec.gitops.engine == "argocd" and cluster.spec.gitops.argocd.project
    )
    for earlier, cluster in repeats.of(named, key=_project):
        yield Diagnostic(
            code="conflicting-settings",
            span=cluster.span(*path),
            message=f"Clusters '{earlier.name}' and '{cluster.name}' both create the AppProject "
            f"'{_project(cluster)[1]}'.",
            notes=(f"The other setting is at {earlier.span(*path)}.",),
            hint="Leave argocd.project out: each cluster then has an AppProject of its own.",
        )


def _project(cluster: definitions.Cluster) -> tuple[str, str | None]:
    return cluster.spec.gitops.argocd.namespace, cluster.spec.gitops.argocd.project


def duplicate_inventories(inventories: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """A cluster has one inventory; each is given as its cluster and its file."""
    for (_, earlier), (name, file) in repeats.of(inventories, key=lambda pair: pair[0]):
        yield Diagnostic(
            code="duplicate-inventory",
            span=Span(file=file),
            message=f"Cluster '{name}' has two inventories.",
            notes=("Both are in this file." if earlier == file else f"The other one is {earlier}.",),
            hint="Delete the outdated one.",
        )


def uncovered_policies(policies: Iterable[definitions.Policy]) -> Iterator[Diagnostic]:
    """There is a cluster for the policies to hold in."""
    for policy in policies:
        yield Diagnostic(
            code="no-cluster",
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' compiles to nothing, as there is no cluster.",
            notes=("A cluster needs a KAECluster or an inventory.",),
            hint="Run `kubectl get nodes -o json | kae inventory --cluster NAME > inventory/NAME.json`.",
        )


def unknown_clusters(policies: Iterable[definitions.Policy], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    """Every item of a `clusters` list in a policy matches a cluster."""
    for policy in policies:
        for path, globs in _globs(policy):
            for index, glob in enumerate(globs):
                if not any(names.glob_matches(glob, name) for name in clusters):
                    noun = "cluster is" if len(clusters) == 1 else "clusters are"
                    yield Diagnostic(
                        code="cluster-unknown",
                        span=policy.source.span(*path, index),
                        message=f"'{glob}' matches no cluster.",
                        notes=(f"The known {noun}: {wording.listed(sorted(clusters))}.",),
                        hint="Correct it, or add the cluster's KAECluster or inventory.",
                    )


def _globs(policy: definitions.Policy) -> Iterator[tuple[documents.Path, tuple[str, ...]]]:
    """Yield every list of clusters in a policy, with its path."""
    yield ("spec", "clusters"), policy.spec.clusters or ()
    for path, group in policy.groups:
        yield (*path, "clusters"), group.clusters or ()
