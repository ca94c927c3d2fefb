"""The objects that a cluster has once: its namespace, what OpenShift admits, NFD, the watcher, and monitoring."""

import functools
from collections.abc import Iterator

import msgspec

from compiler.fleet import clusters, pods
from compiler.planning import images, plan, supported
from compiler.rendering import ir, node_programs, program_configs, programs
from runtime import driver_labels

_WATCHER_PORT = 9512


class Namespace(msgspec.Struct, frozen=True, kw_only=True):
    """The namespace of everything namespaced; privileged: with Pod Security labels."""

    name: str
    privileged: bool


def namespace(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the namespace; it stays in the cluster, as it may hold objects of others."""
    spec = planned.cluster.spec
    yield ir.Input(("namespace",), Namespace(name=spec.namespace, privileged=spec.psa.enabled), kept=True)


class HostAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of a program that OpenShift admits with paths of the node."""

    namespace: str
    accounts: tuple[str, ...]
    """The ServiceAccounts of the pods."""
    name: str
    """The name of the security context constraints, and the stem of other names."""
    as_root: bool
    """True where the pods run as root, outside of SELinux' types for containers."""


_CONSTRAINTS = ("securitycontextconstraints", "role", "rolebinding")


def constraints(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the security context constraints of the node programs, and who may use which.

    The watcher, NFD's master and its garbage collector need none: `restricted-v2` fits them, which every account may
    use.
    """
    spec = planned.cluster.spec
    access = functools.partial(HostAccess, namespace=spec.namespace)
    for one in planned.recipes:
        driver, plugin = one.recipe.driver, one.recipe.device_plugin
        if served := node_programs.installed(one):
            accounts = (driver, *(node_programs.driver_name(division.policy) for division, _ in served))
            yield ir.Input(("rolebinding-privileged",), access(accounts=accounts, name=driver, as_root=True))
        if node_programs.offered(one):
            yield ir.Input(_CONSTRAINTS, access(accounts=(plugin,), name=plugin, as_root=True))
        for program in one.recipe.programs:
            app, deployed = one.recipe.app(program), programs.deployed(one, program)
            if not any(programs.asks_for_more(made.program.data) for _, made in deployed):
                continue
            yield ir.Input(("rolebinding-privileged",), access(accounts=(app,), name=app, as_root=True))
    if spec.nfd.enabled:
        yield ir.Input(_CONSTRAINTS, access(accounts=("nfd-worker",), name="kae-nfd-worker", as_root=False))


class Nfd(msgspec.Struct, frozen=True, kw_only=True):
    """NFD in one cluster: its minor release (16 to 19) decides its arguments and its rights."""

    namespace: str
    spec: clusters.Nfd
    image: str
    minor: int
    terms: tuple[ir.Term, ...]
    """The nodes of the master and of the garbage collector; none means every node."""
    worker_tolerations: tuple[pods.Toleration, ...]
    fixed_user: bool
    """False where pods may not name their users: OpenShift assigns one of the namespace's range, and refuses others."""
    features: str
    """The host's folder in which driver installers tell NFD what is loaded."""


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


def definitions_of_nfd(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the definitions of NFD's kinds; with them, all objects of these kinds would leave the cluster."""
    yield ir.Input(_CRDS, _nfd(planned), kept=not planned.cluster.spec.crd.cleanup)


def nfd(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the programs of NFD and their rights."""
    yield ir.Input(_NFD, _nfd(planned))


def _nfd(planned: plan.Plan) -> Nfd:
    """Return NFD in a cluster; its workers bear what any policy tolerates."""
    cluster, spec = planned.cluster.spec, planned.cluster.spec.nfd
    theirs = (given for division in planned.divisions for given in division.policy.pods.tolerations)
    return Nfd(
        namespace=cluster.namespace,
        spec=spec,
        image=images.mirrored(images.of_nfd(spec.image), cluster.images.mirrors),
        minor=supported.nfd_minor(spec.image.tag) or 0,
        terms=ir.terms(spec.nodeSelector),
        worker_tolerations=tuple(dict.fromkeys((*spec.tolerations, *theirs))),
        fixed_user=cluster.platform != "openshift",
        features=driver_labels.FOLDER,
    )


class Watcher(msgspec.Struct, frozen=True, kw_only=True):
    """The inventory watcher."""

    namespace: str
    spec: clusters.Watcher
    image: str
    terms: tuple[ir.Term, ...]
    """The nodes that take it; none means every node."""
    config: str
    metrics_port: int | None
    fixed_user: bool
    schedule: str | None
    """Of the CronJob; none for a Deployment."""


_WATCHER = (
    *("serviceaccount-kae-watcher", "clusterrole-kae-watcher", "clusterrolebinding-kae-watcher"),
    "workload-kae-watcher",
)


def watcher(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the watcher of a cluster that has one, and its rights."""
    cluster, spec = planned.cluster, planned.cluster.spec.watcher
    repository, port = watched(cluster.spec), watcher_port(cluster.spec)
    if repository is None:
        return
    value = Watcher(
        namespace=cluster.spec.namespace,
        spec=spec,
        image=images.mirrored(spec.image, cluster.spec.images.mirrors),
        terms=ir.terms(spec.nodeSelector),
        config=program_configs.watcher(cluster, repository, port),
        metrics_port=port,
        fixed_user=cluster.spec.platform != "openshift",
        schedule=spec.schedule if spec.mode == "CronJob" else None,
    )
    yield ir.Input(_WATCHER, value)


def watched(spec: clusters.Spec) -> clusters.WatcherRepository | None:
    """Return the repository that the watcher of a cluster commits to; None where there is no watcher."""
    return spec.watcher.repository if spec.watcher.enabled and spec.watcher.secretName is not None else None


def watcher_port(spec: clusters.Spec) -> int | None:
    """Return the port at which the watcher serves metrics; None where nothing asks for them."""
    # A pod of a CronJob is gone before it is scraped.
    is_scraped = spec.monitoring.enabled and spec.watcher.enabled and spec.watcher.mode == "Deployment"
    return _WATCHER_PORT if is_scraped else None


class Monitoring(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the objects for the Prometheus Operator and Grafana: the programs that serve metrics."""

    namespace: str
    cluster: str
    scraped: tuple[str, ...]
    """app.kubernetes.io/name of the pods on nodes that serve metrics, sorted."""
    watcher: bool
    recipes: str
    """A regular expression (RE2) for the names of the recipes, with which the names of their pods begin."""
    whose: str
    """What stands before `driver` in sentences: nothing where there are drivers of other recipes."""


def monitoring(planned: plan.Plan) -> Iterator[ir.Input]:
    """Yield the alerts and the dashboard of a cluster, and what scrapes the programs where some serve metrics."""
    cluster = planned.cluster
    scraped = {
        name
        for policy in (division.policy for division in planned.divisions)
        for name, part in ((policy.recipe.driver, policy.installed), (policy.recipe.device_plugin, policy.offered))
        if part is not None and part.container.metrics_port is not None
    }
    named = [one.recipe.name for one in planned.recipes]
    value = Monitoring(
        namespace=cluster.spec.namespace,
        cluster=cluster.name,
        scraped=tuple(sorted(scraped)),
        watcher=watcher_port(cluster.spec) is not None,
        recipes=f"({'|'.join(named)})" if len(named) > 1 else named[0],
        whose=f"{planned.builtin.recipe.words.software} " if len(named) == 1 else "",
    )
    if scraped or value.watcher:
        yield ir.Input(("podmonitor-kae",), value)
    yield ir.Input(("prometheusrule-kae", "configmap-kae-dashboard"), value)
