"""The manifests of a cluster: its objects, and the value for each template. The last decisions are taken here."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from compiler import names
from compiler.fleet import definitions, selectors
from compiler.model import base, config
from compiler.model import driver as drivers
from compiler.output import index_file
from compiler.planning import images, pools, supported
from compiler.rendering import ir, node_feature_rules, program_configs

WATCHER_METRICS_PORT = 9512
_GRACE_SECONDS = 120
"""Enough to end any step but a build; a step that is cut short is healed by the next start."""
_CLEANUP_SECONDS = 300
"""Enough to remove a driver once its holders are gone."""


def of_cluster(cluster: definitions.Cluster, divisions: Sequence[pools.Division]) -> tuple[ir.Manifest, ...]:
    """Return every object of a cluster, in the order of its components."""
    policies = tuple(division.policy for division in divisions)
    return (
        *_namespace(cluster),
        *_nfd(cluster, policies),
        *node_feature_rules.of_cluster(cluster, divisions),
        *_drivers(cluster, divisions),
        *_device_plugins(cluster, divisions),
        *_watcher(cluster),
        *_monitoring(cluster, policies),
    )


def frozen_groups(divisions: Iterable[pools.Division]) -> Iterator[index_file.Frozen]:
    """Yield the frozen groups of a cluster, for the record in index.json."""
    for division in divisions:
        for group in division.groups:
            if isinstance(group.declared, drivers.Frozen):
                yield index_file.Frozen(policy=division.policy.name, group=group.name, entry=group.entry)


def driver_name(policy_name: str, pool: pools.Pool | None = None) -> str:
    """Return the name of the driver DaemonSet of a policy's pool; without one, the stem of its Leases' names."""
    stem = f"{names.DRIVER}-{policy_name}"
    return stem if pool is None or pool.is_whole else f"{stem}--{pool.name}"


def device_plugin_name(policy_name: str) -> str:
    """Return the name of a policy's device-plugin DaemonSet."""
    return f"{names.DEVICE_PLUGIN}-{policy_name}"


def _namespace(cluster: definitions.Cluster) -> Iterator[ir.Manifest]:
    if cluster.spec.namespaceManaged:
        value = ir.Namespace(name=cluster.spec.namespace, privileged=cluster.spec.psa.enabled)
        yield ir.Manifest(component="namespace", template="namespace.yaml", value=value, kept=True)


def _all(component: str, templates: Iterable[str], value: Any, *, kept: bool = False) -> Iterator[ir.Manifest]:
    for template in templates:
        yield ir.Manifest(component=component, template=f"{template}.yaml", value=value, kept=kept)


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


def _nfd(cluster: definitions.Cluster, policies: Sequence[definitions.Policy]) -> Iterator[ir.Manifest]:
    spec = cluster.spec.nfd
    if spec.enabled:
        own = tuple(map(toleration, spec.tolerations))
        theirs = (toleration(given) for policy in policies for given in policy.spec.daemonSets.tolerations)
        value = ir.Nfd(
            namespace=cluster.spec.namespace,
            image=images.mirrored(f"{spec.image.repository}:{spec.image.tag}", cluster.spec.images.mirrors),
            pull_policy=spec.image.pullPolicy,
            minor=supported.nfd_minor(spec.image.tag) or 0,
            tolerations=own,
            worker_tolerations=tuple(dict.fromkeys((*own, *theirs))),
        )
        yield from _all("crds", _CRDS, value, kept=not cluster.spec.crd.cleanup)
        yield from _all("nfd", _NFD, value)


def _drivers(cluster: definitions.Cluster, divisions: Sequence[pools.Division]) -> Iterator[ir.Manifest]:
    served = tuple(division for division in divisions if division.policy.spec.driver.enabled)
    yield from _driver_access(cluster.spec.namespace, served, guarded=supported.can_guard(cluster.spec))
    for division in served:
        for pool in division.pools:
            value = _driver_pool(cluster, division.policy, pool)
            yield ir.Manifest(component="driver", template="daemonset.yaml", value=value)


