"""The manifests of a cluster: its objects, and the value for each template. The last decisions are taken here."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from compiler import recipes
from compiler.fleet import definitions, pods
from compiler.output import index_file
from compiler.planning import plan, pools, supported
from compiler.rendering import (
    cluster_programs,
    host_paths,
    ir,
    network_policies,
    node_feature_rules,
    pod_values,
    program_configs,
)
from runtime import driver_config

_GRACE_SECONDS = 120
"""Enough to end any step but a build; a step that is cut short is healed by the next start."""
_CLEANUP_SECONDS = 300
"""Enough to remove a driver once its holders are gone."""


def of_plan(planned: plan.Plan) -> tuple[ir.Manifest, ...]:
    """Return every object of a cluster, in the order of its components."""
    cluster, divisions = planned.cluster, planned.divisions
    policies = tuple(division.policy for division in divisions)
    return (
        *_namespace(cluster),
        *cluster_programs.constraints(cluster, policies),
        *network_policies.of_cluster(cluster, divisions),
        *cluster_programs.nfd(cluster, policies),
        *node_feature_rules.of_plan(planned),
        *(manifest for one in planned.recipes for manifest in _node_programs(one.recipe, cluster, one.divisions)),
        *cluster_programs.watcher(cluster),
        *_monitoring(planned),
    )


def frozen_groups(divisions: Iterable[pools.Division]) -> Iterator[index_file.Frozen]:
    """Yield the frozen groups of a cluster, for the record in index.json."""
    for division in divisions:
        for group in division.groups:
            if group.declared is not None and group.declared.is_frozen:
                yield index_file.Frozen(policy=division.policy.name, group=group.name, entry=group.declared.entry)


def driver_name(policy: definitions.Policy, pool: pools.Pool | None = None) -> str:
    """Return the name of the driver DaemonSet of a policy's pool; without one, the stem of its Leases' names."""
    stem = f"{policy.recipe.driver}-{policy.name}"
    return stem if pool is None or pool.is_whole else f"{stem}--{pool.name}"


def device_plugin_name(policy: definitions.Policy) -> str:
    """Return the name of a policy's device-plugin DaemonSet."""
    return f"{policy.recipe.device_plugin}-{policy.name}"


def _namespace(cluster: definitions.Cluster) -> Iterator[ir.Manifest]:
    if cluster.spec.namespaceManaged:
        value = ir.Namespace(name=cluster.spec.namespace, privileged=cluster.spec.psa.enabled)
        yield ir.Manifest(component="namespace", template="namespace.yaml", value=value, kept=True)


def _node_programs(
    recipe: recipes.Recipe, cluster: definitions.Cluster, divisions: Sequence[pools.Division]
) -> Iterator[ir.Manifest]:
    """Yield the drivers and device plugins of a recipe; but for the built-in one, their folder has its name."""
    for manifest in (*_drivers(recipe, cluster, divisions), *_device_plugins(recipe, cluster, divisions)):
        is_own = not recipe.builtin and manifest.component in ("driver", "device-plugin")
        yield msgspec.structs.replace(manifest, folder=recipe.name) if is_own else manifest


_Served = tuple[pools.Division, definitions.Driver]
"""A policy of a cluster with the driver that it brings."""


def _drivers(
    recipe: recipes.Recipe, cluster: definitions.Cluster, divisions: Sequence[pools.Division]
) -> Iterator[ir.Manifest]:
    served = [(division, driver) for division in divisions if (driver := division.policy.installed)]
    yield from _driver_access(recipe, cluster.spec.namespace, served, guarded=supported.can_guard(cluster.spec))
    for division, _ in served:
        for pool in division.pools:
            value = _driver_pool(cluster, division.policy, pool)
            yield ir.Manifest(component="driver", template="daemonset.yaml", value=value)


_GUARD = tuple(
    f"{kind}-{name}"
    for name in ("kae-driver", "kae-driver-leases")
    for kind in ("validatingadmissionpolicy", "validatingadmissionpolicybinding")
)


def _driver_access(
    recipe: recipes.Recipe, namespace: str, served: Sequence[_Served], *, guarded: bool
) -> Iterator[ir.Manifest]:
    """Yield the permissions of a recipe's installers; those that a cleanup needs outlive their policy.

    An installer that cleans up asks after its policy has left the output. So its policy has a Role of its own: one for
    several policies would still be there, but without its names.
    """
    if not served:
        return
    cleaning = [one for one in served if one[1].cleans_up]
    others = [one for one in served if not one[1].cleans_up]
    roles = (
        *([_role(recipe.driver, namespace, others)] if others else ()),
        *(_role(driver_name(one[0].policy), namespace, [one]) for one in cleaning),
    )
    yield from ir.manifests("driver", ("serviceaccount-kae-driver",), roles[0], kept=bool(cleaning))
    for role in roles:
        yield from ir.manifests(
            "driver", ("role-kae-driver", "rolebinding-kae-driver"), role, kept=role.name != recipe.driver
        )
    if any(driver.drain.enabled for _, driver in served):
        kept = any(driver.drain.enabled for _, driver in cleaning)
        yield from ir.manifests(
            "driver", ("clusterrole-kae-driver", "clusterrolebinding-kae-driver"), roles[0], kept=kept
        )
        if guarded:
            guard = ir.Guard(account=recipe.driver, namespace=namespace, installer=recipe.words.installer)
            yield from ir.manifests("guard", _GUARD, guard, kept=kept)


