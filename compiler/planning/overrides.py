"""Overrides: the driver that some nodes of a policy get, by its mappings, waves and frozen groups."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import msgspec

from compiler.fleet import definitions
from compiler.formats import documents
from compiler.planning import kernels

PARTS = ("repository", "image", "version")
"""The parts of a reference to an image."""

Place = tuple[documents.Document, documents.Path]
Declared = definitions.Declared


def filled(driver: definitions.Driver, kernel: str | None) -> definitions.Driver:
    """Return a driver with the placeholders in its images filled for a kernel; None fills none."""
    return driver if kernel is None else msgspec.structs.replace(driver, images=filled_images(driver.images, kernel))


def filled_images(images: Mapping[str, definitions.ImageParts], kernel: str) -> Mapping[str, definitions.ImageParts]:
    """Return the parts of images with the placeholders in them filled for a kernel."""
    return {
        name: {part: kernels.filled(text, kernel) for part, text in parts.items()} for name, parts in images.items()
    }


def _written(
    policy: definitions.Policy, layers: Sequence[Declared], below: documents.Path, top: documents.Path
) -> documents.Path | None:
    """Return where the strongest of these writes a value: `below` it, or the policy at `top`; None where none does."""
    paths = (*((*layer.path, *below) for layer in reversed(layers)), top)
    return next((path for path in paths if policy.source.has(path)), None)


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image that a policy brings to nodes, and where each part of its reference is written."""

    name: str
    """In the recipe."""
    noun: str
    """The image in sentences: the driver's image, the image 'modules'."""
    parts: definitions.ImageParts
    policy: definitions.Policy
    layers: Sequence[Declared] = ()

    def place(self, part: str) -> Place:
        """Return where a part is written: in the policy, or in the recipe, which has the defaults."""
        written, recipe = self.policy.written, self.policy.recipe_source
        top = (*written.images[self.name], part)
        path = _written(self.policy, self.layers, (*written.overrides.get(self.name, ()), part), top)
        if path is None and recipe is not None:
            return recipe, ("spec", "images", self.name, part)
        return self.policy.source, path or top


class Variant(msgspec.Struct, frozen=True, kw_only=True):
    """A driver that some nodes may get."""

    policy: definitions.Policy
    mapping: definitions.KernelMapping | None
    group: definitions.NodeGroup | None
    driver: definitions.Driver

    @property
    def layers(self) -> tuple[Declared, ...]:
        """The mapping and the group, the stronger last."""
        return tuple(layer for layer in (self.mapping, self.group) if layer is not None)

    @property
    def images(self) -> tuple[Image, ...]:
        """The images of the driver's pods."""
        return tuple(map(self._image, self.driver.pulled))

    @property
    def counting(self) -> Image:
        """The image whose version is that of the driver."""
        return self._image(self.driver.counting)

    @property
    def source(self) -> documents.Path:
        """The path in the policy of the source of the driver's modules."""
        top = ("spec", "driver", "source")
        return _written(self.policy, self.layers, (*self.policy.written.below, "source"), top) or top

    def _image(self, name: str) -> Image:
        noun, parts = self.policy.written.nouns[name], self.driver.images[name]
        return Image(name=name, noun=noun, parts=parts, policy=self.policy, layers=self.layers)


def variants(policy: definitions.Policy) -> Iterator[Variant]:
    """Yield every driver that a policy's mappings, waves and frozen groups can make, with or without nodes."""
    if policy.driver is not None:
        for mapping, group in product(policy.mappings or (None,), (*policy.groups, None)):
            driver = policy.driver.overridden(mapping, group)
            yield Variant(policy=policy, mapping=mapping, group=group, driver=driver)


def of_plugin(policy: definitions.Policy, plugin: definitions.Plugin) -> Image:
    """Return the image of the device plugin of a policy."""
    return Image(name=plugin.image, noun=policy.written.nouns[plugin.image], parts=plugin.parts, policy=policy)


def of_programs(policy: definitions.Policy) -> Iterator[Image]:
    """Yield every image of the programs of a policy, with the overrides of mappings, waves and frozen groups."""
    for program in policy.programs:
        layered = product(policy.mappings or (None,), (*policy.groups, None)) if program.is_pooled else [(None, None)]
        for layers in layered if program.enabled else ():
            for name, parts in program.overridden(*layers).images.items():
                own = tuple(layer for layer in layers if layer is not None)
                yield Image(name=name, noun=policy.written.nouns[name], parts=parts, policy=policy, layers=own)


def is_per_kernel(policy: definitions.Policy, mapping: definitions.KernelMapping) -> bool:
    """Return whether any group's image of a mapping is named after kernels; each kernel then has its own pool."""
    driver, groups = policy.driver, (None, *policy.groups)
    made = [driver.overridden(mapping, group) for group in groups] if driver else []
    of_programs = [one.overridden(mapping, group) for one in policy.programs if one.is_pooled for group in groups]
    # Also where the driver is removed: its pools keep their names.
    taken = [each.images[name] for each in made for name in (each.installer, *each.payloads)]
    return any(map(kernels.is_named, [*taken, *(parts for each in of_programs for parts in each.images.values())]))