_GUARD = tuple(
    f"{kind}-{name}"
    for name in ("kae-driver", "kae-driver-leases")
    for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
)


def _driver_access(namespace: str, served: Sequence[pools.Division], *, guarded: bool) -> Iterator[ir.Manifest]:
    """Yield the permissions of the installers; those that a cleanup needs outlive their policy.

    An installer that cleans up asks after its policy has left the output. So its policy has a Role of its own: one for
    several policies would still be there, but without its names.
    """
    if not served:
        return
    cleaning = tuple(division for division in served if division.policy.spec.driver.enabledCleanup)
    others = tuple(division for division in served if division not in cleaning)
    roles = (
        *([_role(names.DRIVER, namespace, others)] if others else ()),
        *(_role(driver_name(division.policy.name), namespace, (division,)) for division in cleaning),
    )
    yield from _all("driver", ("serviceaccount-kae-driver",), roles[0], kept=bool(cleaning))
    for role in roles:
        yield from _all("driver", ("role-kae-driver", "rolebinding-kae-driver"), role, kept=role.name != names.DRIVER)
    if any(division.policy.spec.driver.drain.enabled for division in served):
        kept = any(division.policy.spec.driver.drain.enabled for division in cleaning)
        yield from _all("driver", ("clusterrole-kae-driver", "clusterrolebinding-kae-driver"), roles[0], kept=kept)
        if guarded:
            yield from _all("guard", _GUARD, ir.Guard(namespace=namespace), kept=kept)


def _role(name: str, namespace: str, served: Sequence[pools.Division]) -> ir.DriverAccess:
    return ir.DriverAccess(
        name=name,
        namespace=namespace,
        leases=tuple(sorted(lease for division in served for lease in _leases(division.policy))),
        daemonsets=tuple(
            driver_name(division.policy.name, pool)
            for division in served
            if division.policy.spec.driver.enabledCleanup
            for pool in division.pools
        ),
    )


def _driver_pool(cluster: definitions.Cluster, policy: definitions.Policy, pool: pools.Pool) -> ir.DriverPool:
    spec, name, leases = pool.driver, driver_name(policy.name, pool), _leases(policy)
    itself = config.DaemonSetRef(namespace=cluster.spec.namespace, name=name)
    return ir.DriverPool(
        **_pod(cluster, policy, spec, name),
        image=pool.image,
        terms=tuple(map(_term, pool.terms)),
        max_unavailable=spec.rollout.maxUnavailable,
        config=program_configs.driver(policy, pool, cluster_name=cluster.name, daemonset=itself, leases=leases),
        metrics_port=spec.metrics.port if spec.metrics.enabled else None,
        pool=pool.name,
        state=spec.state,
        env=tuple(ir.EnvVar(name=variable.name, value=_literal(variable.value)) for variable in spec.env),
        credentials_secret=(spec.source.build or spec.source.packages or drivers.BuildSource()).credentialsSecret,
        min_ready_seconds=spec.rollout.minReadySeconds,
        grace_seconds=spec.drain.timeoutSeconds + _CLEANUP_SECONDS if spec.enabledCleanup else _GRACE_SECONDS,
    )


def _literal(value: str) -> str | None:
    """Return what the kubelet expands to a value, which else would take $(NAME) for a variable; None for none.

    It turns "$$" into "$" anywhere: `Expand` in Kubernetes' third_party/forked/golang/expansion/expand.go.
    """
    return value.replace("$", "$$") or None


def _leases(policy: definitions.Policy) -> tuple[str, ...]:
    stem = driver_name(policy.name)
    return tuple(f"{stem}-{number}" for number in range(1, policy.spec.driver.rollout.maxParallel + 1))


