"""The config files of the programs: what a policy or a cluster means for each of them.

They are JSON over several lines, as they stand in pod templates that people review.
"""

import json
import re
from typing import Any

from compiler import recipes
from compiler.fleet import clusters, definitions
from compiler.planning import images, pools
from runtime import device_plugin_config, driver_config, shapes, watcher_config

_UNITS = {"h": 3600, "m": 60, "s": 1}


def driver(
    cluster: definitions.Cluster,
    policy: definitions.Policy,
    pool: pools.Pool,
    *,
    daemon_set: str,
    leases: tuple[str, ...],
) -> str:
    """Return the driver installer's config in one pool of a policy."""
    spec, namespace = pool.driver, cluster.spec.namespace
    loaded, kernels = spec.modules, pool.kernels
    common = {
        **_head(cluster, policy, spec.container.metrics_port),
        "kinds": tuple(map(_kind, policy.recipe.kinds)),
        "pool": pool.name,
        "daemon_set": driver_config.DaemonSet(namespace=namespace, name=daemon_set),
        "state": spec.state,
        "driver_version": _version(spec.parts),
        "install_policy": spec.install_policy,
        "enabled_cleanup": spec.cleans_up,
        "kernels": driver_config.Kernels(pattern=kernels.pattern, unless=kernels.unless) if kernels else None,
        "source": spec.source,
        "modules": tuple(_module(spec, module) for module in loaded),
        "left_out": tuple(module.name for module in spec.declared if module not in loaded),
        "above": spec.above,
        "related": spec.related,
        "network_force": spec.network_force,
        "payloads": tuple(driver_config.Payload(name=name, paths=paths) for name, paths in spec.payloads.items()),
        "nodes": spec.nodes,
        "files": spec.files,
        "resources": spec.resources,
        "drain": spec.drain,
        "leases": driver_config.Leases(namespace=namespace, names=leases),
    }
    if not spec.has_entries:
        return _text(driver_config.Plain(**common))
    kinds = {module.kind for module in loaded}
    return _text(
        driver_config.Uacce(
            **common,
            present_when=spec.present_when,
            # Without its module no functions of a kind can be made.
            sriov={kind: count for kind, count in spec.sriov.items() if kind in kinds},
            device_nodes=spec.device_nodes,
        )
    )


def device_plugin(cluster: definitions.Cluster, policy: definitions.Policy, plugin: definitions.Plugin) -> str:
    """Return the device plugin's config of a policy."""
    uses = {getattr(resource, "kind", None) for resource in plugin.resources}
    return _text(
        device_plugin_config.Config(
            **_head(cluster, policy, plugin.container.metrics_port),
            kinds=tuple(_kind(kind) for kind in policy.kinds if kind.name in uses),
            resources=plugin.resources,
            allocation_policy=plugin.allocation_policy,
        )
    )


def watcher(cluster: definitions.Cluster, repository: clusters.WatcherRepository, metrics_port: int | None) -> str:
    """Return the watcher's config in a cluster."""
    spec = cluster.spec.watcher
    return _text(
        watcher_config.Config(
            version=shapes.VERSION,
            cluster=cluster.name,
            repository=watcher_config.Repository(url=repository.url, branch=repository.branch, path=repository.path),
            interval_seconds=seconds(spec.interval),
            quiet_seconds=spec.quietSeconds,
            removal_quiet_seconds=spec.removalQuietSeconds,
            min_commit_seconds=spec.minCommitSeconds,
            max_loss_percent=spec.maxLossPercent,
            max_loss_nodes=spec.maxLossNodes,
            labels=spec.inventory.labels,
            ignore_labels=spec.ignoreLabels,
            author=watcher_config.Author(name=spec.author.name, email=spec.author.email),
            message_template=spec.messageTemplate,
            signing=spec.signing.format if spec.signing else None,
            push_options=spec.pushOptions,
            metrics=_metrics(metrics_port),
        )
    )


def seconds(duration: str) -> int:
    """Return the seconds in a duration such as 1h30m."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]+)([hms])", duration))


def _head(cluster: definitions.Cluster, policy: definitions.Policy, metrics_port: int | None) -> dict[str, Any]:
    return {
        "version": shapes.VERSION,
        "cluster": cluster.name,
        "policy": policy.name,
        "recipe": policy.recipe.name,
        "home": policy.recipe.home,
        "metrics": _metrics(metrics_port),
    }


def _metrics(port: int | None) -> shapes.MetricsEndpoint | None:
    return None if port is None else shapes.MetricsEndpoint(port=port)


def _kind(kind: recipes.Kind) -> shapes.Kind:
    return shapes.Kind(
        name=kind.name,
        vendor=kind.vendor,
        devices=kind.devices,
        virtual=kind.virtual,
        classes=kind.classes,
        module=kind.module,
    )


def _module(spec: definitions.Driver, module: recipes.Module) -> driver_config.Module:
    return driver_config.Module(
        name=module.name,
        parameters=dict(spec.parameters_of(module)),
        replaces=module.replaces,
        network=module.network,
    )


def _version(parts: definitions.ImageParts) -> str:
    reference = images.reference(parts)
    return parts["version"] or images.tag(reference) or reference.rpartition("@")[2]


def _text(config: shapes.Shape) -> str:
    return json.dumps(shapes.stated(config), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
