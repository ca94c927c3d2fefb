"""Rules for the documents of several clusters together."""

import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compiler import API_VERSION, names, repeats, wording
from compiler.checks import cluster as cluster_checks
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.fleet import assignment, definitions, selectors
from compiler.formats import documents
from compiler.inventory import snapshot

shared_rule("cluster-unknown", "guard", "A policy's clusters name clusters of the project.")
shared_rule("glob-unmatched", "warning", "Every glob in a policy's clusters matches a cluster.")

_MOST = 20
"""Clusters that a finding lists."""

_DISPUTABLE = "policy-matches-nothing"
"""The finding on a cluster that another cluster may disprove."""

_GITOPS = ("spec", "gitops")
_PROJECT = (*_GITOPS, "argocd", "project")
_Path = tuple[str, ...]
"""The fields that lead to a setting of a KAECluster."""
_Folder = tuple[str, ...]
"""The parts of a path below the top of a repository."""

_OWN_NAME = "in-cluster"
_OWN_HOST = re.compile(r"kubernetes(\.default(\.svc(\..*)?)?)?")
"""The cluster that an Argo CD runs in, which is another one for each Argo CD, by its name and by its API server."""

_REPOSITORY = re.compile(r"(?:[a-z]+://)?(?:[^@/]*@)?([^:/]*)(?::[0-9]+(?=/))?[:/](.*)")
"""The URL of a repository, as a scheme's or as that of scp, with its host and its path."""

_PORTS = {"https": 443, "http": 80}


def findings(
    fleet: definitions.Fleet,
    declared: Iterable[definitions.Cluster],
    inventories: Iterable[tuple[str, str]],
    output: str = names.OUTPUT,
) -> Iterator[Diagnostic]:
    """Yield contradictions between documents; `output` is the project's folder of outputs.

    `declared` are the clusters of all KAEClusters, `inventories` the cluster and file of every inventory.
    """
    yield from duplicate_clusters(declared)
    yield from duplicate_inventories(sorted(inventories))
    yield from shared_projects(fleet.clusters)
    yield from shared_clusters(fleet.clusters)
    yield from shared_folders(fleet.clusters, output)