def _device_plugins(cluster: definitions.Cluster, divisions: Sequence[pools.Division]) -> Iterator[ir.Manifest]:
    served = tuple(division for division in divisions if division.policy.spec.devicePlugin.enabled)
    if served:
        account = ir.Namespace(name=cluster.spec.namespace, privileged=cluster.spec.psa.enabled)
        yield from _all("device-plugin", ("serviceaccount-kae-device-plugin",), account)
    for division in served:
        spec = division.policy.spec.devicePlugin
        name = device_plugin_name(division.policy.name)
        value = ir.DevicePlugin(
            **_pod(cluster, division.policy, spec, name),
            image=division.device_plugin_image,
            terms=tuple(map(_term, division.device_plugin_terms)),
            max_unavailable=spec.maxUnavailable,
            config=program_configs.device_plugin(division.policy, cluster_name=cluster.name),
            metrics_port=spec.metrics.port if spec.metrics.enabled else None,
            libraries=spec.inject.libraries or spec.inject.opensslConf is not None,
        )
        yield ir.Manifest(component="device-plugin", template="daemonset.yaml", value=value)


def _pod(
    cluster: definitions.Cluster, policy: definitions.Policy, component: base.Component, name: str
) -> dict[str, Any]:
    pods = policy.spec.daemonSets
    return {
        "namespace": cluster.spec.namespace,
        "name": name,
        "policy": policy.name,
        "labels": ir.mapping(pods.labels.items()),
        "tolerations": tuple(map(toleration, pods.tolerations)),
        "priority_class": pods.priorityClassName,
        "kubelet_dir": policy.spec.kubeletDir,
        "pull_policy": component.pullPolicy,
        "pull_secrets": tuple(ir.Reference(name=secret.name) for secret in component.pullSecrets),
        "resources": _resources(component.resources),
    }


def _resources(requirements: base.ResourceRequirements) -> ir.Map | None:
    parts = {
        name: ir.mapping((key, str(amount)) for key, amount in amounts.items())
        for name, amounts in (("limits", requirements.limits), ("requests", requirements.requests))
        if amounts
    }
    return ir.mapping(parts.items()) if parts else None


def _term(term: selectors.Term) -> ir.Term:
    return ir.Term(
        matchExpressions=tuple(
            ir.Requirement(key=part.key, operator=part.operator, values=part.values or None) for part in term
        )
    )


def toleration(given: base.Toleration) -> ir.Toleration:
    """Return a toleration as it is rendered."""
    return ir.Toleration(
        key=given.key,
        operator=given.operator,
        value=given.value or None,
        effect=given.effect,
        tolerationSeconds=given.tolerationSeconds,
    )


_WATCHER = (
    *("serviceaccount-kae-watcher", "clusterrole-kae-watcher", "clusterrolebinding-kae-watcher"),
    "deployment-kae-watcher",
)


def _watcher(cluster: definitions.Cluster) -> Iterator[ir.Manifest]:
    spec = cluster.spec.watcher
    if not spec.enabled or spec.repository is None or spec.secretName is None:
        return
    port = WATCHER_METRICS_PORT if cluster.spec.monitoring.enabled else None
    value = ir.Watcher(
        namespace=cluster.spec.namespace,
        image=images.mirrored(spec.image, cluster.spec.images.mirrors),
        pull_policy="IfNotPresent",
        secret=spec.secretName,
        signing_secret=spec.signing.secretName if spec.signing else None,
        config=program_configs.watcher(cluster, spec.repository, port),
        metrics_port=port,
    )
    yield from _all("watcher", _WATCHER, value)


def _monitoring(cluster: definitions.Cluster, policies: Sequence[definitions.Policy]) -> Iterator[ir.Manifest]:
    if not cluster.spec.monitoring.enabled:
        return
    scraped = tuple(
        ir.MetricsPort(name=name, policy=policy.name)
        for policy in policies
        for name, part in (
            (names.DRIVER, policy.spec.driver),
            (names.DEVICE_PLUGIN, policy.spec.devicePlugin),
        )
        if part.enabled and part.metrics.enabled
    )
    value = ir.Monitoring(
        namespace=cluster.spec.namespace, cluster=cluster.name, scraped=scraped, watcher=cluster.spec.watcher.enabled
    )
    if scraped or value.watcher:
        yield from _all("monitoring", ("podmonitor-kae",), value)
    yield from _all("monitoring", ("prometheusrule-kae", "configmap-kae-dashboard"), value)
