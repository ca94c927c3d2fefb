"""The reader of DevicePolicies: a recipe with the values that the policy gives."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from compiler import recipes
from compiler.fleet import definitions, selectors
from compiler.formats import documents
from compiler.read import parts
from compiler.read import recipe as recipe_reader
from runtime import device_plugin_config, driver_config

_SPEC: documents.Path = ("spec",)


def policy_of(
    document: documents.Document, data: parts.Data, recipe: documents.Document, filled: parts.Data
) -> definitions.Policy:
    """Return the policy in a document that its schema accepts.

    `data` has the defaults of its schema, and `filled` is the spec of its recipe with its values and those of the
    schema of recipes.
    """
    spec = data["spec"]
    images = {name: {**own, **spec["images"].get(name, {})} for name, own in recipe_reader.images(filled).items()}
    plugin = _plugin(spec, filled, images) if "devicePlugin" in filled else None
    offered = tuple(resource.name for resource in plugin.resources) if plugin and plugin.enabled else ()
    driver = _driver(spec, filled, images, offered) if "driver" in filled else None
    # The images of the release that no program takes have no name in the policy.
    named = {*filled["images"], *(driver.images if driver else ()), *((plugin.image,) if plugin else ())}
    clusters, selector = spec.get("clusters"), parts.selector(spec.get("nodeSelector"))
    read = recipe_reader.recipe_of(recipe)
    return definitions.Policy(
        name=definitions.PolicyName(data["metadata"]["name"]),
        recipe=read,
        kinds=read.kinds,
        clusters=None if clusters is None else tuple(clusters),
        is_default=spec["default"],
        selector=selector,
        term=selectors.of(selector),
        pods=parts.settings(spec),
        driver=driver,
        plugin=plugin,
        # Without a driver they change nothing.
        mappings=tuple(parts.mappings(spec["kernelMappings"], ("spec", "kernelMappings"), _overrides))
        if driver
        else (),
        groups=tuple(parts.groups(spec["rollout"], document, ("spec", "rollout"), _overrides, stated=_stated))
        if driver
        else (),
        claims=frozenset(map(_claim, filled.get("claims", ()))),
        source=document,
        recipe_source=recipe,
        written=_written([name for name in images if name in named]),
    )


def _written(images: Sequence[str]) -> definitions.Written:
    return definitions.Written(
        rollout=_SPEC,
        below=("driver",),
        images={name: ("spec", "images", name) for name in images},
        overrides={name: ("images", name) for name in images},
        nouns={name: f"the image '{name}'" for name in images},
        pulls={"driver": _SPEC, "devicePlugin": _SPEC},
        install_policy="installPolicy",
    )


def _overrides(data: parts.Data) -> definitions.Overrides:
    driver = data.get("driver", {})
    modules = driver.get("modules")
    return definitions.Overrides(
        images=data.get("images", {}),
        source=parts.source(driver.get("source")),
        state=driver.get("state"),
        modules=None if modules is None else tuple(modules),
    )


def _stated(data: parts.Data) -> dict[str, Any]:
    """Return what a group says of its nodes and their driver: no field of a driver takes a value of its own."""
    own = {name: value for name, value in data.items() if name not in ("values", "images", "driver")}
    return {**own, **data.get("driver", {}), "images": data.get("images", {})}


def _claim(text: str) -> definitions.Claim:
    """Return a claim that a recipe states: `path:` or `socket:` and a path, or a resource."""
    sort, colon, name = text.partition(":")
    return (sort, name) if colon else ("resource", text)


def _driver(
    spec: parts.Data, filled: parts.Data, images: Mapping[str, definitions.ImageParts], offered: Sequence[str]
) -> definitions.Driver:
    driver, own = spec["driver"], filled["driver"]
    installer = own["image"]
    payloads = _payloads(own["payloads"])
    modules, stated = driver.get("modules"), driver.get("source")
    used = dict.fromkeys((installer, *payloads))
    counting = own.get("version", installer)
    return definitions.Driver(
        **parts.managed(driver, spec["rollout"]),
        has_entries=False,
        images={name: images[name] for name in (*used, counting)},
        installer=installer,
        counting=counting,
        defaults={name: own for name, own in filled["images"].items() if name in used},
        source=msgspec.convert(stated or {own["sources"][0]: {}}, driver_config.Source),
        install_policy=driver["installPolicy"],
        declared=tuple(map(_module, own["modules"])),
        chosen=None if modules is None else tuple(modules),
        parameters=driver["moduleParameters"],
        payloads=payloads,
        files=msgspec.convert(own["files"], tuple[driver_config.HostFiles, ...]),
        nodes=tuple(own["nodes"]),
        resources=tuple(offered),
        network_force=driver["network"]["force"],
        container=parts.container(driver, spec),
    )


def _payloads(declared: Sequence[parts.Data]) -> dict[str, tuple[str, ...]]:
    """Return the paths that are taken out of images, by the image's name; a recipe may list those of one apart."""
    paths: dict[str, dict[str, None]] = {}
    for payload in declared:
        paths.setdefault(payload["image"], {}).update(dict.fromkeys(payload["paths"]))
    return {name: tuple(own) for name, own in paths.items()}