def _role(name: str, namespace: str, served: Sequence[_Served]) -> ir.DriverAccess:
    return ir.DriverAccess(
        account=served[0][0].policy.recipe.driver,
        name=name,
        namespace=namespace,
        leases=tuple(sorted(lease for division, driver in served for lease in _leases(division.policy, driver))),
        daemonsets=tuple(
            driver_name(division.policy, pool)
            for division, driver in served
            if driver.cleans_up
            for pool in division.pools
        ),
    )


def _driver_pool(cluster: definitions.Cluster, policy: definitions.Policy, pool: pools.Pool) -> ir.DriverPool:
    driver, name = pool.driver, driver_name(policy, pool)
    images = dict(pool.images)
    return ir.DriverPool(
        **_pod(cluster, policy, driver.container, name),
        app=policy.recipe.driver,
        image=images[driver.installer],
        payloads=tuple(host_paths.payloads(driver, images)),
        # Also of modules that the policy leaves out: a node may still have them.
        node_address=any(module.network for module in driver.declared),
        terms=tuple(map(pod_values.term, pool.terms)),
        max_unavailable=driver.max_unavailable,
        config=program_configs.driver(cluster, policy, pool, daemon_set=name, leases=tuple(_leases(policy, driver))),
        pool=pool.name,
        state=driver.state,
        env=pod_values.environment(driver.container.env),
        credentials_secret=(driver.source.build or driver.source.packages or _NOWHERE).credentials_secret,
        min_ready_seconds=driver.min_ready_seconds,
        grace_seconds=driver.drain.timeout_seconds + _CLEANUP_SECONDS if driver.cleans_up else _GRACE_SECONDS,
    )


_NOWHERE = driver_config.Build()


def _leases(policy: definitions.Policy, driver: definitions.Driver) -> Iterator[str]:
    stem = driver_name(policy)
    return (f"{stem}-{number}" for number in range(1, driver.max_parallel + 1))


def _device_plugins(
    recipe: recipes.Recipe, cluster: definitions.Cluster, divisions: Sequence[pools.Division]
) -> Iterator[ir.Manifest]:
    served = [(division, plugin) for division in divisions if (plugin := division.policy.offered)]
    if served:
        account = ir.Account(name=recipe.device_plugin, namespace=cluster.spec.namespace)
        yield from ir.manifests("device-plugin", ("serviceaccount-kae-device-plugin",), account)
    for division, plugin in served:
        value = _device_plugin(cluster, division, plugin)
        yield ir.Manifest(component="device-plugin", template="daemonset.yaml", value=value)


def _device_plugin(
    cluster: definitions.Cluster, division: pools.Division, plugin: definitions.Plugin
) -> ir.DevicePlugin:
    policy, nodes = division.policy, plugin.device_nodes
    return ir.DevicePlugin(
        **_pod(cluster, policy, plugin.container, device_plugin_name(policy)),
        app=policy.recipe.device_plugin,
        run_dir=policy.recipe.home.run,
        image=division.device_plugin_image,
        terms=tuple(map(pod_values.term, division.device_plugin_terms)),
        max_unavailable=plugin.max_unavailable,
        config=program_configs.device_plugin(cluster, policy, plugin),
        folders=tuple(host_paths.folders(policy, plugin)),
        device_nodes=nodes is not None,
        device_group=nodes.group if nodes is not None else None,
    )


def _pod(
    cluster: definitions.Cluster, policy: definitions.Policy, container: pods.Container, name: str
) -> dict[str, Any]:
    return {
        "namespace": cluster.spec.namespace,
        "name": name,
        "recipe": policy.recipe.name,
        "policy": policy.name,
        "labels": ir.mapping(policy.pods.labels.items()),
        "tolerations": policy.pods.tolerations,
        "priority_class": policy.pods.priority_class,
        "kubelet_dir": policy.pods.kubelet_dir,
        "pull_policy": container.pull_policy,
        "pull_secrets": container.pull_secrets,
        "resources": pod_values.resources(container.resources),
        "metrics_port": container.metrics_port,
    }


def _monitoring(planned: plan.Plan) -> Iterator[ir.Manifest]:
    cluster = planned.cluster
    if not cluster.spec.monitoring.enabled:
        return
    scraped = tuple(
        ir.MetricsPort(name=name, policy=policy.name)
        for policy in (division.policy for division in planned.divisions)
        for name, part in ((policy.recipe.driver, policy.installed), (policy.recipe.device_plugin, policy.offered))
        if part is not None and part.container.metrics_port is not None
    )
    named = [one.recipe.name for one in planned.recipes]
    value = ir.Monitoring(
        namespace=cluster.spec.namespace,
        cluster=cluster.name,
        scraped=scraped,
        watcher=cluster_programs.serves_metrics(cluster.spec),
        recipes=f"({'|'.join(named)})" if len(named) > 1 else named[0],
        whose=f"{planned.recipes[0].recipe.words.software} " if len(named) == 1 else "",
    )
    if scraped or value.watcher:
        yield from ir.manifests("monitoring", ("podmonitor-kae",), value)
    yield from ir.manifests("monitoring", ("prometheusrule-kae", "configmap-kae-dashboard"), value)
