"""The parts of the programs' configs that recipes of documents have, in place of those of KAE."""

from collections.abc import Iterable, Iterator
from typing import Any

from compiler import recipes
from compiler.fleet import definitions, offers, stacks
from compiler.model import config
from compiler.model.stacks import driver as recipe_drivers
from compiler.model.stacks import resources


def driver(policy: definitions.Policy, spec: stacks.Driver) -> dict[str, Any]:
    """Return the fields of a driver installer's config that differ from KAE's."""
    own = spec.own
    return {
        "recipe": policy.recipe.name,
        "class_": "none",
        "kinds": tuple(map(_kind, policy.kinds)),
        "installPolicy": "Always" if spec.always else "IfNotPresent",
        "modules": tuple(module.name for module in spec.modules),
        "moduleParameters": dict(_parameters(spec)),
        "moduleRules": dict(_rules(spec.modules)) or None,
        "leftOut": tuple(module.name for module in own.modules if module not in spec.modules) or None,
        "networkForce": spec.network_force or None,
        "payloads": tuple(config.Payload(name=name, paths=paths) for name, paths in spec.payloads.items()) or None,
        "nodes": own.nodes or None,
        "files": tuple(config.HostFiles(from_=file.from_, to=file.to) for file in own.files) or None,
        "resources": tuple(offer.name for offer in offers.of(policy)) or None,
    }


def device_plugin(policy: definitions.Policy) -> dict[str, Any]:
    """Return the fields of a device plugin's config that differ from KAE's."""
    offered = tuple(offers.of(policy))
    kinds = {offer.resource.kind for offer in offered}
    return {
        "recipe": policy.recipe.name,
        "kinds": tuple(_kind(kind) for kind in policy.kinds if kind.name in kinds),
        "resources": tuple(map(_resource, offered)),
    }


def _kind(kind: recipes.Kind) -> config.Kind:
    return config.Kind(
        name=kind.name,
        vendor=kind.vendor,
        devices=kind.devices or None,
        virtual=kind.virtual or None,
        classes=kind.classes or None,
    )


def _parameters(spec: stacks.Driver) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parameters of each module that the policy sets, over the defaults of the recipe."""
    for module in spec.modules:
        defaults = {name: schema["default"] for name, schema in module.parameters.items() if "default" in schema}
        if values := {**defaults, **spec.parameters.get(module.name, {})}:
            yield module.name, values


def _rules(modules: Iterable[recipe_drivers.RecipeModule]) -> Iterator[tuple[str, config.ModuleRule]]:
    for module in modules:
        if module.replaces or module.network:
            yield module.name, config.ModuleRule(replaces=module.replaces, network=module.network)


def _resource(offer: offers.Offer) -> config.PluginResource:
    resource = offer.resource
    common: dict[str, Any] = {
        "name": offer.name,
        "requires": resource.requires,
        "inject": _inject(offer.injections),
    }
    match resource.class_:
        case "token":
            return config.TokenResource(class_="token", count=resource.count or 0, shares=resource.shares, **common)
        case "char":
            return config.CharResource(class_="char", groups=resource.groups or (), shares=resource.shares, **common)
        case "vfio":
            return config.VfioResource(class_="vfio", kind=resource.kind or "", **common)
        case "uacce":
            return config.UacceResource(class_="uacce", kind=resource.kind or "", shares=resource.shares, **common)


def _inject(parts: Iterable[resources.RecipeInjection]) -> config.ResourceInject:
    parts = tuple(parts)
    return config.ResourceInject(
        # What two conditions have in common is there once; what differs at one place is refused in the recipe.
        nodes=tuple(dict.fromkeys(node for part in parts for node in part.nodes)),
        mounts=tuple(dict.fromkeys(mount for part in parts for mount in part.mounts)),
        env={name: value for part in parts for name, value in part.env.items()},
        preload=tuple(dict.fromkeys(library for part in parts for library in part.preload)),
        files=tuple(dict.fromkeys(file for part in parts for file in part.files)),
    )
