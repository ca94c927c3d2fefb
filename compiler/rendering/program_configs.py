"""The config files of the programs: what a policy or a cluster means for each of them.

They are JSON over several lines, as they stand in pod templates that people review.
"""

import json
import re
from collections.abc import Iterable
from typing import Any

from compiler import names, recipes
from compiler.fleet import clusters, definitions, pods
from compiler.formats import canonical
from compiler.planning import images, pools
from runtime import device_plugin_config, driver_config, shapes

_UNITS = {"h": 3600, "m": 60, "s": 1}


def driver(
    cluster: definitions.Cluster,
    division: pools.Division,
    pool: pools.Pool,
    *,
    daemon_set: str,
    leases: tuple[str, ...],
) -> str:
    """Return the driver installer's config in one pool of a policy."""
    policy, spec, namespace, kernels = division.policy, pool.driver, cluster.spec.namespace, pool.kernels
    loaded = spec.modules
    made = {
        "pool": pool.name,
        "daemon_set": driver_config.DaemonSet(namespace=namespace, name=daemon_set),
        "driver_version": images.version(spec.parts),
        "kernels": _kernels(kernels) if kernels else None,
        "modules": tuple(_module(spec, module) for module in loaded),
        "left_out": tuple(module.name for module in spec.declared if module not in loaded),
        "payloads": tuple(driver_config.Payload(name=name, paths=paths) for name, paths in spec.taken.items()),
        "leases": driver_config.Leases(namespace=namespace, names=leases),
        "programs": f"{names.AFTER_LABEL}={policy.recipe.driver}" if division.is_followed else "",
    }
    if spec.sriov:
        # Without its module no functions of a kind can be made.
        kinds = {module.kind for module in loaded}
        made["sriov"] = {kind: count for kind, count in spec.sriov.items() if kind in kinds}
    head = _head(cluster, policy, policy.recipe.kinds, spec.container)
    return _text(spec.shape(**{**_same(spec.shape, spec), **spec.config, **head, **made}))


def device_plugin(cluster: definitions.Cluster, policy: definitions.Policy, plugin: definitions.Plugin) -> str:
    """Return the device plugin's config of a policy."""
    uses = {getattr(resource, "kind", None) for resource in plugin.resources}
    head = _head(cluster, policy, [kind for kind in policy.kinds if kind.name in uses], plugin.container)
    return _text(device_plugin_config.Config(**head, resources=plugin.resources, **plugin.config))


def watcher(cluster: definitions.Cluster, repository: clusters.WatcherRepository, metrics_port: int | None) -> str:
    """Return the watcher's config in a cluster."""
    from runtime import watcher_config  # noqa: PLC0415 - 2 ms for its patterns, which a fleet without a watcher saves

    spec = cluster.spec.watcher
    made = {
        "version": shapes.VERSION,
        "cluster": cluster.name,
        "repository": watcher_config.Repository(**_same(watcher_config.Repository, repository)),
        "interval_seconds": seconds(spec.interval),
        "labels": spec.inventory.labels,
        "author": watcher_config.Author(**_same(watcher_config.Author, spec.author)),
        "signing": spec.signing.format if spec.signing else None,
        "metrics": _metrics(metrics_port),
    }
    return _text(watcher_config.Config(**{**_same(watcher_config.Config, spec), **made}))


def seconds(duration: str) -> int:
    """Return the seconds in a duration such as 1h30m."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]+)([hms])", duration))


def _head(
    cluster: definitions.Cluster, policy: definitions.Policy, kinds: Iterable[recipes.Kind], container: pods.Container
) -> dict[str, Any]:
    return {
        "version": shapes.VERSION,
        "cluster": cluster.name,
        "policy": policy.name,
        "recipe": policy.recipe.name,
        "home": policy.recipe.home,
        "kinds": tuple(shapes.Kind(**_same(shapes.Kind, kind)) for kind in kinds),
        "metrics": _metrics(container.metrics_port),
    }


def _metrics(port: int | None) -> shapes.MetricsEndpoint | None:
    return None if port is None else shapes.MetricsEndpoint(port=port)


def _module(spec: definitions.Driver, module: recipes.Module) -> driver_config.Module:
    parameters = dict(spec.parameters_of(module))
    return driver_config.Module(**{**_same(driver_config.Module, module), "parameters": parameters})


def _same(shape: type[shapes.Shape], value: object) -> dict[str, Any]:
    """Return what a value has by the names, or by the keys, of the fields of a shape."""
    fields = zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True)
    return {name: getattr(value, own) for name, key in fields for own in {name, key} if hasattr(value, own)}


def _text(config: shapes.Shape) -> str:
    return json.dumps(canonical.stated(config), indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def _kernels(one: pools.KernelClass) -> driver_config.Kernels:
    system = one.mapping.os
    return driver_config.Kernels(
        pattern=one.pattern,
        unless=one.unless,
        system=system.id if system else "",
        versions=system.versions if system else (),
    )