def _module(data: parts.Data) -> recipes.Module:
    return recipes.Module(
        name=data["name"],
        optional=data["optional"],
        replaces=tuple(data["replaces"]),
        network=data["network"],
        parameters=data["parameters"],
    )


def _plugin(spec: parts.Data, filled: parts.Data, images: Mapping[str, definitions.ImageParts]) -> definitions.Plugin:
    plugin, own = spec["devicePlugin"], filled["devicePlugin"]
    return definitions.Plugin(
        enabled=plugin["enabled"],
        image=own["image"],
        parts=images[own["image"]],
        resources=tuple(offered for data in own["resources"] for offered in _resources(data)),
        allocation_policy=plugin["allocationPolicy"],
        max_unavailable=plugin["maxUnavailable"],
        container=parts.container(plugin, spec),
    )


def _resources(data: parts.Data) -> Iterator[device_plugin_config.AnyResource]:
    """Yield a resource of a recipe, and one more for each of its profiles, whose variables are the stronger ones."""
    held = [injection for injection in data["inject"] if injection["when"]]
    yield _resource(data, data["name"], held)
    for profile, variables in sorted(data["profiles"].items()):
        yield _resource(data, f"{data['name']}-{profile}", [*held, {"env": variables}])


def _resource(data: parts.Data, name: str, injections: Sequence[parts.Data]) -> device_plugin_config.AnyResource:
    common: dict[str, Any] = {
        "name": name,
        "requires": tuple(data["requires"]),
        "inject": _injected(injections),
    }
    # A field whose parameter has no value is absent.
    match data["class"]:
        case "token":
            return device_plugin_config.Token(count=data.get("count", 0), shares=data["shares"], **common)
        case "char":
            groups = msgspec.convert(data.get("groups", ()), tuple[device_plugin_config.DeviceGroup, ...])
            return device_plugin_config.Char(groups=groups, shares=data["shares"], **common)
        case "vfio":
            return device_plugin_config.Vfio(kind=data.get("kind", ""), **common)
    return device_plugin_config.Uacce(kind=data.get("kind", ""), shares=data["shares"], **common)


def _injected(injections: Sequence[parts.Data]) -> device_plugin_config.Inject:
    """Return what all of these inject: what two conditions have in common is there once."""
    found: dict[str, Any] = {}
    for name in ("nodes", "mounts", "preload", "files"):
        every = [item for injection in injections for item in injection.get(name, ())]
        found[name] = [item for index, item in enumerate(every) if item not in every[:index]]
    env = {name: value for injection in injections for name, value in injection.get("env", {}).items()}
    return msgspec.convert({**found, "env": env}, device_plugin_config.Inject)
