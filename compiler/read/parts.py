"""The parts that documents of several kinds have alike."""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from compiler.fleet import definitions, pods, selectors
from compiler.formats import documents
from runtime import driver_config, shapes

Data = Mapping[str, Any]
"""A part of a document, with the defaults of its schema."""
Overriding = Callable[[Data], definitions.Overrides]
"""The reader of what a mapping, a wave or a frozen group overrides."""


def selector(data: Data | None) -> selectors.Selector | None:
    """Return a nodeSelector."""
    return None if data is None else msgspec.convert(data, selectors.Selector)


def settings(spec: Data) -> pods.Settings:
    """Return what all pods of a policy have."""
    own = spec["daemonSets"]
    return pods.Settings(
        labels=own["labels"],
        tolerations=msgspec.convert(own["tolerations"], tuple[pods.Toleration, ...]),
        priority_class=own["priorityClassName"],
        kubelet_dir=spec["kubeletDir"],
    )


def container(component: Data, pulled: Data, env: Iterable[Data] = ()) -> pods.Container:
    """Return the container of a component; `pulled` says how its image is pulled."""
    metrics = component["metrics"]
    return pods.Container(
        pull_policy=pulled["pullPolicy"],
        pull_secrets=msgspec.convert(pulled["pullSecrets"], tuple[pods.Reference, ...]),
        resources=msgspec.convert(component["resources"], pods.Resources),
        env=msgspec.convert(tuple(env), tuple[pods.EnvVar, ...]),
        metrics_port=metrics["port"] if metrics["enabled"] else None,
    )


def source(data: Data | None) -> driver_config.Source | None:
    """Return where the driver's modules come from."""
    return None if data is None else msgspec.convert(data, driver_config.Source)


def device_nodes(data: Data | None) -> shapes.DeviceNodes | None:
    """Return who may open the device nodes."""
    return None if data is None else msgspec.convert(data, shapes.DeviceNodes)


def managed(driver: Data, rollout: Data) -> dict[str, Any]:
    """Return the fields of a driver that the languages have alike: its presence, its drain and its pace."""
    return {
        "enabled": driver["enabled"],
        "state": driver["state"],
        "cleans_up": driver["enabledCleanup"],
        "drain": msgspec.convert(driver["drain"], driver_config.Drain),
        "max_parallel": rollout["maxParallel"],
        "max_unavailable": rollout["maxUnavailable"],
        "min_ready_seconds": rollout["minReadySeconds"],
    }


def mappings(
    declared: Iterable[Data], path: documents.Path, overrides: Overriding
) -> Iterator[definitions.KernelMapping]:
    """Yield the kernel mappings in a list of a document."""
    for index, data in enumerate(declared):
        yield definitions.KernelMapping(
            path=(*path, index),
            name=data["name"],
            regexp=data.get("regexp"),
            literal=data.get("literal"),
            kernels=_tuple(data.get("kernels")),
            overrides=overrides(data),
        )


def groups(
    rollout: Data,
    document: documents.Document,
    path: documents.Path,
    overrides: Overriding,
    stated: Callable[[Data], Data],
) -> Iterator[definitions.NodeGroup]:
    """Yield the frozen groups, then the waves of a rollout at a path of a document.

    `stated` returns what a declaration of the document, without defaults, says of its nodes and their driver.
    """
    sorts: tuple[tuple[Literal["frozen", "wave"], str], ...] = (("frozen", "frozen"), ("wave", "waves"))
    for sort, field in sorts:
        for index, data in enumerate(rollout[field]):
            percent = data.get("percent")
            yield definitions.NodeGroup(
                path=(*path, field, index),
                sort=sort,
                name=data["name"],
                nodes=_tuple(data.get("nodes")),
                selector=selector(data.get("inventorySelector")),
                percent=None if percent is None else float(percent),
                clusters=_tuple(data.get("clusters")),
                overrides=overrides(data),
                entry=_digest(stated(document.value((*path, field, index)))),
            )


def _tuple(values: list[str] | None) -> tuple[str, ...] | None:
    return None if values is None else tuple(values)


def _digest(stated: Data) -> str:
    numbers = {"percent": float(stated["percent"])} if "percent" in stated else {}
    return hashlib.sha256(json.dumps({**stated, **numbers}, sort_keys=True).encode()).hexdigest()[:16]
