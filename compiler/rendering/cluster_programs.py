"""The programs that run for a cluster as a whole, NFD and the inventory watcher, and what OpenShift admits."""

from collections.abc import Iterator, Sequence

from compiler.fleet import clusters, definitions
from compiler.planning import images, supported
from compiler.rendering import cluster_values, ir, pod_values, program_configs

WATCHER_METRICS_PORT = 9512

_CRDS = (
    "customresourcedefinition-nodefeatures.nfd.k8s-sigs.io",
    "customresourcedefinition-nodefeaturerules.nfd.k8s-sigs.io",
    "customresourcedefinition-nodefeaturegroups.nfd.k8s-sigs.io",
)
_NFD = (
    *("serviceaccount-nfd-master", "serviceaccount-nfd-worker", "serviceaccount-nfd-gc"),
    *("clusterrole-kae-nfd-master", "clusterrolebinding-kae-nfd-master"),
    *("clusterrole-kae-nfd-gc", "clusterrolebinding-kae-nfd-gc"),
    *("role-nfd-worker", "rolebinding-nfd-worker"),
    *("deployment-nfd-master", "daemonset-nfd-worker", "deployment-nfd-gc"),
)
_WATCHER = (
    *("serviceaccount-kae-watcher", "clusterrole-kae-watcher", "clusterrolebinding-kae-watcher"),
    "workload-kae-watcher",
)
_CONSTRAINTS = ("securitycontextconstraints", "role", "rolebinding")


def nfd(cluster: definitions.Cluster, policies: Sequence[definitions.Policy]) -> Iterator[ir.Manifest]:
    """Yield NFD and its definitions where the cluster's NFD is ours; its workers bear what any policy tolerates."""
    spec = cluster.spec.nfd
    if not spec.enabled:
        return
    theirs = (given for policy in policies for given in policy.pods.tolerations)
    value = cluster_values.Nfd(
        namespace=cluster.spec.namespace,
        image=images.mirrored(images.of_nfd(spec.image), cluster.spec.images.mirrors),
        pull_policy=spec.image.pullPolicy,
        pull_secrets=spec.pullSecrets,
        minor=supported.nfd_minor(spec.image.tag) or 0,
        tolerations=spec.tolerations,
        worker_tolerations=tuple(dict.fromkeys((*spec.tolerations, *theirs))),
        terms=pod_values.terms(spec.nodeSelector),
        master=_nfd_pod(spec.master),
        worker=_nfd_pod(spec.worker),
        gc=_nfd_pod(spec.gc),
        fixed_user=has_fixed_users(cluster.spec),
    )
    yield from ir.manifests("crds", _CRDS, value, kept=not cluster.spec.crd.cleanup)
    yield from ir.manifests("nfd", _NFD, value)


def _nfd_pod(pod: clusters.NfdPod) -> cluster_values.NfdPod:
    return cluster_values.NfdPod(priority_class=pod.priorityClassName, resources=pod_values.resources(pod.resources))


def watcher(cluster: definitions.Cluster) -> Iterator[ir.Manifest]:
    """Yield the watcher of a cluster that has one."""
    spec = cluster.spec.watcher
    if not spec.enabled or spec.repository is None or spec.secretName is None:
        return
    port = WATCHER_METRICS_PORT if serves_metrics(cluster.spec) and cluster.spec.monitoring.enabled else None
    value = cluster_values.Watcher(
        namespace=cluster.spec.namespace,
        image=images.mirrored(spec.image, cluster.spec.images.mirrors),
        pull_policy="IfNotPresent",
        pull_secrets=spec.pullSecrets,
        tolerations=spec.tolerations,
        terms=pod_values.terms(spec.nodeSelector),
        env=pod_values.environment(spec.env),
        resources=pod_values.resources(spec.resources),
        priority_class=spec.priorityClassName,
        secret=spec.secretName,
        signing_secret=spec.signing.secretName if spec.signing else None,
        config=program_configs.watcher(cluster, spec.repository, port),
        metrics_port=port,
        fixed_user=has_fixed_users(cluster.spec),
        schedule=spec.schedule if spec.mode == "CronJob" else None,
    )
    yield from ir.manifests("watcher", _WATCHER, value)


def serves_metrics(spec: clusters.Spec) -> bool:
    """Return whether the watcher can serve metrics: a pod of a CronJob is gone before it is scraped."""
    return spec.watcher.enabled and spec.watcher.mode == "Deployment"


def has_fixed_users(spec: clusters.Spec) -> bool:
    """Return whether pods name their users: OpenShift assigns one of the namespace's range, and refuses others."""
    return spec.platform != "openshift"


def constraints(cluster: definitions.Cluster, policies: Sequence[definitions.Policy]) -> Iterator[ir.Manifest]:
    """Yield the security context constraints of the node programs, and who may use which; none but on OpenShift.

    The watcher, NFD's master and its garbage collector need none: `restricted-v2` fits them, which every account may
    use.
    """
    spec = cluster.spec
    if spec.platform != "openshift":
        return
    drivers = (policy.recipe.driver for policy in policies if policy.installed)
    plugins = (policy.recipe.device_plugin for policy in policies if policy.offered)
    for accounts, templates in ((drivers, ("rolebinding-privileged",)), (plugins, _CONSTRAINTS)):
        for account in dict.fromkeys(accounts):
            value = cluster_values.HostAccess(namespace=spec.namespace, account=account, name=account, as_root=True)
            yield from ir.manifests("openshift", templates, value)
    if spec.nfd.enabled:
        value = cluster_values.HostAccess(
            namespace=spec.namespace, account="nfd-worker", name="kae-nfd-worker", as_root=False
        )
        yield from ir.manifests("openshift", _CONSTRAINTS, value)
