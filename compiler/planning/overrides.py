"""Overrides: what of a driver is another one for some nodes, field by field."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product

from compiler.fleet import definitions
from compiler.formats import documents
from compiler.model import driver as drivers
from compiler.planning import kernels

FIELDS = ("version", "repository", "image", "source", "state")


def effective(driver: drivers.Driver, *layers: drivers.Overrides | None, kernel: str | None = None) -> drivers.Driver:
    """The driver with overrides, the strongest last, field by field; `kernel` fills what its image is named after."""
    found = {
        field: value
        for layer in layers
        if layer is not None
        for field in FIELDS
        if (value := getattr(layer, field)) is not None
    }
    if kernel is not None:
        for field in ("image", "version"):
            found[field] = kernels.filled(found.get(field, getattr(driver, field)), kernel)
    return driver.model_copy(update=found) if found else driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """The driver as some nodes may get it, and where each field that may be overridden is written."""

    mapping: drivers.KernelMapping | None
    driver: drivers.Driver
    paths: Mapping[str, documents.Path]


def variants(policy: definitions.Policy) -> Iterator[Variant]:
    """Every driver that a policy's mappings, waves and frozen groups make, whichever nodes there are."""
    top: documents.Path = ("spec", "driver")
    for mapping, group in product(policy.mappings or (None,), (*policy.groups, None)):
        given: list[tuple[documents.Path, drivers.Overrides]] = [
            *((mapping,) if mapping else ()),
            *((group,) if group else ()),
        ]
        paths = {
            field: next((path for path, found in reversed(given) if getattr(found, field) is not None), top)
            for field in FIELDS
        }
        yield Variant(
            mapping=mapping[1] if mapping else None,
            driver=effective(policy.spec.driver, *(found for _, found in given)),
            paths={field: (*path, field) for field, path in paths.items()},
        )


def is_per_kernel(policy: definitions.Policy, mapping: drivers.KernelMapping) -> bool:
    """Whether images of a mapping are named after kernels, in any group: then each kernel has a pool of its own."""
    layers = (None, *(group for _, group in policy.groups))
    return any(kernels.named_in(effective(policy.spec.driver, mapping, layer)) for layer in layers)
