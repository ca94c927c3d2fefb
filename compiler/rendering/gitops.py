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
    """Return the object with the annotations that its engine reads."""
    extra = {} if engine == "none" else annotations(data, engine, kept=kept)
    if not extra:
        return dict(data)
    metadata = dict(data["metadata"])
    metadata["annotations"] = {**metadata.get("annotations", {}), **extra}
    return {**data, "metadata": metadata}


def annotations(data: Mapping[str, Any], engine: clusters.Engine, *, kept: bool) -> dict[str, str]:
    """Return the annotations of an object for its engine, which does not delete an object that is `kept`."""
    kind = data["kind"]
    if engine == "flux":
        added = {names.FLUX_PRUNE: "disabled"} if kept else {}
        if _has_variables(data):
            added[f"{_FLUX}/substitute"] = "disabled"
        return added
    added = {} if kind in _WORKLOADS else {_SYNC_WAVE: str(_FIRST.get(kind, _BEFORE_WORKLOADS))}
    options = ["Prune=false", "Delete=false"] if kept else []
    if kind in _SERVER_SIDE:
        options.append("ServerSideApply=true")
    if options:
        added[names.SYNC_OPTIONS] = ",".join(options)
    if kept:
        added[_COMPARE_OPTIONS] = "IgnoreExtraneous"
    return added


def _has_variables(value: Any) -> bool:
    """Return whether a value holds the beginning of a variable, which Flux's postBuild could replace."""
    if isinstance(value, str):
        return "${" in value
    if isinstance(value, Mapping):
        return any(_has_variables(key) or _has_variables(held) for key, held in value.items())
    return isinstance(value, list) and any(map(_has_variables, value))


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


def bootstrap(cluster: definitions.Cluster, output: str = names.OUTPUT) -> Iterator[ir.Manifest]:
    """Yield the objects that make the engine apply the cluster's output. A person applies them once, by hand.

    `output` is the folder of outputs in the repository, where gitops.repository.path does not say.
    """
    gitops = cluster.spec.gitops
    if gitops.engine == "argocd" and gitops.repository is not None:
        value = _argo_application(cluster, gitops.repository, _path(cluster, output))
        for template in ("application.yaml", "appproject.yaml"):
            yield ir.Manifest(component="bootstrap", template=template, value=value)
    if gitops.engine == "flux":
        yield from _flux(cluster, _path(cluster, output))


def _argo_application(cluster: definitions.Cluster, repository: clusters.Repository, path: str) -> ArgoApplication:
    gitops = cluster.spec.gitops
    argocd = gitops.argocd
    target = argocd.destination
    destination = {"name": target.name} if target.name else {"server": target.server or _IN_CLUSTER}
    return ArgoApplication(
        name=_name(cluster),
        namespace=argocd.namespace,
        project=argocd.project or _name(cluster),
        repository=repository.url,
        revision=repository.revision,
        path=path,
        destination=ir.mapping(destination.items()),
        destination_namespace=cluster.spec.namespace,
        prune=argocd.prune,
        self_heal=argocd.selfHeal,
    )


_IN_CLUSTER = "https://kubernetes.default.svc"
"""The cluster that Argo CD runs in, by its well-known URL."""


def _stated(value: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a value that are not None."""
    return {name: field for name, field in msgspec.structs.asdict(value).items() if field is not None}


def _flux(cluster: definitions.Cluster, path: str) -> Iterator[ir.Manifest]:
    gitops = cluster.spec.gitops
    flux = gitops.flux
    if flux.sourceRef is not None:
        source = _stated(flux.sourceRef)
    elif gitops.repository is not None:
        source = {"kind": "GitRepository", "name": _name(cluster)}
        repository = FluxSource(
            name=_name(cluster),
            namespace=flux.namespace,
            url=gitops.repository.url,
            branch=gitops.repository.revision,
            interval=flux.interval,
            secret=flux.secretRef.name if flux.secretRef else None,
        )
        yield ir.Manifest(component="bootstrap", template="gitrepository.yaml", value=repository)
    else:
        return
    remote = flux.kubeConfig
    secret = ir.mapping(_stated(remote.secretRef).items()) if remote else None
    value = FluxKustomization(
        name=_name(cluster),
        namespace=flux.namespace,
        interval=flux.interval,
        path=f"./{path}",
        prune=flux.prune,
        source=ir.mapping(source.items()),
        kube_config=ir.mapping([("secretRef", secret)]) if secret else None,
    )
    yield ir.Manifest(component="bootstrap", template="kustomization.yaml", value=value)


def _name(cluster: definitions.Cluster) -> str:
    return f"kae-{cluster.name}"


def _path(cluster: definitions.Cluster, output: str) -> str:
    repository = cluster.spec.gitops.repository
    stated = repository.path if repository else None
    return (stated or f"{output}/{cluster.name}").removeprefix("./").strip("/")
