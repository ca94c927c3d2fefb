"""The manifests of a cluster: its objects, and the value for each template. The last decisions are taken here."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from compiler import devices, recipes
from compiler.fleet import definitions
from compiler.model import base, config
from compiler.model import driver as drivers
from compiler.output import index_file
from compiler.planning import pools, supported
from compiler.rendering import (
    cluster_programs,
    ir,
    network_policies,
    node_feature_rules,
    pod_values,
    program_configs,
)

_GRACE_SECONDS = 120
"""Enough to end any step but a build; a step that is cut short is healed by the next start."""
_CLEANUP_SECONDS = 300
"""Enough to remove a driver once its holders are gone."""


def of_cluster(cluster: definitions.Cluster, divisions: Sequence[pools.Division]) -> tuple[ir.Manifest, ...]:
    """Return every object of a cluster, in the order of its components."""
    policies = tuple(division.policy for division in divisions)
    return (
        *_namespace(cluster),
        *cluster_programs.constraints(cluster, policies),
        *network_policies.of_cluster(cluster, divisions),
        *cluster_programs.nfd(cluster, policies),
        *node_feature_rules.of_cluster(cluster, divisions),
        *(manifest for recipe, own in _by_recipe(divisions) for manifest in _node_programs(recipe, cluster, own)),
        *cluster_programs.watcher(cluster),
        *_monitoring(cluster, policies),
    )


def frozen_groups(divisions: Iterable[pools.Division]) -> Iterator[index_file.Frozen]:
    """Yield the frozen groups of a cluster, for the record in index.json."""
    for division in divisions:
        for group in division.groups:
            if isinstance(group.declared, drivers.Frozen):
                yield index_file.Frozen(policy=division.policy.name, group=group.name, entry=group.entry)


def driver_name(policy: definitions.Policy, pool: pools.Pool | None = None) -> str:
    """Return the name of the driver DaemonSet of a policy's pool; without one, the stem of its Leases' names."""
    stem = f"{policy.recipe.driver}-{policy.name}"
    return stem if pool is None or pool.is_whole else f"{stem}--{pool.name}"


def device_plugin_name(policy: definitions.Policy) -> str:
    """Return the name of a policy's device-plugin DaemonSet."""
    return f"{policy.recipe.device_plugin}-{policy.name}"


def _by_recipe(divisions: Iterable[pools.Division]) -> Iterator[tuple[recipes.Recipe, tuple[pools.Division, ...]]]:
    """Yield each recipe with its divisions, in the order of the recipes' first divisions."""
    found: dict[str, list[pools.Division]] = {}
    for division in divisions:
        found.setdefault(division.policy.recipe.name, []).append(division)
    yield from ((own[0].policy.recipe, tuple(own)) for own in found.values())


def _namespace(cluster: definitions.Cluster) -> Iterator[ir.Manifest]:
    if cluster.spec.namespaceManaged:
        value = ir.Namespace(name=cluster.spec.namespace, privileged=cluster.spec.psa.enabled)
        yield ir.Manifest(component="namespace", template="namespace.yaml", value=value, kept=True)


def _node_programs(
    recipe: recipes.Recipe, cluster: definitions.Cluster, divisions: Sequence[pools.Division]
) -> Iterator[ir.Manifest]:
    """Yield the drivers and device plugins of a recipe; but for KAE's, their folder has the recipe's name."""
    for manifest in (*_drivers(recipe, cluster, divisions), *_device_plugins(recipe, cluster, divisions)):
        is_own = recipe is not devices.KAE and manifest.component in ("driver", "device-plugin")
        yield replace(manifest, folder=recipe.name) if is_own else manifest


def _drivers(
    recipe: recipes.Recipe, cluster: definitions.Cluster, divisions: Sequence[pools.Division]
) -> Iterator[ir.Manifest]:
    served = tuple(division for division in divisions if division.policy.spec.driver.enabled)
    yield from _driver_access(recipe, cluster.spec.namespace, served, guarded=supported.can_guard(cluster.spec))
    for division in served:
        for pool in division.pools:
            value = _driver_pool(cluster, division.policy, pool)
            yield ir.Manifest(component="driver", template="daemonset.yaml", value=value)


