"""Overrides: the fields of a driver that mappings, waves and frozen groups replace for some nodes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

from compiler.fleet import definitions
from compiler.formats import documents
from compiler.model import driver as drivers
from compiler.planning import kernels

FIELDS = ("version", "repository", "image", "source", "state")


def effective(driver: drivers.Driver, *layers: drivers.Overrides | None, kernel: str | None = None) -> drivers.Driver:
    """Return a driver with overrides, the strongest last; `kernel` fills the placeholders in its image."""
    own = definitions.stack(driver)
    if own is not None:
        driver = own = own.overridden(layers)
    fields: dict[str, Any] = {
        field: value
        for layer in layers
        if layer is not None
        for field in FIELDS
        if (value := getattr(layer, field)) is not None
    }
    if kernel is not None:
        for field in ("image", "version"):
            fields[field] = kernels.filled(fields.get(field, getattr(driver, field)), kernel)
        if own is not None:
            fields["images"] = {name: _filled(parts, kernel) for name, parts in own.images.items()}
    return driver.model_copy(update=fields) if fields else driver


def _filled(parts: definitions.ImageParts, kernel: str) -> definitions.ImageParts:
    return {part: kernels.filled(text, kernel) for part, text in parts.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A driver that some nodes may get, with the path of each field that can be overridden."""

    mapping: drivers.KernelMapping | None
    driver: drivers.Driver
    paths: Mapping[str, documents.Path]


def variants(policy: definitions.Policy) -> Iterator[Variant]:
    """Yield every driver that a policy's mappings, waves and frozen groups can make, with or without nodes."""
    top: documents.Path = ("spec", "driver")
    for mapping, group in product(policy.mappings or (None,), (*policy.groups, None)):
        layers: list[tuple[documents.Path, drivers.Overrides]] = [
            *((mapping,) if mapping else ()),
            *((group,) if group else ()),
        ]
        paths = {
            field: next((path for path, layer in reversed(layers) if getattr(layer, field) is not None), top)
            for field in FIELDS
        }
        yield Variant(
            mapping=mapping[1] if mapping else None,
            driver=effective(policy.spec.driver, *(layer for _, layer in layers)),
            paths={field: (*path, field) for field, path in paths.items()},
        )


def is_per_kernel(policy: definitions.Policy, mapping: drivers.KernelMapping) -> bool:
    """Return whether any group's image of a mapping is named after kernels; each kernel then has its own pool."""
    layers = (None, *(group for _, group in policy.groups))
    return any(kernels.named_in(effective(policy.spec.driver, mapping, layer)) for layer in layers)
