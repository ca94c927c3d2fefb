"""Overrides: the fields of a driver that mappings, waves and frozen groups replace for some nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from compiler.fleet import definitions
from compiler.formats import documents
from compiler.model import base
from compiler.model import driver as drivers
from compiler.planning import kernels

PARTS = ("repository", "image", "version")
"""The parts of a reference to an image."""

FIELDS = (*PARTS, "source", "state")

Place = tuple[documents.Document, documents.Path]

_Layer = tuple[documents.Path, drivers.Overrides]
"""A mapping, a wave or a frozen group, with its path."""


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
class Image:
    """An image that a policy brings to nodes, and where each part of its reference is written."""

    noun: str
    """The image in sentences: the driver's image, the image 'modules'."""
    parts: definitions.ImageParts
    places: Mapping[str, Place]
    """Of each part: in the policy, or in the recipe, which has the defaults."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A driver that some nodes may get, with the path of each field that can be overridden."""

    mapping: drivers.KernelMapping | None
    driver: drivers.Driver
    paths: Mapping[str, documents.Path]
    """In the policy; those of the image that counts may also be in its recipe."""
    images: tuple[Image, ...]
    """The images of the driver's pods."""


def variants(policy: definitions.Policy) -> Iterator[Variant]:
    """Yield every driver that a policy's mappings, waves and frozen groups can make, with or without nodes."""
    for mapping, group in product(policy.mappings or (None,), (*policy.groups, None)):
        layers = tuple(layer for layer in (mapping, group) if layer is not None)
        driver = effective(policy.spec.driver, *(layer for _, layer in layers))
        stack = definitions.stack(driver)
        paths = _paths(layers, () if stack is None else ("driver",))
        images = (
            [_named(policy, stack.recipe, name, stack.images[name], layers) for name in stack.used] if stack else []
        )
        if stack is not None:
            counting = stack.own.version or stack.own.image
            places = _named(policy, stack.recipe, counting, stack.images[counting], layers).places
            paths.update((part, path) for part, (_, path) in places.items())
        yield Variant(
            mapping=mapping[1] if mapping else None,
            driver=driver,
            paths=paths,
            images=tuple(images) or (_only(policy, "driver", driver, paths),),
        )


def _paths(layers: Sequence[_Layer], below: documents.Path) -> dict[str, documents.Path]:
    """Return the path of each field; mappings, waves and frozen groups have them `below` their own."""
    top: documents.Path = ("spec", "driver")
    found: dict[str, documents.Path] = {}
    for field in FIELDS:
        strong = next((path for path, layer in reversed(layers) if getattr(layer, field) is not None), None)
        found[field] = (*top, field) if strong is None else (*strong, *below, field)
    return found


def of_device_plugin(policy: definitions.Policy) -> Image:
    """Return the image of the device plugin of a policy."""
    plugin = policy.spec.devicePlugin
    stack = definitions.offer(plugin)
    if stack is None or stack.filled.devicePlugin is None:
        return _only(policy, "device plugin", plugin, {part: ("spec", "devicePlugin", part) for part in PARTS})
    return _named(policy, stack.recipe, stack.filled.devicePlugin.image, _parts(plugin), ())


def _parts(component: base.Component) -> definitions.ImageParts:
    return {part: getattr(component, part) for part in PARTS}


def _only(
    policy: definitions.Policy, noun: str, component: base.Component, paths: Mapping[str, documents.Path]
) -> Image:
    places = {part: (policy.source, paths[part]) for part in PARTS}
    return Image(noun=f"the {noun}'s image", parts=_parts(component), places=places)


def _named(
    policy: definitions.Policy,
    recipe: definitions.Recipe,
    name: str,
    parts: definitions.ImageParts,
    layers: Sequence[_Layer],
) -> Image:
    """Return an image of a recipe by its name there."""
    places: dict[str, Place] = {}
    for part in PARTS:
        places[part] = (recipe.source, ("spec", "images", name, part))
        for path in (("spec",), *(path for path, _ in layers)):
            if policy.source.has((*path, "images", name, part)):
                places[part] = (policy.source, (*path, "images", name, part))
    return Image(noun=f"the image '{name}'", parts=parts, places=places)


def is_per_kernel(policy: definitions.Policy, mapping: drivers.KernelMapping) -> bool:
    """Return whether any group's image of a mapping is named after kernels; each kernel then has its own pool."""
    layers = (None, *(group for _, group in policy.groups))
    return any(kernels.named_in(effective(policy.spec.driver, mapping, layer)) for layer in layers)