_GUARD = tuple(
    f"{kind}-{name}"
    for name in ("kae-driver", "kae-driver-leases")
    for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
)


def _driver_access(
    recipe: recipes.Recipe, namespace: str, served: Sequence[pools.Division], *, guarded: bool
) -> Iterator[ir.Manifest]:
    """Yield the permissions of a recipe's installers; those that a cleanup needs outlive their policy.

    An installer that cleans up asks after its policy has left the output. So its policy has a Role of its own: one for
    several policies would still be there, but without its names.
    """
    if not served:
        return
    cleaning = tuple(division for division in served if division.policy.spec.driver.enabledCleanup)
    others = tuple(division for division in served if division not in cleaning)
    roles = (
        *([_role(recipe.driver, namespace, others)] if others else ()),
        *(_role(driver_name(division.policy), namespace, (division,)) for division in cleaning),
    )
    yield from ir.manifests("driver", ("serviceaccount-kae-driver",), roles[0], kept=bool(cleaning))
    for role in roles:
        yield from ir.manifests(
            "driver", ("role-kae-driver", "rolebinding-kae-driver"), role, kept=role.name != recipe.driver
        )
    if any(division.policy.spec.driver.drain.enabled for division in served):
        kept = any(division.policy.spec.driver.drain.enabled for division in cleaning)
        yield from ir.manifests(
            "driver", ("clusterrole-kae-driver", "clusterrolebinding-kae-driver"), roles[0], kept=kept
        )
        if guarded:
            installer = "A KAE driver installer" if recipe is devices.KAE else f"A driver installer of '{recipe.name}'"
            guard = ir.Guard(account=recipe.driver, namespace=namespace, installer=installer)
            yield from ir.manifests("guard", _GUARD, guard, kept=kept)


def _role(name: str, namespace: str, served: Sequence[pools.Division]) -> ir.DriverAccess:
    return ir.DriverAccess(
        account=served[0].policy.recipe.driver,
        name=name,
        namespace=namespace,
        leases=tuple(sorted(lease for division in served for lease in _leases(division.policy))),
        daemonsets=tuple(
            driver_name(division.policy, pool)
            for division in served
            if division.policy.spec.driver.enabledCleanup
            for pool in division.pools
        ),
    )


def _driver_pool(cluster: definitions.Cluster, policy: definitions.Policy, pool: pools.Pool) -> ir.DriverPool:
    spec, name, leases = pool.driver, driver_name(policy, pool), _leases(policy)
    stack = definitions.stack(spec)
    itself = config.DaemonSetRef(namespace=cluster.spec.namespace, name=name)
    return ir.DriverPool(
        **_pod(cluster, policy, spec, name),
        app=policy.recipe.driver,
        image=pool.installer,
        payloads=tuple(_of_recipes().payloads(stack, pool)) if stack else (),
        # Also of modules that the policy leaves out: a node may still have them.
        node_address=stack is not None and any(module.network for module in stack.own.modules),
        terms=tuple(map(pod_values.term, pool.terms)),
        max_unavailable=spec.rollout.maxUnavailable,
        config=program_configs.driver(policy, pool, cluster_name=cluster.name, daemonset=itself, leases=leases),
        metrics_port=spec.metrics.port if spec.metrics.enabled else None,
        pool=pool.name,
        state=spec.state,
        env=pod_values.environment(spec.env),
        credentials_secret=(spec.source.build or spec.source.packages or drivers.BuildSource()).credentialsSecret,
        min_ready_seconds=spec.rollout.minReadySeconds,
        grace_seconds=spec.drain.timeoutSeconds + _CLEANUP_SECONDS if spec.enabledCleanup else _GRACE_SECONDS,
    )


def _leases(policy: definitions.Policy) -> tuple[str, ...]:
    stem = driver_name(policy)
    return tuple(f"{stem}-{number}" for number in range(1, policy.spec.driver.rollout.maxParallel + 1))


