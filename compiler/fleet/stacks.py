"""DevicePolicies in the terms of KAEPolicies, so that the same code makes pools, plans and manifests of both.

A DevicePolicy sets images and modules of its recipe, which mappings, waves and frozen groups may override: here they
are more fields of the driver and of its overrides. `repository`, `image` and `version` of the driver are those of
the image whose version counts.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from pydantic import Field

from compiler import recipes, release
from compiler.fleet import definitions, recipe_values
from compiler.model import base
from compiler.model import driver as drivers
from compiler.model import policy as policies
from compiler.model.stacks import device_policy, fields
from compiler.model.stacks import driver as recipe_drivers
from compiler.model.stacks import recipe as recipe_model


class Overrides(base.Model):
    """The fields that a part of a policy's nodes has instead, beside those of a KAEPolicy."""

    images: Mapping[str, definitions.ImageParts] = Field(default_factory=dict)
    """Images by their names in the recipe."""
    modules: tuple[str, ...] | None = None


class KernelMapping(Overrides, drivers.KernelMapping):
    """A kernel mapping of a DevicePolicy."""


class Wave(Overrides, drivers.Wave):
    """A wave of a DevicePolicy."""


class Frozen(Overrides, drivers.Frozen):
    """A frozen group of a DevicePolicy."""


class Driver(drivers.Driver):
    """The driver of a DevicePolicy, with the images and modules that its nodes get."""

    recipe: definitions.Recipe
    filled: recipe_model.RecipeSpec
    """The recipe with the values of the policy in their places."""
    images: Mapping[str, definitions.ImageParts]
    """Every image of the recipe by its name, with all three parts."""
    chosen: tuple[str, ...] | None
    """The modules that the policy names; None for all that are not optional."""
    parameters: Mapping[str, Mapping[str, bool | int | str]]
    """Module, parameter and value: `moduleParameters` of the document."""
    always: bool
    """Replace a driver that others installed."""
    network_force: bool

    @property
    def own(self) -> recipe_drivers.RecipeDriver:
        """The driver of the recipe."""
        if self.filled.driver is None:
            raise ValueError(f"recipe {self.recipe.name} has no driver")
        return self.filled.driver

    @property
    def installer(self) -> definitions.ImageParts:
        """The image of the driver installer."""
        return self.images[self.own.image]

    @property
    def modules(self) -> tuple[recipe_drivers.RecipeModule, ...]:
        """The modules that its nodes get, in the order of loading."""
        chosen = {module.name for module in self.own.modules if not module.optional}
        wanted = chosen if self.chosen is None else set(self.chosen)
        return tuple(module for module in self.own.modules if module.name in wanted)

    @property
    def payloads(self) -> Mapping[str, tuple[str, ...]]:
        """The paths that its pods take out of images, by the image's name; the recipe may list those of one apart."""
        names = dict.fromkeys(payload.image for payload in self.own.payloads)
        paths = [(payload.image, path) for payload in self.own.payloads for path in payload.paths]
        return {name: tuple(dict.fromkeys(path for image, path in paths if image == name)) for name in names}

    @property
    def used(self) -> tuple[str, ...]:
        """The names of all images of its pods."""
        return (self.own.image, *self.payloads)

    def overridden(self, layers: Iterable[object]) -> Self:
        """Return the driver with the images and modules of overrides, the strongest last.

        They have no values: no field of a driver takes one (`override-unused`).
        """
        images, chosen = dict(self.images), self.chosen
        for layer in layers:
            if isinstance(layer, Overrides):
                images |= {name: {**images[name], **parts} for name, parts in layer.images.items()}
                chosen = chosen if layer.modules is None else layer.modules
        own = images[self.own.version or self.own.image]
        return self.model_copy(update={"images": images, "chosen": chosen, **own})


class DevicePlugin(policies.DevicePlugin):
    """The device plugin of a DevicePolicy."""

    recipe: definitions.Recipe
    filled: recipe_model.RecipeSpec
    """The recipe with the values of the whole policy in their places."""


def spec_of(recipe: definitions.Recipe, model: device_policy.DevicePolicySpec) -> policies.KAEPolicySpec:
    """Return the spec of a DevicePolicy of this recipe in the terms of a KAEPolicy."""
    filled = recipe_values.filled(recipe, model.values)
    images = {name: {**parts, **_parts(model.images.get(name))} for name, parts in _images(filled).items()}
    pulled = {"pullPolicy": model.pullPolicy, "pullSecrets": model.pullSecrets}
    return policies.KAEPolicySpec.model_construct(
        clusters=model.clusters,
        nodeSelector=model.nodeSelector,
        default=model.default,
        kubeletDir=model.kubeletDir,
        daemonSets=model.daemonSets,
        operator=policies.Operator(),
        driver=_driver(recipe, filled, images, model, pulled),
        devicePlugin=_plugin(recipe, filled, images, model, pulled),
    )


