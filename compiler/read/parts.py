"""The parts that documents of several kinds have alike."""

import functools
import hashlib
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import msgspec

from compiler.fleet import definitions, pods, selectors
from compiler.formats import documents
from runtime import driver_config, shapes

T = TypeVar("T")

Data = Mapping[str, Any]
"""A part of a document, with the defaults of its schema."""
Overriding = Callable[[Data], tuple[Mapping[str, definitions.ImageParts], Data, Data]]
"""Returns the parts of images that a mapping, a wave or a frozen group overrides, its fields of the driver, and its
values of parameters."""

_OTHERWISE = frozenset({*shapes.Config.__struct_fields__, "modules", "payloads", "resources"})
"""Fields of configs that mean something else than the same keys of documents, as the `version` of an image does."""


def policy(
    document: documents.Document,
    data: Data,
    overrides: Overriding,
    stated: Callable[[Data], Data],
    **own: Any,
) -> definitions.Policy:
    """Return a policy with its own parts and those that the languages have alike.

    `stated` returns what a declaration of the document, without defaults, says of its nodes and their driver.
    """
    spec, place = data["spec"], own["written"].rollout
    chosen = optional(spec.get("nodeSelector"), selectors.Selector)
    paced = functools.reduce(operator.getitem, place, data)
    # Without a driver and a program a pool they change nothing.
    has_pools = own["driver"] is not None or any(program.is_pooled for program in own.get("programs", ()))
    return definitions.Policy(
        name=definitions.PolicyName(data["metadata"]["name"]),
        clusters=optional(spec.get("clusters"), tuple[str, ...]),
        is_default=spec["default"],
        selector=chosen,
        term=selectors.of(chosen),
        pods=_settings(spec),
        mappings=tuple(_mappings(paced["kernelMappings"], (*place, "kernelMappings"), overrides)) if has_pools else (),
        groups=tuple(_groups(paced["rollout"], document, (*place, "rollout"), overrides, stated)) if has_pools else (),
        source=document,
        **own,
    )


def optional(data: Any, kind: type[T]) -> T | None:
    """Return a part of a document as a value; None where the document does not have it."""
    return None if data is None else msgspec.convert(data, kind)


def _settings(spec: Data) -> pods.Settings:
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


def passed(data: Data, shape: type[shapes.Config]) -> dict[str, Any]:
    """Return the fields of a program's config that a document has by the same keys, and that mean the same there."""
    return {name: msgspec.convert(data[key], kind) for name, key, kind in _fields(shape) if key in data}


@functools.cache
def _fields(shape: type[shapes.Config]) -> tuple[tuple[str, str, Any], ...]:
    fields = msgspec.structs.fields(shape)
    return tuple((field.name, field.encode_name, field.type) for field in fields if field.name not in _OTHERWISE)


def driver(
    data: Data, rollout: Data, shape: type[driver_config.Driver], config: Mapping[str, Any], **own: Any
) -> definitions.Driver:
    """Return a driver with its own parts, those that the languages have alike, and those that its config has, too.

    `config` are fields of the installer's config that documents say otherwise.
    """
    said = passed(data, shape)
    known = {name: said.pop(name) for name in definitions.Driver.__struct_fields__ if name in said}
    return definitions.Driver(
        enabled=data["enabled"],
        shape=shape,
        config={**said, **config},
        max_parallel=rollout["maxParallel"],
        max_unavailable=rollout["maxUnavailable"],
        min_ready_seconds=rollout["minReadySeconds"],
        **known,
        **own,
    )


def _overrides(images: Mapping[str, definitions.ImageParts], driver: Data, values: Data) -> definitions.Overrides:
    return definitions.Overrides(
        images=images,
        source=optional(driver.get("source"), driver_config.Source),
        state=driver.get("state"),
        modules=optional(driver.get("modules"), tuple[str, ...]),
        values=values,
    )


def _mappings(
    declared: Iterable[Data], path: documents.Path, overrides: Overriding
) -> Iterator[definitions.KernelMapping]:
    for index, data in enumerate(declared):
        yield definitions.KernelMapping(
            path=(*path, index),
            name=data["name"],
            regexp=data.get("regexp"),
            literal=data.get("literal"),
            os=optional(data.get("os"), definitions.System),
            kernels=optional(data.get("kernels"), tuple[str, ...]),
            overrides=_overrides(*overrides(data)),
        )


def _groups(
    rollout: Data,
    document: documents.Document,
    path: documents.Path,
    overrides: Overriding,
    stated: Callable[[Data], Data],
) -> Iterator[definitions.NodeGroup]:
    sorts: tuple[tuple[Literal["frozen", "wave"], str], ...] = (("frozen", "frozen"), ("wave", "waves"))
    for sort, field in sorts:
        for index, data in enumerate(rollout[field]):
            yield definitions.NodeGroup(
                path=(*path, field, index),
                sort=sort,
                name=data["name"],
                nodes=optional(data.get("nodes"), tuple[str, ...]),
                selector=optional(data.get("inventorySelector"), selectors.Selector),
                percent=optional(data.get("percent"), float),
                clusters=optional(data.get("clusters"), tuple[str, ...]),
                overrides=_overrides(*overrides(data)),
                entry=_digest(stated(document.value((*path, field, index)))),
            )


def _digest(stated: Data) -> str:
    numbers = {"percent": float(stated["percent"])} if "percent" in stated else {}
    return hashlib.sha256(json.dumps({**stated, **numbers}, sort_keys=True).encode()).hexdigest()[:16]