def _device_plugins(
    recipe: recipes.Recipe, cluster: definitions.Cluster, divisions: Sequence[pools.Division]
) -> Iterator[ir.Manifest]:
    served = tuple(division for division in divisions if division.policy.spec.devicePlugin.enabled)
    if served:
        account = ir.Account(name=recipe.device_plugin, namespace=cluster.spec.namespace)
        yield from ir.manifests("device-plugin", ("serviceaccount-kae-device-plugin",), account)
    for division in served:
        yield ir.Manifest(component="device-plugin", template="daemonset.yaml", value=_device_plugin(cluster, division))


def _device_plugin(cluster: definitions.Cluster, division: pools.Division) -> ir.DevicePlugin:
    policy, spec = division.policy, division.policy.spec.devicePlugin
    return ir.DevicePlugin(
        **_pod(cluster, policy, spec, device_plugin_name(policy)),
        app=policy.recipe.device_plugin,
        run_dir=policy.recipe.run_dir,
        image=division.device_plugin_image,
        terms=tuple(map(pod_values.term, division.device_plugin_terms)),
        max_unavailable=spec.maxUnavailable,
        config=program_configs.device_plugin(policy, cluster_name=cluster.name),
        metrics_port=spec.metrics.port if spec.metrics.enabled else None,
        folders=_folders(policy),
        device_nodes=spec.deviceNodes is not None,
        device_group=spec.deviceNodes.group if spec.deviceNodes is not None else None,
    )


def _folders(policy: definitions.Policy) -> tuple[ir.HostFolder, ...]:
    """Return the folder above KAE's libraries, as the installer's /opt/kae is a link beside them, or a recipe's."""
    spec = policy.spec.devicePlugin
    stack, inject = definitions.offer(spec), spec.inject
    if stack is not None:
        paths = _of_recipes().folders(policy, stack)
        return tuple(ir.HostFolder(name=f"host-{number}", path=path) for number, path in enumerate(paths, start=1))
    if not inject.libraries:
        return ()
    parent = inject.librariesPath.rpartition("/")[0] if inject.librariesPath else "/opt"
    return (ir.HostFolder(name="libraries", path=parent),)


def _of_recipes() -> ModuleType:
    from compiler.rendering.stacks import pods  # noqa: PLC0415 - projects without DevicePolicies do not need it

    return pods


def _pod(
    cluster: definitions.Cluster, policy: definitions.Policy, component: base.Component, name: str
) -> dict[str, Any]:
    pods = policy.spec.daemonSets
    return {
        "namespace": cluster.spec.namespace,
        "name": name,
        "recipe": policy.recipe.name,
        "policy": policy.name,
        "labels": ir.mapping(pods.labels.items()),
        "tolerations": tuple(map(pod_values.toleration, pods.tolerations)),
        "priority_class": pods.priorityClassName,
        "kubelet_dir": policy.spec.kubeletDir,
        "pull_policy": component.pullPolicy,
        "pull_secrets": pod_values.references(component.pullSecrets),
        "resources": pod_values.resources(component.resources),
    }


def _monitoring(cluster: definitions.Cluster, policies: Sequence[definitions.Policy]) -> Iterator[ir.Manifest]:
    if not cluster.spec.monitoring.enabled:
        return
    scraped = tuple(
        ir.MetricsPort(name=name, policy=policy.name)
        for policy in policies
        for name, part in (
            (policy.recipe.driver, policy.spec.driver),
            (policy.recipe.device_plugin, policy.spec.devicePlugin),
        )
        if part.enabled and part.metrics.enabled
    )
    others = sorted({policy.recipe.name for policy in policies} - {devices.KAE.name})
    value = ir.Monitoring(
        namespace=cluster.spec.namespace,
        cluster=cluster.name,
        scraped=scraped,
        watcher=cluster_programs.serves_metrics(cluster.spec),
        recipes=f"({'|'.join([devices.KAE.name, *others])})" if others else "kae",
        whose="" if others else "KAE ",
    )
    if scraped or value.watcher:
        yield from ir.manifests("monitoring", ("podmonitor-kae",), value)
    yield from ir.manifests("monitoring", ("prometheusrule-kae", "configmap-kae-dashboard"), value)
