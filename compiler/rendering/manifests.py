"""The manifests of a cluster: its objects, and the value for each template. The last decisions are taken here."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from compiler import devices, names
from compiler.fleet import assignment, definitions, selectors
from compiler.model import base, config
from compiler.planning import images, plan, pools, supported
from compiler.rendering import ir, node_feature_rules, program_configs

WATCHER_METRICS_PORT = 9512
_GRACE_SECONDS = 120
"""Enough to end any step but a build; a step that is cut short is healed by the next start."""
_CLEANUP_SECONDS = 300
"""Enough to remove a driver once its holders are gone."""


def of_cluster(
    item: definitions.Cluster, divisions: Sequence[pools.Division], kubernetes_minor: int | None
) -> tuple[ir.Manifest, ...]:
    """Return every object of a cluster, in the order of its components."""
    policies = tuple(entry.policy for entry in divisions)
    guarded = kubernetes_minor is None or kubernetes_minor >= supported.GUARD_KUBERNETES
    return (
        *_namespace(item),
        *_nfd(item, policies),
        *node_feature_rules.of_cluster(item, divisions),
        *_drivers(item, divisions, guarded=guarded),
        *_device_plugins(item, divisions),
        *_watcher(item),
        *_monitoring(item, policies),
    )


def driver_name(policy_name: str, pool: pools.Pool | None = None) -> str:
    """Return the name of the driver DaemonSet of a policy's pool; without one, the stem of its Leases' names."""
    stem = f"{names.DRIVER}-{policy_name}"
    return stem if pool is None or pool.is_whole else f"{stem}--{pool.name}"


def device_plugin_name(policy_name: str) -> str:
    """Return the name of a policy's device-plugin DaemonSet."""
    return f"{names.DEVICE_PLUGIN}-{policy_name}"


def _namespace(item: definitions.Cluster) -> Iterator[ir.Manifest]:
    if item.spec.namespaceManaged:
        value = ir.Namespace(name=item.spec.namespace, privileged=item.spec.psa.enabled)
        yield ir.Manifest(component="namespace", template="namespace.yaml", value=value)


def _all(component: str, templates: Iterable[str], value: Any) -> Iterator[ir.Manifest]:
    for template in templates:
        yield ir.Manifest(component=component, template=f"{template}.yaml", value=value)


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


def _nfd(item: definitions.Cluster, policies: Sequence[definitions.Policy]) -> Iterator[ir.Manifest]:
    spec = item.spec.nfd
    if spec.enabled:
        own = tuple(toleration(entry) for entry in spec.tolerations)
        theirs = (toleration(entry) for policy in policies for entry in policy.spec.daemonSets.tolerations)
        value = ir.Nfd(
            namespace=item.spec.namespace,
            image=images.mirrored(f"{spec.image.repository}:{spec.image.tag}", item.spec.images.mirrors),
            pull_policy=spec.image.pullPolicy,
            minor=supported.nfd_minor(spec.image.tag) or 0,
            tolerations=own,
            worker_tolerations=tuple(dict.fromkeys((*own, *theirs))),
        )
        yield from _all("crds", _CRDS, value)
        yield from _all("nfd", _NFD, value)


def _drivers(item: definitions.Cluster, divisions: Sequence[pools.Division], *, guarded: bool) -> Iterator[ir.Manifest]:
    served = tuple(entry for entry in divisions if entry.policy.spec.driver.enabled)
    if not served:
        return
    access = ir.DriverAccess(
        namespace=item.spec.namespace,
        leases=tuple(sorted(lease for entry in served for lease in _leases(entry.policy))),
        daemonsets=tuple(driver_name(entry.policy.name, pool) for entry in served for pool in entry.pools),
        evicts=any(entry.policy.spec.driver.drain.enabled for entry in served),
    )
    yield from _all("driver", ("serviceaccount-kae-driver", "role-kae-driver", "rolebinding-kae-driver"), access)
    if access.evicts:
        yield from _all("driver", ("clusterrole-kae-driver", "clusterrolebinding-kae-driver"), access)
        if guarded:
            guard = ir.Guard(namespace=item.spec.namespace)
            templates = ("validatingadmissionpolicy-kae-driver", "validatingadmissionpolicybinding-kae-driver")
            yield from _all("guard", templates, guard)
    for entry in served:
        for pool in entry.pools:
            yield ir.Manifest(component="driver", template="daemonset.yaml", value=_driver_pool(item, entry, pool))


def _driver_pool(item: definitions.Cluster, entry: pools.Division, pool: pools.Pool) -> ir.DriverPool:
    chosen, spec = entry.policy, pool.driver
    name = driver_name(chosen.name, pool)
    itself = config.DaemonSetRef(namespace=item.spec.namespace, name=name)
    label = (entry.label, pool.name) if entry.label else None
    return ir.DriverPool(
        **_pod(item, entry, spec, name),
        terms=tuple(_term(found) for found in plan.serving_terms(entry, devices.OPT_OUT_DRIVER, label)),
        max_unavailable=spec.rollout.maxUnavailable,
        config=program_configs.driver(chosen, pool, cluster_name=item.name, daemonset=itself, leases=_leases(chosen)),
        metrics_port=spec.metrics.port if spec.metrics.enabled else None,
        pool=pool.name,
        state=spec.state,
        env=tuple(ir.EnvVar(name=variable.name, value=variable.value or None) for variable in spec.env),
        min_ready_seconds=spec.rollout.minReadySeconds,
        grace_seconds=spec.drain.timeoutSeconds + _CLEANUP_SECONDS if spec.enabledCleanup else _GRACE_SECONDS,
    )