def _images(filled: recipe_model.RecipeSpec) -> dict[str, definitions.ImageParts]:
    """Return every image of a recipe; those of the programs are KAE's unless the recipe has some of these names."""
    parts = {fields.INSTALLER_IMAGE: filled.driver, fields.PLUGIN_IMAGE: filled.devicePlugin}
    defaults = {name: program(name) for name, part in parts.items() if part is not None}
    return {**defaults, **{name: image.model_dump() for name, image in filled.images.items()}}


def program(name: str) -> definitions.ImageParts:
    """Return KAE's image for a program of a recipe, by the name that it has in recipes."""
    image = {fields.INSTALLER_IMAGE: "kae-driver-installer", fields.PLUGIN_IMAGE: "kae-device-plugin"}[name]
    return {"repository": base.REPOSITORY, "image": image, "version": release.version(image)}


def _driver(
    recipe: definitions.Recipe,
    filled: recipe_model.RecipeSpec,
    images: Mapping[str, definitions.ImageParts],
    model: device_policy.DevicePolicySpec,
    pulled: Mapping[str, Any],
) -> drivers.Driver:
    if filled.driver is None:
        return drivers.Driver(enabled=False)
    spec = model.driver
    image = images[filled.driver.version or filled.driver.image]
    return Driver.model_construct(
        **_component(spec, drivers.Managed, {**image, **pulled}),
        env=(),
        presentWhen="Serving",
        source=spec.source or drivers.Source.model_validate({filled.driver.sources[0]: {}}),
        kernelMappings=tuple(_layer(KernelMapping, mapping) for mapping in model.kernelMappings),
        moduleParameters={},
        sriov=drivers.Sriov(),
        deviceNodes=drivers.DeviceNodes(),
        rollout=_rollout(model.rollout),
        recipe=recipe,
        filled=filled,
        images=images,
        chosen=spec.modules,
        parameters=spec.moduleParameters,
        always=spec.installPolicy == "Always",
        network_force=spec.network.force,
    )


def _plugin(
    recipe: definitions.Recipe,
    filled: recipe_model.RecipeSpec,
    images: Mapping[str, definitions.ImageParts],
    model: device_policy.DevicePolicySpec,
    pulled: Mapping[str, Any],
) -> policies.DevicePlugin:
    if filled.devicePlugin is None:
        return policies.DevicePlugin(enabled=False)
    return DevicePlugin.model_construct(
        **_component(model.devicePlugin, policies.Offer, {**images[filled.devicePlugin.image], **pulled}),
        mode=policies.Modes(),
        sharing=policies.Sharing(),
        inject=policies.Inject(),
        deviceNodes=None,
        recipe=recipe,
        filled=filled,
    )


def _component(
    given: device_policy.StackDriver | device_policy.StackPlugin, kept: type[base.Model], image: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the fields that a driver and a device plugin have alike, and those of `kept`, which documents share."""
    own = {name: getattr(given, name) for name in kept.model_fields}
    return {**own, **image, "enabled": given.enabled, "resources": given.resources}


def _rollout(given: device_policy.StackRollout) -> drivers.Rollout:
    return drivers.Rollout.model_construct(
        **{name: getattr(given, name) for name in drivers.Pace.model_fields},
        waves=tuple(_layer(Wave, wave) for wave in given.waves),
        frozen=tuple(_layer(Frozen, frozen) for frozen in given.frozen),
    )


def _parts(image: device_policy.ImageOverride | None) -> dict[str, str]:
    return image.model_dump(exclude_none=True) if image else {}


def _layer(model: type[base.Model], given: Any) -> Any:
    """Return a mapping, a wave or a frozen group with its overrides of the driver beside those of images."""
    kept = {name: getattr(given, name) for name in given.model_fields_set if name in model.model_fields}
    own = {name: getattr(given.driver, name) for name in given.driver.model_fields_set}
    return model.model_construct(**kept | own | {"images": {name: _parts(one) for name, one in given.images.items()}})


def value_of(recipe: definitions.Recipe) -> recipes.Recipe:
    """Return a recipe as plans and manifests see it."""
    match = recipe_model.Match.model_validate(recipe.source.data["spec"]["match"])
    blank = recipes.Recipe(name=recipe.name, devices=f"devices of recipe '{recipe.name}'")
    if match.pci is not None:
        return dataclasses.replace(blank, kinds=tuple(_kind(recipe, kind) for kind in match.pci))
    if match.features is not None:
        features = tuple((one.feature, tuple(_conditions(one))) for one in match.features)
        return dataclasses.replace(blank, labels=((blank.present, ("true",)),), features=features)
    return dataclasses.replace(blank, labels=tuple(sorted((match.labels or {}).items())))


def _conditions(feature: recipe_model.Feature) -> Iterator[recipes.Condition]:
    for attribute, term in sorted(feature.matchExpressions.items()):
        yield recipes.Condition(attribute=attribute, operator=term.op, values=term.value)


def _kind(recipe: definitions.Recipe, kind: recipe_model.PciKind) -> recipes.Kind:
    return recipes.Kind(
        recipe=recipe.name,
        name=kind.kind,
        vendor=kind.vendor,
        devices=kind.devices,
        virtual=kind.virtual,
        classes=kind.classes,
    )
