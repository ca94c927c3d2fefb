"""The config files of the programs: what a policy or a cluster means for each of them.

They are JSON over several lines, as they stand in pod templates that people review.
"""

import json
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from compiler import devices
from compiler.fleet import definitions
from compiler.model import base, config
from compiler.model import driver as drivers
from compiler.model import policy as policies
from compiler.model import watcher as watchers
from compiler.planning import images, pools

_UNITS = {"h": 3600, "m": 60, "s": 1}


def driver(
    policy: definitions.Policy,
    pool: pools.Pool,
    *,
    cluster_name: str,
    daemonset: config.DaemonSetRef,
    leases: tuple[str, ...],
) -> str:
    """Return the driver installer's config in one pool of a policy."""
    spec = pool.driver
    stack = definitions.stack(spec)
    return _text(
        config.DriverConfig(
            cluster=cluster_name,
            policy=policy.name,
            pool=pool.name,
            daemonSet=daemonset,
            state=spec.state,
            driverVersion=_version(spec),
            enabledCleanup=spec.enabledCleanup,
            kernels=_kernels(pool.kernels) if pool.kernels else None,
            source=spec.source,
            drain=spec.drain,
            leases=config.Lease(namespace=daemonset.namespace, names=leases),
            metrics=_metrics(spec.metrics),
            **(_of_kae(policy, spec) if stack is None else _of_recipes().driver(policy, stack)),
        )
    )


def _of_kae(policy: definitions.Policy, spec: drivers.Driver) -> dict[str, Any]:
    enabled = tuple(kind for kind in policy.kinds if isinstance(kind, devices.Kind))
    environment = {variable.name: variable.value for variable in spec.env}
    return {
        "vendor": devices.VENDOR,
        "kinds": tuple(_kind(kind) for kind in devices.KINDS),
        "installPolicy": "Always" if environment.get("INSTALL_POLICY") == "Always" else "IfNotPresent",
        "presentWhen": "Loaded" if spec.presentWhen == "Loaded" else None,
        "modules": (*devices.BASE_MODULES, *(kind.module for kind in enabled)),
        "moduleParameters": _module_parameters(spec, enabled),
        "sriov": _virtual_functions(spec, enabled),
        "deviceNodes": spec.deviceNodes if spec.deviceNodes != drivers.DeviceNodes() else None,
    }


def _of_recipes() -> ModuleType:
    from compiler.rendering.stacks import configs  # noqa: PLC0415 - projects without DevicePolicies do not need it

    return configs


def device_plugin(policy: definitions.Policy, *, cluster_name: str) -> str:
    """Return the device plugin's config of a policy."""
    spec = policy.spec.devicePlugin
    is_kae = definitions.offer(spec) is None
    return _text(
        config.DevicePluginConfig(
            cluster=cluster_name,
            policy=policy.name,
            allocationPolicy=spec.allocationPolicy,
            metrics=_metrics(spec.metrics),
            **(_offered_by_kae(policy, spec) if is_kae else _of_recipes().device_plugin(policy)),
        )
    )


def _offered_by_kae(policy: definitions.Policy, spec: policies.DevicePlugin) -> dict[str, Any]:
    served = tuple(kind for kind in policy.kinds if isinstance(kind, devices.Kind))
    return {
        "vendor": devices.VENDOR,
        "kinds": tuple(_served(kind, spec) for kind in served),
        "sharing": {kind.name: getattr(spec.sharing, kind.name) for kind in served},
        "inject": spec.inject,
        "deviceNodes": spec.deviceNodes,
    }


def watcher(cluster: definitions.Cluster, repository: watchers.WatcherRepository, metrics_port: int | None) -> str:
    """Return the watcher's config in a cluster."""
    spec = cluster.spec.watcher
    return _text(
        config.WatcherConfig(
            cluster=cluster.name,
            repository=repository,
            intervalSeconds=seconds(spec.interval),
            quietSeconds=spec.quietSeconds,
            removalQuietSeconds=spec.removalQuietSeconds,
            minCommitSeconds=spec.minCommitSeconds,
            maxLossPercent=spec.maxLossPercent,
            maxLossNodes=spec.maxLossNodes,
            labels=spec.inventory.labels,
            ignoreLabels=spec.ignoreLabels,
            author=spec.author,
            messageTemplate=spec.messageTemplate,
            signing=spec.signing.format if spec.signing else None,
            pushOptions=spec.pushOptions,
            metrics=config.MetricsEndpoint(port=metrics_port) if metrics_port else None,
        )
    )


def seconds(duration: str) -> int:
    """Return the seconds in a duration such as 1h30m."""
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]+)([hms])", duration))


def _module_parameters(spec: drivers.Driver, kinds: Iterable[devices.Kind]) -> dict[str, dict[str, int | bool | str]]:
    """Return the parameters of the module of each kind: the policy's over the defaults.

    uacce_mode 1 (shared virtual addresses) is all that the kernel's own modules know; KAE's work with 2.
    """
    mode = 1 if spec.source.inTree is not None else 2
    defaults = {"uacce_mode": mode, "pf_q_num": devices.PF_QUEUES}
    return {kind.module: {**defaults, **spec.moduleParameters.get(kind.module, {})} for kind in kinds}


def _virtual_functions(spec: drivers.Driver, kinds: Iterable[devices.Kind]) -> dict[str, int]:
    """Return the wanted virtual functions of each kind that the policy names: without its module none can be made."""
    wanted = {kind.name: getattr(spec.sriov, kind.name) for kind in kinds}
    return {name: count for name, count in wanted.items() if count is not None}


def _version(spec: drivers.Driver) -> str:
    if spec.version:
        return spec.version
    reference = images.reference(spec)
    return images.tag(reference) or reference.rpartition("@")[2]


def _kernels(taken: pools.KernelClass) -> config.Kernels:
    return config.Kernels(pattern=taken.pattern, unless=taken.unless)


def _kind(kind: devices.Kind) -> config.Kind:
    return config.Kind(name=kind.name, resource=kind.resource, pf=kind.pf, vf=kind.vf, module=kind.module)


def _served(kind: devices.Kind, spec: policies.DevicePlugin) -> config.Kind:
    if getattr(spec.mode, kind.name) == "uacce":
        return _kind(kind)
    return _kind(kind).model_copy(update={"resource": kind.vfio_resource, "mode": "vfio"})


def _metrics(metrics: base.Metrics) -> config.MetricsEndpoint | None:
    return config.MetricsEndpoint(port=metrics.port) if metrics.enabled else None


def _text(model: BaseModel) -> str:
    data = model.model_dump(mode="json", exclude_none=True, by_alias=True)
    for resource in data.get("resources", ()):
        if isinstance(resource, dict):  # Of a recipe's device plugin: whoever reviews it sees what there is.
            resource["inject"] = {name: value for name, value in resource["inject"].items() if value}
    return json.dumps(data, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