def _leases(chosen: definitions.Policy) -> tuple[str, ...]:
    stem = driver_name(chosen.name)
    return tuple(f"{stem}-{number}" for number in range(1, chosen.spec.driver.rollout.maxParallel + 1))


def _device_plugins(item: definitions.Cluster, divisions: Sequence[pools.Division]) -> Iterator[ir.Manifest]:
    served = tuple(entry for entry in divisions if entry.policy.spec.devicePlugin.enabled)
    if served:
        account = ir.Namespace(name=item.spec.namespace, privileged=item.spec.psa.enabled)
        yield from _all("device-plugin", ("serviceaccount-kae-device-plugin",), account)
    for entry in served:
        spec = entry.policy.spec.devicePlugin
        name = device_plugin_name(entry.policy.name)
        value = ir.DevicePlugin(
            **_pod(item, entry, spec, name),
            terms=tuple(_term(found) for found in plan.serving_terms(entry, devices.OPT_OUT_DEVICE_PLUGIN)),
            max_unavailable=spec.maxUnavailable,
            config=program_configs.device_plugin(entry.policy, cluster_name=item.name),
            metrics_port=spec.metrics.port if spec.metrics.enabled else None,
            libraries=spec.inject.libraries or spec.inject.opensslConf is not None,
        )
        yield ir.Manifest(component="device-plugin", template="daemonset.yaml", value=value)


def _pod(item: definitions.Cluster, entry: assignment.Assigned, component: base.Component, name: str) -> dict[str, Any]:
    pods = entry.policy.spec.daemonSets
    return {
        "namespace": item.spec.namespace,
        "name": name,
        "policy": entry.policy.name,
        "labels": ir.mapping(pods.labels.items()),
        "tolerations": tuple(toleration(found) for found in pods.tolerations),
        "priority_class": pods.priorityClassName,
        "image": images.of(component, item.spec.images.mirrors),
        "pull_policy": component.pullPolicy,
        "pull_secrets": tuple(ir.Reference(name=secret.name) for secret in component.pullSecrets),
        "resources": _resources(component.resources),
    }


def _resources(found: base.ResourceRequirements) -> ir.Map | None:
    parts = {
        name: ir.mapping((key, str(amount)) for key, amount in amounts.items())
        for name, amounts in (("limits", found.limits), ("requests", found.requests))
        if amounts
    }
    return ir.mapping(parts.items()) if parts else None


def _term(term: selectors.Term) -> ir.Term:
    return ir.Term(
        matchExpressions=tuple(
            ir.Requirement(key=part.key, operator=part.operator, values=part.values or None) for part in term
        )
    )


def toleration(found: base.Toleration) -> ir.Toleration:
    """Return a toleration as it is rendered."""
    return ir.Toleration(
        key=found.key,
        operator=found.operator,
        value=found.value or None,
        effect=found.effect,
        tolerationSeconds=found.tolerationSeconds,
    )


_WATCHER = (
    *("serviceaccount-kae-watcher", "clusterrole-kae-watcher", "clusterrolebinding-kae-watcher"),
    "deployment-kae-watcher",
)


def _watcher(item: definitions.Cluster) -> Iterator[ir.Manifest]:
    spec = item.spec.watcher
    if not spec.enabled or spec.repository is None or spec.secretName is None:
        return
    port = WATCHER_METRICS_PORT if item.spec.monitoring.enabled else None
    value = ir.Watcher(
        namespace=item.spec.namespace,
        image=images.mirrored(spec.image, item.spec.images.mirrors),
        pull_policy="IfNotPresent",
        secret=spec.secretName,
        signing_secret=spec.signing.secretName if spec.signing else None,
        config=program_configs.watcher(item, spec.repository, port),
        metrics_port=port,
    )
    yield from _all("watcher", _WATCHER, value)


def _monitoring(item: definitions.Cluster, policies: Sequence[definitions.Policy]) -> Iterator[ir.Manifest]:
    if not item.spec.monitoring.enabled:
        return
    scraped = tuple(
        ir.MetricsPort(name=name, policy=chosen.name)
        for chosen in policies
        for name, part in (
            (names.DRIVER, chosen.spec.driver),
            (names.DEVICE_PLUGIN, chosen.spec.devicePlugin),
        )
        if part.enabled and part.metrics.enabled
    )
    value = ir.Monitoring(
        namespace=item.spec.namespace, cluster=item.name, scraped=scraped, watcher=item.spec.watcher.enabled
    )
    if scraped or value.watcher:
        yield from _all("monitoring", ("podmonitor-kae",), value)
    yield from _all("monitoring", ("prometheusrule-kae", "configmap-kae-dashboard"), value)
