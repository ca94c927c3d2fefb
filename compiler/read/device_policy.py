"""The reader of Recipes and of DevicePolicies, which give the values of a recipe's parameters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from compiler import kae, recipes
from compiler.fleet import claims, definitions, pods
from compiler.formats import documents, references
from compiler.read import parts
from runtime import device_plugin_config, driver_config, shapes

_SPEC: documents.Path = ("spec",)


def values(document: documents.Document, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all parameters that a policy gives or that have a default."""
    properties: Mapping[str, Any] = document.data["spec"].get("parameters", {}).get("properties", {})
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema} | dict(given)


def filled(document: documents.Document, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a recipe with the values of a policy in driver and device plugin.

    Programs have theirs later: they differ by pool, and know their cluster.
    """
    spec: Mapping[str, Any] = document.data["spec"]
    known = scope(document, given)
    own = {path: references.filled(part, known) for path, part in references.parts(spec) if path[0] != "programs"}
    made = {str(path[0]): dict(part) for path, part in own.items() if part is not references.ABSENT}
    if "driver" in spec:
        made["driver"] = {**made.get("driver", {}), "modules": spec["driver"]["modules"]}
    return {**spec, **made}


def scope(document: documents.Document, given: Mapping[str, Any]) -> references.Scope:
    """Return the values of a recipe's parameters by the names that references have."""
    return {f"values.{name}": value for name, value in values(document, given).items()}


def recipe_of(document: documents.Document) -> recipes.Recipe:
    """Return the recipe in a document that its schema accepts, as plans and manifests see it."""
    name, match = document.data["metadata"]["name"], document.data["spec"]["match"]
    labels = {key: tuple(allowed) for key, allowed in match.get("labels", {}).items()}

    def kind(data: parts.Data) -> recipes.Kind:
        return msgspec.convert({"devices": (), **data, "recipe": name, "name": data["kind"]}, recipes.Kind)

    if ("features" in match or "any" in match) and "pci" not in match:
        labels = {f"{recipes.DOMAIN}/{name}.present": ("true",)}
    return recipes.Recipe(
        name=name,
        words=recipes.Words(
            software=name,
            devices=f"devices of recipe '{name}'",
            device=f"a device of recipe '{name}'",
            installer=f"A driver installer of '{name}'",
            suffix=f" of recipe '{name}'",
            heading=f"recipe {name}",
        ),
        home=shapes.Home(
            state=f"/var/lib/kae/recipes/{name}",
            run=f"/run/kae/recipes/{name}",
            prefix=f"kae-{name}",
            # A recipe's name has no dot, and a policy's paths have no tilde, so no tree of another recipe begins so.
            tree=f".kae.{name}~",
            # No module's name has a hyphen, so no options file of another recipe begins so.
            options=f"kae-{name}-",
        ),
        folder=name,
        kinds=tuple(map(kind, match.get("pci", ()))),
        labels=tuple(sorted(labels.items())),
        features=msgspec.convert(match.get("features", ()), tuple[recipes.Feature, ...]),
        alternatives=tuple(
            recipes.Alternative(
                kinds=tuple(map(kind, one.get("pci", ()))),
                features=msgspec.convert(one.get("features", ()), tuple[recipes.Feature, ...]),
            )
            for one in match.get("any", ())
        ),
        extended=match.get("extended", {}),
        programs=tuple(program["name"] for program in document.data["spec"].get("programs", ())),
        admission=tuple(document.data["spec"].get("admission", ())),
    )


def images(spec: parts.Data) -> dict[str, definitions.ImageParts]:
    """Return every image of a recipe; those of the programs are KAE's unless the recipe has some of these names."""
    of_programs = {"driver": kae.INSTALLER, "devicePlugin": kae.PLUGIN}
    defaults = {name: kae.program(name) for part, name in of_programs.items() if part in spec}
    return {**defaults, **spec.get("images", {})}


def policy_of(
    document: documents.Document, data: parts.Data, recipe: documents.Document, filled: parts.Data
) -> definitions.Policy:
    """Return the policy in a document that its schema accepts.

    `data` has the defaults of its schema, and `filled` is the spec of its recipe with its values and those of the
    schema of recipes.
    """
    spec = data["spec"]
    every = {name: {**own, **spec["images"].get(name, {})} for name, own in images(filled).items()}
    plugin = _plugin(spec, filled, every) if "devicePlugin" in filled else None
    offered = tuple(resource.name for resource in plugin.resources) if plugin and plugin.enabled else ()
    driver = _driver(spec, filled, every, offered) if "driver" in filled else None
    # The images of the release that no program takes have no name in the policy.
    named = {*filled["images"], *(driver.images if driver else ()), *((plugin.image,) if plugin else ())}
    known = values(recipe, spec["values"])
    programs = tuple(
        _program(spec, own, ("spec", "programs", index), known, every) for index, own in enumerate(filled["programs"])
    )
    read = recipe_of(recipe)
    return parts.policy(
        document,
        data,
        lambda declared: (declared.get("images", {}), declared.get("driver", {}), declared.get("values", {})),
        _stated,
        recipe=read,
        kinds=read.kinds,
        driver=driver,
        plugin=plugin,
        programs=programs,
        claims=frozenset(map(claims.claim, filled.get("claims", ()))),
        recipe_source=recipe,
        written=_written([name for name in every if name in named]),
    )


def _written(images: Sequence[str]) -> definitions.Written:
    return definitions.Written(
        rollout=_SPEC,
        below=("driver",),
        names_images=True,
        images={name: ("spec", "images", name) for name in images},
        overrides={name: ("images", name) for name in images},
        nouns={name: f"the image '{name}'" for name in images},
        pulls={"driver": _SPEC, "devicePlugin": _SPEC},
        install_policy="installPolicy",
    )


def _stated(data: parts.Data) -> dict[str, Any]:
    """Return what a group says of its nodes and what they get."""
    own = {name: value for name, value in data.items() if name not in ("images", "driver")}
    return {**own, **data.get("driver", {}), "images": data.get("images", {})}


def _driver(
    spec: parts.Data, filled: parts.Data, images: Mapping[str, definitions.ImageParts], offered: Sequence[str]
) -> definitions.Driver:
    driver, own = spec["driver"], filled["driver"]
    installer = own["image"]
    payloads = _payloads(own["payloads"])
    used = dict.fromkeys((installer, *payloads))
    counting = own.get("version", installer)
    return parts.driver(
        {
            **driver,
            "source": driver.get("source") or {own["sources"][0]: {}},
            "files": own["files"],
            "nodes": own["nodes"],
        },
        spec["rollout"],
        driver_config.Plain,
        {"resources": tuple(offered), "network_force": driver["network"]["force"]},
        images={name: images[name] for name in (*used, counting)},
        installer=installer,
        counting=counting,
        defaults={name: own for name, own in filled["images"].items() if name in used},
        declared=msgspec.convert(own["modules"], tuple[recipes.Module, ...]),
        chosen=parts.optional(driver.get("modules"), tuple[str, ...]),
        parameters=driver["moduleParameters"],
        payloads=payloads,
        container=parts.container(driver, spec),
    )


def _payloads(declared: Sequence[parts.Data]) -> dict[str, tuple[str, ...]]:
    """Return the paths that are taken out of images, by the image's name; a recipe may list those of one apart."""
    paths: dict[str, dict[str, None]] = {}
    for payload in declared:
        paths.setdefault(payload["image"], {}).update(dict.fromkeys(payload["paths"]))
    return {name: tuple(own) for name, own in paths.items()}


def _plugin(spec: parts.Data, filled: parts.Data, images: Mapping[str, definitions.ImageParts]) -> definitions.Plugin:
    plugin, own = spec["devicePlugin"], filled["devicePlugin"]
    return definitions.Plugin(
        enabled=plugin["enabled"],
        image=own["image"],
        parts=images[own["image"]],
        resources=tuple(offered for data in own["resources"] for offered in _resources(data)),
        max_unavailable=plugin["maxUnavailable"],
        container=parts.container(plugin, spec),
        config=parts.passed(plugin, device_plugin_config.Config),
    )


def _program(
    spec: parts.Data,
    own: parts.Data,
    path: documents.Path,
    known: Mapping[str, Any],
    images: Mapping[str, definitions.ImageParts],
) -> definitions.Program:
    stated = spec.get("programs", {}).get(own["name"], {"enabled": True, "resources": {}})
    return definitions.Program(
        name=own["name"],
        path=path,
        data=own,
        enabled=stated["enabled"],
        values=known,
        images={name: images[name] for name in images_of(own)},
        max_unavailable=stated.get("maxUnavailable"),
        resources={name: msgspec.convert(given, pods.Resources) for name, given in stated["resources"].items()},
        pull=pods.Container(
            pull_policy=spec["pullPolicy"],
            pull_secrets=msgspec.convert(spec["pullSecrets"], tuple[pods.Reference, ...]),
        ),
    )


def images_of(program: parts.Data) -> tuple[str, ...]:
    """Return the names of the images that a program of a recipe needs: its containers' first, then those in texts."""
    named = (name for place in references.places(program, ()) for name in references.names(place.text))
    texts = (name.removeprefix("images.") for name in named if name.startswith("images."))
    return tuple(dict.fromkeys((*(one["image"] for one in containers(program)), *texts)))


def containers(program: parts.Data) -> tuple[parts.Data, ...]:
    """Return the containers of a program of a recipe, in the order in which they start."""
    return (*program["pod"].get("initContainers", ()), *program["pod"]["containers"])


def _resources(data: parts.Data) -> Iterator[device_plugin_config.AnyResource]:
    """Yield a resource of a recipe, and one more for each of its profiles, whose variables are the stronger ones."""
    yield _resource(data, data["name"], data["inject"])
    for profile, variables in sorted(data["profiles"].items()):
        yield _resource(data, f"{data['name']}-{profile}", [*data["inject"], {"env": variables}])


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
