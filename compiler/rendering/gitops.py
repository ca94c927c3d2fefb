"""Argo CD and Flux: annotations by kind, and the objects that point the engine at the output.

A sync must never wait for hardware: a workload that cannot become healthy keeps an Argo CD sync in its wave,
and the commit that repairs it is not applied. So every workload is in the last wave, and only what is healthy
at once comes before it. No hooks, for the same reason.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from compiler import names
from compiler.fleet import clusters, definitions
from compiler.rendering import ir

_WORKLOADS = frozenset({"CronJob", "DaemonSet", "Deployment"})
_FIRST: Mapping[str, int] = {"Namespace": -30, "CustomResourceDefinition": -20}
_BEFORE_WORKLOADS = -10

_LARGE = frozenset({"CustomResourceDefinition", "NodeFeatureRule"})
"""Kinds that can outgrow the 262144 bytes of the annotation in which client-side apply keeps a copy."""

_GUARD = frozenset({"NetworkPolicy", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"})
_RIGHTS = frozenset({"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "SecurityContextConstraints"})
"""Kinds that confine and grant. Client-side apply sees nothing of a field that others add beside the rendered ones."""

_SERVER_SIDE = _LARGE | _GUARD | _RIGHTS

_SYNC_WAVE = "argocd.argoproj.io/sync-wave"
_COMPARE_OPTIONS = "argocd.argoproj.io/compare-options"
_FLUX = "kustomize.toolkit.fluxcd.io"


def annotated(data: Mapping[str, Any], engine: clusters.Engine, *, kept: bool) -> dict[str, Any]:
    """Return an object with the annotations that its engine reads, which does not delete an object that is `kept`."""
    added = dict(_annotations(data, engine, kept))
    if not added:
        return dict(data)
    metadata = data["metadata"]
    return {**data, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **added}}}


def _annotations(data: Mapping[str, Any], engine: clusters.Engine, kept: bool) -> Iterator[tuple[str, str]]:
    kind = data["kind"]
    if engine == "flux":
        if kept:
            yield names.FLUX_PRUNE, "disabled"
        if _has_variables(data):
            yield f"{_FLUX}/substitute", "disabled"
    if engine == "argocd":
        if kind not in _WORKLOADS:
            yield _SYNC_WAVE, str(_FIRST.get(kind, _BEFORE_WORKLOADS))
        options = ["Prune=false", "Delete=false"] if kept else []
        if kind in _SERVER_SIDE:
            options.append("ServerSideApply=true")
        if options:
            yield names.SYNC_OPTIONS, ",".join(options)
        if kept:
            yield _COMPARE_OPTIONS, "IgnoreExtraneous"


def _has_variables(value: Any) -> bool:
    """Return whether a value holds the beginning of a variable, which Flux's postBuild could replace."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, Mapping):
        return any(_has_variables(key) or _has_variables(held) for key, held in value.items())
    return isinstance(value, list) and any(map(_has_variables, value))


class Bootstrap(msgspec.Struct, frozen=True, kw_only=True):
    """What makes an engine apply a cluster's output."""

    name: str
    """Of the objects."""
    path: str
    """The folder in the repository."""
    namespace: str
    """Of the cluster's objects."""
    gitops: clusters.GitOps
    project: str
    """Of Argo CD."""
    destination: Mapping[str, str]
    """The cluster as Argo CD knows it."""
    source: Mapping[str, str] | clusters.SourceRef
    """The source of Flux."""


_IN_CLUSTER = "https://kubernetes.default.svc"
"""The cluster that Argo CD runs in, by its well-known URL."""


def bootstrap(cluster: definitions.Cluster, output: str = names.OUTPUT) -> Iterator[ir.Manifest]:
    """Yield the objects that make the engine apply the cluster's output. A person applies them once, by hand.

    `output` is the folder of outputs in the repository, where gitops.repository.path does not say.
    """
    gitops, name = cluster.spec.gitops, f"kae-{cluster.name}"
    repository, target = gitops.repository, gitops.argocd.destination
    path = (repository.path if repository else None) or f"{output}/{cluster.name}"
    value = Bootstrap(
        name=name,
        path=path.removeprefix("./").strip("/"),
        namespace=cluster.spec.namespace,
        gitops=gitops,
        project=gitops.argocd.project or name,
        destination={"name": target.name} if target.name else {"server": target.server or _IN_CLUSTER},
        source=gitops.flux.sourceRef or {"kind": "GitRepository", "name": name},
    )
    for template in _templates(gitops):
        yield ir.Manifest(component=names.BOOTSTRAP, template=f"{template}.yaml", value=value)


def _templates(gitops: clusters.GitOps) -> tuple[str, ...]:
    if gitops.engine == "argocd":
        return ("application", "appproject") if gitops.repository else ()
    if gitops.engine == "none":
        return ()
    if gitops.flux.sourceRef:
        return ("kustomization",)
    return ("gitrepository", "kustomization") if gitops.repository else ()
