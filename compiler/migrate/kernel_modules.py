"""A Module of the Kernel Module Management Operator (api/v1beta1/module_types.go) as a Recipe and a DevicePolicy."""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from compiler.formats import documents
from compiler.migrate import drafts, kernel_mappings, reading

_PLUGIN = (
    "A vendor's own device plugin is not run: keep its DaemonSet, or describe its devices in devicePlugin.resources of "
    "the recipe."
)
_CONTAINER = ("moduleLoader", "container")
_MODPROBE = (*_CONTAINER, "modprobe")
_MAPPINGS = (*_CONTAINER, "kernelMappings")
_TLS = "The container runtime of a node pulls images, and its settings name registries without TLS."
_ARGUMENTS = "The driver installer loads and unloads modules without further arguments."

REASONS: reading.Reasons = MappingProxyType(
    {
        ("devicePlugin",): _PLUGIN,
        ("dra",): "A DRA driver is not run: keep its DaemonSet and its DeviceClasses.",
        ("imageRebuildTriggerGeneration",): reading.COUNTED,
        ("moduleLoader", "serviceAccountName"): reading.ACCOUNT,
        (*_CONTAINER, "version"): "Waves of the rollout bring a version to some nodes first, without labels on nodes.",
        (*_MODPROBE, "args"): _ARGUMENTS,
        (*_MODPROBE, "rawArgs"): _ARGUMENTS,
        (*_MODPROBE, "firmwarePath"): "Files go below /opt of the hosts only: bring firmware with their system.",
        **{(*_CONTAINER, field): reading.BUILT for field in ("build", "sign")},
        (*_CONTAINER, "registryTLS"): _TLS,
        **{(*_MAPPINGS, reading.ITEM, field): reading.BUILT for field in ("build", "sign")},
        (*_MAPPINGS, reading.ITEM, "registryTLS"): _TLS,
    }
)
"""The fields that nothing takes."""


def drafted(source: reading.Reading, wanted: drafts.Names) -> tuple[drafts.Draft, ...]:
    """Return the recipe and the policy of a Module; what cannot be said is among the findings of the reading."""
    recipe, policy = begun(source, wanted, "Modules of the KMM Module")
    source.selection(policy, "selector")
    if source.get(dict, "moduleLoader") is None:
        source.wrong(
            "The Module loads no module, and its device plugin is not imported.",
            hint="Keep the Module.",
            code="import-source",
        )
        return ()
    _pods(source, policy)
    _modules(source, recipe, policy)
    fields = kernel_mappings.Fields(
        mappings=_MAPPINGS, image="containerImage", usual=(*_CONTAINER, "containerImage"), known=_known(source)
    )
    image, _ = kernel_mappings.put(source, policy, fields)
    driver(recipe, image, f"{(source.get(str, *_MODPROBE, 'dirName') or '/opt').rstrip('/')}/lib/modules")
    source.stays("The operator unloads them with its Module.")
    return recipe, policy


def driver(recipe: drafts.Draft, image: Mapping[str, str] | None, folder: str) -> None:
    """Put the images of a recipe, and its driver but for the modules, which lie in a folder of the image."""
    if image is not None:
        recipe.put(("spec", "images", "modules"), dict(image))
    recipe.put(("spec", "driver", "version"), "modules")
    recipe.put(("spec", "driver", "payloads"), [{"image": "modules", "paths": [folder]}])


def put_modules(recipe: drafts.Draft, source: reading.Reading, names: Iterable[tuple[str, documents.Path]]) -> None:
    """Put modules in the order of loading, each with the path that names it; the kernel writes `_` for `-`."""
    for index, (name, path) in enumerate(names):
        recipe.put(("spec", "driver", "modules", index, "name"), name.replace("-", "_"), source.origin(*path))


def begun(
    source: reading.Reading, wanted: drafts.Names, title: str, otherwise: str = ""
) -> tuple[drafts.Draft, drafts.Draft]:
    """Return a recipe for every node, and a policy of it, with their names; `otherwise` is for a source without one."""
    recipe, policy = drafts.Draft("Recipe"), drafts.Draft("DevicePolicy")
    name, origin = source.title(wanted, "recipe", otherwise)
    recipe.put(("metadata", "name"), name, origin)
    recipe.put(("spec", "title"), f"{title} {name}")
    recipe.put(("spec", "match", "all"), {})
    policy.put(("metadata", "name"), *source.title(wanted, "policy", otherwise))
    policy.put(("spec", "recipe"), name, origin)
    policy.put(("spec", "clusters"), [wanted.cluster])
    return recipe, policy