def clusters(fleet: definitions.Fleet, inventories: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """Yield the clusters that documents name and nothing declares, in a fleet without errors.

    A refused document may be the one that declares the cluster. `inventories` are those of `findings`.
    """
    declared = [cluster.name for cluster in fleet.clusters if cluster.source]
    if declared:
        yield from undeclared_clusters(declared, inventories)
    if fleet.clusters:
        yield from unknown_clusters(fleet.policies, [cluster.name for cluster in fleet.clusters])
    else:
        yield from uncovered_policies(fleet.policies)


@rule("cluster-undeclared", "guard")
def undeclared_clusters(declared: Sequence[str], inventories: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """If a project has a KAECluster, every cluster with an inventory has one."""
    inventories = sorted(inventories)
    # A KAECluster with an inventory of its own is not the misspelt one.
    lonely = [name for name in declared if name not in dict(inventories)]
    for name, file in inventories:
        if name not in declared:
            yield undeclared(name, Span(file=file), lonely)


def undeclared(name: str, span: Span, declared: Sequence[str]) -> Diagnostic:
    """Return the finding on a cluster without KAECluster."""
    document = f'{{apiVersion: {API_VERSION}, kind: KAECluster, metadata: {{name: "{name}"}}}}'
    return Diagnostic(
        code="cluster-undeclared",
        span=span,
        message=f"No KAECluster declares cluster '{name}'{wording.or_meant(name, declared)}",
        notes=("The defaults of its namespace, its GitOps engine and every other setting would apply.",),
        hint=f"Correct the name, restore its KAECluster from git, or write {document} to a file beside the policies.",
    )


@rule("duplicate-cluster", "error")
def duplicate_clusters(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """One KAECluster declares a cluster."""
    for earlier, cluster in repeats.of(clusters, key=lambda cluster: cluster.name):
        yield Diagnostic(
            span=cluster.span("metadata", "name"),
            message=f"Cluster '{cluster.name}' is declared twice.",
            notes=(f"The first declaration is at {earlier.span('metadata', 'name')}.",),
            hint="Merge the two.",
        )


def shared_projects(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """Each cluster of an Argo CD has an AppProject of its own, as a project allows one destination."""
    own = [cluster for cluster in clusters if cluster.spec.gitops.engine == "argocd" and cluster.source]
    # A project that is named goes last, so that the finding is at the setting.
    own.sort(key=lambda cluster: cluster.spec.gitops.argocd.project is not None)
    for earlier, cluster in repeats.of(own, key=_project):
        yield Diagnostic(
            code="conflicting-settings",
            span=cluster.span(*_PROJECT),
            message=f"Clusters '{earlier.name}' and '{cluster.name}' both create the AppProject "
            f"'{_project(cluster)[1]}'.",
            notes=(f"The other one is at {_span(earlier, _PROJECT)}.",),
            hint="Leave argocd.project out: each cluster then has an AppProject of its own.",
        )


def _project(cluster: definitions.Cluster) -> tuple[str, str]:
    argocd = cluster.spec.gitops.argocd
    return argocd.namespace, argocd.project or f"kae-{cluster.name}"


@rule("duplicate-inventory", "error")
def duplicate_inventories(inventories: Iterable[tuple[str, str]]) -> Iterator[Diagnostic]:
    """A cluster has one inventory."""
    for (_, earlier), (name, file) in repeats.of(inventories, key=lambda pair: pair[0]):
        yield Diagnostic(
            span=Span(file=file),
            message=f"Cluster '{name}' has two inventories.",
            notes=("Both are in this file." if earlier == file else f"The other one is {earlier}.",),
            hint="Delete the outdated one.",
        )


@rule("no-cluster", "warning")
def uncovered_policies(policies: Iterable[definitions.Policy]) -> Iterator[Diagnostic]:
    """There is a cluster for every policy."""
    for policy in policies:
        yield Diagnostic(
            span=policy.source.span("metadata", "name"),
            message=f"Policy '{policy.name}' compiles to nothing, as there is no cluster.",
            notes=("A cluster needs a KAECluster or an inventory.",),
            hint="Run `kubectl get nodes -o json | kae inventory --cluster NAME --output-file inventory/NAME.json`.",
        )


def unknown_clusters(policies: Iterable[definitions.Policy], clusters: Sequence[str]) -> Iterator[Diagnostic]:
    """Every item of a `clusters` list in a policy matches a cluster; a glob may be for clusters that join later."""
    noun = "cluster is" if len(clusters) == 1 else "clusters are"
    known = f"The known {noun}: {wording.listed(sorted(clusters), most=_MOST)}."
    for policy in policies:
        for path, index, glob in _globs(policy):
            if any(names.glob_matches(glob, name) for name in clusters):
                continue
            if names.is_glob(glob):
                code, message = "glob-unmatched", f"'{glob}' matches no cluster."
                hint = "Correct it, or keep it for clusters that join later."
            else:
                code, message = "cluster-unknown", f"There is no cluster '{glob}'{wording.or_meant(glob, clusters)}"
                hint = "Correct the name, remove it, or add the cluster's KAECluster or inventory."
            yield Diagnostic(
                code=code, span=policy.source.span(*path, index), message=message, notes=(known,), hint=hint
            )


def on_clusters(fleet: definitions.Fleet, findings: Mapping[str, Sequence[Diagnostic]]) -> Iterator[Diagnostic]:
    """Yield the findings on planned clusters, by their names; a policy matches a node of one of its clusters.

    A policy may match nodes of a cluster that is not planned, or that has no inventory yet.
    """
    without = {name: {finding.span for finding in own if finding.code == _DISPUTABLE} for name, own in findings.items()}
    nowhere = {
        selector_span(policy)
        for policy in fleet.policies
        if all(
            selector_span(policy) in without.get(cluster.name, ())
            for cluster in fleet.clusters
            if assignment.holds_in(policy, cluster.name)
        )
    }
    for own in findings.values():
        yield from (one for one in own if one.code != _DISPUTABLE or one.span in nowhere)


def certain(findings: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield the findings on a cluster that hold whatever the other clusters are."""
    return (one for one in findings if one.code != _DISPUTABLE)


@rule("policy-matches-nothing", "warning")
def unmatched_policies(policies: Iterable[definitions.Policy], nodes: Sequence[snapshot.Node]) -> Iterator[Diagnostic]:
    """A policy with a nodeSelector matches a node of one of its clusters."""
    for policy in policies:
        if policy.selector and nodes and not any(selectors.term_matches(policy.term, n.label) for n in nodes):
            yield Diagnostic(
                span=selector_span(policy),
                message=f"Policy '{policy.name}' matches no node.",
                notes=(selectors.why_unmatched(policy.term, nodes),),
                hint="Correct the nodeSelector or the labels, or keep the policy for nodes that join later.",
            )


def selector_span(policy: definitions.Policy) -> Span:
    """Return the position of a policy's nodeSelector."""
    return policy.source.key_span("spec", "nodeSelector")


def _globs(policy: definitions.Policy) -> Iterator[tuple[documents.Path, int, str]]:
    """Yield every item of the lists of clusters in a policy, with the path of its list and its index."""
    groups = (((*group.path, "clusters"), group.clusters) for group in policy.groups)
    for path, globs in ((("spec", "clusters"), policy.clusters), *groups):
        for index, glob in enumerate(globs or ()):
            yield path, index, glob


@rule("shared-target", "guard")
def shared_clusters(clusters: Iterable[definitions.Cluster]) -> Iterator[Diagnostic]:
    """Each KAECluster is for a Kubernetes cluster and a folder of its own.

    Two are for two Kubernetes clusters, also if their namespaces differ.
    """
    named = ((identity, cluster, path) for cluster in clusters for identity, path in _identities(cluster))
    for (_, earlier, where), (_, cluster, path) in repeats.of(named, key=lambda each: each[0]):
        yield Diagnostic(
            span=_span(cluster, path),
            message=f"Clusters '{earlier.name}' and '{cluster.name}' are one Kubernetes cluster.",
            notes=(
                f"The other destination is at {_span(earlier, where)}.",
                "ClusterRoles, the admission policy, NodeFeatureRules and the labels of nodes have one name in a "
                "cluster, so two namespaces of it overwrite each other's.",
            ),
            hint="Correct one destination, or make them one KAECluster and one namespace; for two clusters after all, "
            "set shared-target to ignore in kae.yaml.",
        )


def _identities(cluster: definitions.Cluster) -> Iterator[tuple[tuple[object, ...], _Path]]:
    """Yield what tells a Kubernetes cluster from others, with the path of the setting."""
    gitops = cluster.spec.gitops
    destination, flux = gitops.argocd.destination, gitops.flux
    path = (*_GITOPS, "argocd", "destination")
    if gitops.engine == "argocd":
        server = _server(destination.server) if destination.server else None
        if server:
            yield server, (*path, "server")
        if destination.name and destination.name != _OWN_NAME:
            yield ("name", gitops.argocd.namespace, destination.name), (*path, "name")
    if gitops.engine == "flux" and flux.kubeConfig is not None:
        identity = ("flux", flux.namespace, flux.kubeConfig.secretRef, _source(cluster))
        yield identity, (*_GITOPS, "flux", "kubeConfig", "secretRef", "name")


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


def shared_folders(clusters: Sequence[definitions.Cluster], output: str) -> Iterator[Diagnostic]:
    """An engine applies a folder to one cluster, and no folder with that of another cluster in it."""
    path = (*_GITOPS, "repository", "path")
    owners = repeats.grouped((_folder(cluster, output), cluster) for cluster in clusters)
    for inner in clusters:
        folder = _folder(inner, output)
        for outer in (owner for length in range(len(folder) + 1) for owner in owners.get(folder[:length], ())):
            is_told_from_the_other_side = _folder(outer, output) == folder and outer.name >= inner.name
            if outer is inner or is_told_from_the_other_side or not _is_same_source(outer, inner):
                continue
            # The finding is at the second one, which states a path if one of them does.
            earlier, cluster = sorted((outer, inner), key=_states_path)
            one, other = ("/".join(_folder(each, output)) or "." for each in (earlier, cluster))
            yield Diagnostic(
                code="shared-target",
                span=_span(cluster, path),
                message=f"Cluster '{cluster.name}' has the folder '{other}' applied, and cluster '{earlier.name}' "
                f"'{one}' of the same repository.",
                notes=(f"The other setting is at {_span(earlier, path)}.",),
                hint="Remove gitops.repository.path: each cluster then has the folder of its own output applied.",
            )


def _is_same_source(*clusters: definitions.Cluster) -> bool:
    """Return whether the engines of two clusters read one repository, or one folder on somebody's disk."""
    if any(cluster_checks.reads_artifact(cluster.spec.gitops) for cluster in clusters):
        return False
    # Without an engine, the folder is in the repository of the documents.
    by_hand = any(cluster.spec.gitops.engine == "none" for cluster in clusters)
    return by_hand or len(set(map(_source, clusters))) == 1


def _states_path(cluster: definitions.Cluster) -> bool:
    repository = cluster.spec.gitops.repository
    return repository is not None and repository.path is not None


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


def _folder(cluster: definitions.Cluster, output: str) -> _Folder:
    """Return the folder that the engine of a cluster applies; the whole repository has no parts."""
    repository = cluster.spec.gitops.repository if cluster.spec.gitops.engine != "none" else None
    path = (repository and repository.path) or f"{output}/{cluster.name}"
    return tuple(part for part in path.split("/") if part not in ("", "."))


def _span(cluster: definitions.Cluster, path: _Path) -> Span:
    return cluster.setting_span(cluster.span(), *path)
