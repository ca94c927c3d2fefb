"""Argo CD and Flux: annotations by kind, and the objects that point the engine at the output.

A sync must never wait for hardware: a workload that cannot become healthy keeps an Argo CD sync in its wave,
and the commit that repairs it is not applied. So every workload is in the last wave, and only what is healthy
at once comes before it. No hooks, for the same reason.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from compiler.fleet import definitions
from compiler.formats import canonical
from compiler.model import gitops as engines
from compiler.rendering import ir

_WORKLOADS = frozenset({"DaemonSet", "Deployment"})
_FIRST: Mapping[str, int] = {"Namespace": -30, "CustomResourceDefinition": -20}
_BEFORE_WORKLOADS = -10

_LARGE = frozenset({"CustomResourceDefinition", "NodeFeatureRule"})
"""Kinds that can outgrow the 262144 bytes of the annotation in which client-side apply keeps a copy."""

_SYNC_WAVE = "argocd.argoproj.io/sync-wave"
_SYNC_OPTIONS = "argocd.argoproj.io/sync-options"
_COMPARE_OPTIONS = "argocd.argoproj.io/compare-options"
_FLUX = "kustomize.toolkit.fluxcd.io"

_CLUSTER_KINDS = (
    ("", "Namespace"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"),
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("nfd.k8s-sigs.io", "NodeFeatureRule"),
    ("rbac.authorization.k8s.io", "ClusterRole"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"),
)
_NAMESPACED_KINDS = (
    ("", "ConfigMap"),
    ("", "ServiceAccount"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("monitoring.coreos.com", "PodMonitor"),
    ("monitoring.coreos.com", "PrometheusRule"),
    ("rbac.authorization.k8s.io", "Role"),
    ("rbac.authorization.k8s.io", "RoleBinding"),
)
"""Every kind that the compiler can emit, so that a component that is enabled later needs no new AppProject."""


def annotated(data: Mapping[str, Any], engine: ir.Engine, *, keep_crds: bool) -> dict[str, Any]:
    """Return the object with the annotations that its engine reads."""
    extra = {} if engine == "none" else annotations(data, engine, keep_crds=keep_crds)
    if not extra:
        return dict(data)
    metadata = dict(data["metadata"])
    metadata["annotations"] = {**metadata.get("annotations", {}), **extra}
    return {**data, "metadata": metadata}


def annotations(data: Mapping[str, Any], engine: ir.Engine, *, keep_crds: bool) -> dict[str, str]:
    """Return the annotations of an object for its engine."""
    kind = data["kind"]
    kept = kind == "Namespace" or (kind == "CustomResourceDefinition" and keep_crds)
    if engine == "flux":
        found = {f"{_FLUX}/prune": "disabled"} if kept else {}
        if "${" in canonical.dump_json(data):
            found[f"{_FLUX}/substitute"] = "disabled"
        return found
    found = {} if kind in _WORKLOADS else {_SYNC_WAVE: str(_FIRST.get(kind, _BEFORE_WORKLOADS))}
    options = ["Prune=false", "Delete=false"] if kept else []
    if kind in _LARGE:
        options.append("ServerSideApply=true")
    if options:
        found[_SYNC_OPTIONS] = ",".join(options)
    if kept:
        found[_COMPARE_OPTIONS] = "IgnoreExtraneous"
    return found


def bootstrap(item: definitions.Cluster) -> Iterator[ir.Manifest]:
    """Yield the objects that make the engine apply the cluster's output. A person applies them once, by hand."""
    gitops = item.spec.gitops
    if gitops.engine == "argocd" and gitops.repository is not None:
        value = _argo_application(item, gitops.repository)
        for template in ("application.yaml", "appproject.yaml"):
            yield ir.Manifest(component="bootstrap", template=template, value=value)
    if gitops.engine == "flux":
        yield from _flux(item)


def _argo_application(item: definitions.Cluster, repository: engines.Repository) -> ir.ArgoApplication:
    gitops = item.spec.gitops
    argocd = gitops.argocd
    target = argocd.destination
    destination = {"name": target.name} if target.name else {"server": target.server or _IN_CLUSTER}
    return ir.ArgoApplication(
        name=_name(item),
        namespace=argocd.namespace,
        project=argocd.project or _name(item),
        repository=repository.url,
        revision=repository.revision,
        path=_path(item),
        destination=ir.mapping(destination.items()),
        destination_namespace=item.spec.namespace,
        prune=argocd.prune,
        self_heal=argocd.selfHeal,
        cluster_kinds=tuple(ir.KindRef(group=group, kind=kind) for group, kind in _CLUSTER_KINDS),
        namespaced_kinds=tuple(ir.KindRef(group=group, kind=kind) for group, kind in _NAMESPACED_KINDS),
    )


_IN_CLUSTER = "https://kubernetes.default.svc"
"""The cluster that Argo CD runs in, by its well-known URL."""


def _flux(item: definitions.Cluster) -> Iterator[ir.Manifest]:
    gitops = item.spec.gitops
    flux = gitops.flux
    if flux.sourceRef is not None:
        source = flux.sourceRef.model_dump(exclude_none=True)
    elif gitops.repository is not None:
        source = {"kind": "GitRepository", "name": _name(item)}
        repository = ir.FluxSource(
            name=_name(item),
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
    secret = ir.mapping(remote.secretRef.model_dump(exclude_none=True).items()) if remote else None
    value = ir.FluxKustomization(
        name=_name(item),
        namespace=flux.namespace,
        interval=flux.interval,
        path=f"./{_path(item)}",
        prune=flux.prune,
        source=ir.mapping(source.items()),
        kube_config=ir.mapping([("secretRef", secret)]) if secret else None,
    )
    yield ir.Manifest(component="bootstrap", template="kustomization.yaml", value=value)


def _name(item: definitions.Cluster) -> str:
    return f"kae-{item.name}"


def _path(item: definitions.Cluster) -> str:
    repository = item.spec.gitops.repository
    stated = repository.path if repository else None
    return (stated or f"output/{item.name}").removeprefix("./").strip("/")