def _pods(source: reading.Reading, policy: drafts.Draft) -> None:
    """Put what all pods of the policy have."""
    for ours, kind, path in (
        (("pullPolicy",), str, (*_CONTAINER, "imagePullPolicy")),
        (("daemonSets", "tolerations"), list, ("tolerations",)),
    ):
        policy.put(("spec", *ours), source.get(kind, *path), source.origin(*path))
    secret = source.get(dict, "imageRepoSecret")
    if secret:
        policy.put(("spec", "pullSecrets", 0), secret, source.origin("imageRepoSecret"))


def _modules(source: reading.Reading, recipe: drafts.Draft, policy: drafts.Draft) -> None:
    """Put the modules with what they replace, and their parameters."""
    order = source.texts(*_MODPROBE, "modulesLoadingOrder")
    main = source.get(str, *_MODPROBE, "moduleName")
    paths = reading.numbered(order, *_MODPROBE, "modulesLoadingOrder")
    if main is None:
        source.wrong("The Module names no module.", *_MODPROBE, hint="Name it in moduleName.", code="import-source")
        return
    loaded = paths[::-1] or [(main, (*_MODPROBE, "moduleName"))]
    put_modules(recipe, source, loaded)
    replaced = _replaced(source)
    for name in replaced:
        same = [index for index, (own, _) in enumerate(loaded) if own.replace("-", "_") == name]
        at = ("spec", "driver", "modules", same[0] if same else 0, "replaces")
        others = recipe.data["spec"]["driver"]["modules"][at[3]].get("replaces", [])
        recipe.put((*at, len(others)), name, replaced[name])
    _parameters(source, recipe, policy, (main.replace("-", "_"), len(loaded) - 1))


def _replaced(source: reading.Reading) -> dict[str, documents.Path]:
    """Return the in-tree modules to remove, with their origins; those of a mapping are removed by all of them."""
    mappings = [(*_MAPPINGS, index) for index in range(len(source.get(list, *_MAPPINGS) or ()))]
    found: dict[str, documents.Path] = {}
    for place in ((*_CONTAINER,), *mappings):
        names = source.texts(*place, "inTreeModulesToRemove")
        fields = {name: (*place, "inTreeModulesToRemove", index) for index, name in enumerate(names)}
        old = source.get(str, *place, "inTreeModuleToRemove")
        fields |= {old: (*place, "inTreeModuleToRemove")} if old else {}
        if fields and place in mappings and len(mappings) > 1:
            first = next(iter(fields.values()))
            source.differs("The recipe unloads these modules under every kernel.", *first[: len(place) + 1])
        found |= {name.replace("-", "_"): source.origin(*path) for name, path in fields.items()}
    return found


def _parameters(source: reading.Reading, recipe: drafts.Draft, policy: drafts.Draft, module: tuple[str, int]) -> None:
    """Put the parameters of the main module: their types in the recipe, their values in the policy."""
    name, index = module
    for number, text in enumerate(source.texts(*_MODPROBE, "parameters")):
        path = (*_MODPROBE, "parameters", number)
        key, is_pair, value = text.partition("=")
        if not is_pair:
            source.drop("It is no parameter of a module, but an argument of modprobe.", *path)
            continue
        is_number = re.fullmatch("-?[0-9]{1,18}", value)
        kind = {"type": "integer" if is_number else "string"}
        recipe.put(("spec", "driver", "modules", index, "parameters", key), kind, source.origin(*path))
        at = ("spec", "driver", "moduleParameters", name, key)
        policy.put(at, int(value) if is_number else value, source.origin(*path))


def _known(source: reading.Reading) -> dict[str, str]:
    """Return the values of the placeholders that stand for the Module itself."""
    metadata = source.source.metadata
    known = {"MOD_NAME": metadata.get("name"), "MOD_NAMESPACE": metadata.get("namespace")}
    return {name: value for name, value in known.items() if isinstance(value, str)}
