"""Kernel modules of two operators as a Recipe and a DevicePolicy.

The one is the Kernel Module Management Operator, with its Module (api/v1beta1/module_types.go); the other the Special
Resource Operator before it, with its SpecialResource or values of its chart, for charts in the shape of simple-kmod.
The charts' templates are not read. Sources: charts/example/simple-kmod-0.0.1 and api/v1beta1 of the operator.
"""

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

MODULE: reading.Reasons = MappingProxyType(
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
"""The fields of a Module that nothing takes."""

_CHART = "Templates of charts are not read: driver and devices of a recipe are its fields."
_PUSHED = (
    "The modules come from an image for each kernel, below /lib/modules: the one that the chart's build has pushed."
)
_UNNAMED = "The modules come from an image for each kernel, below /lib/modules: name yours in the recipe."
_REGISTRY = "image-registry.openshift-image-registry.svc:5000"
"""OpenShift's own registry, to which the chart's BuildConfig pushes an image for each kernel."""

_VALUES = {
    "buildArgs": reading.BUILT,
    "kind": "",  # The operator wants these two in every `set`.
    "apiVersion": "",
    reading.ANY: "It is a value for the chart's templates, which are not read.",
}

SPECIAL_RESOURCE: reading.Reasons = MappingProxyType(
    {
        ("chart",): _CHART,
        ("debug",): "",
        ("dependencies",): "A recipe has no others that come before it: bring them by documents of their own.",
        ("driverContainer",): reading.BUILT,
        ("forceUpgrade",): "A changed image or version is an upgrade, and nothing else is.",
        ("managementState",): "Nothing manages objects in the cluster: what is in git is applied.",
        ("namespace",): reading.NAMESPACE,
        **{("set", name): why for name, why in _VALUES.items()},
    }
)
"""The fields of a SpecialResource that nothing takes."""

VALUES: reading.Reasons = MappingProxyType({(name,): why for name, why in _VALUES.items()})
"""Those of values alone."""


def of_module(source: reading.Reading, wanted: drafts.Names) -> tuple[drafts.Draft, ...]:
    """Return the recipe and the policy of a Module; what cannot be said is among the findings of the reading."""
    recipe, policy = _begun(source, wanted, "Modules of the KMM Module")
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
    _put_driver(recipe, image, f"{(source.get(str, *_MODPROBE, 'dirName') or '/opt').rstrip('/')}/lib/modules")
    source.stays("The operator unloads them with its Module.")
    return recipe, policy


def of_special_resource(source: reading.Reading, wanted: drafts.Names) -> tuple[drafts.Draft, ...]:
    """Return the recipe and the policy of a SpecialResource or of its chart's values, as `of_module` does."""
    values: documents.Path = ("set",) if source.source.identity else ()
    modules = source.texts(*values, "kmodNames")
    if not modules:
        source.wrong(
            f"{source.name(*values, 'kmodNames')} names no kernel module, and templates of charts are not read.",
            *values,
            "kmodNames",
            hint="Write a recipe: docs/recipes.md begins with one.",
            code="import-source",
        )
        return ()
    recipe, policy = _begun(source, wanted, "Modules of the SpecialResource", modules[0])
    source.selection(policy, "nodeSelector")
    _put_modules(recipe, source, reading.numbered(modules, *values, "kmodNames"))
    source.differs(_PUSHED if source.source.identity else _UNNAMED, *values, "kmodNames")
    _pushed_image(source, recipe)
    policy.put(("spec", "kernelMappings"), [{"name": "kernels", "regexp": ".+"}])
    if source.source.identity:
        source.stays("The operator's driver container unloads them when it stops.")
    return recipe, policy


def _pushed_image(source: reading.Reading, recipe: drafts.Draft) -> None:
    """Put the image that the chart's build has pushed; values alone do not name it."""
    namespace = source.source.options.get("namespace") if source.source.identity else None
    repository = f"{_REGISTRY}/{namespace}" if isinstance(namespace, str) else "registry.example.com/drivers"
    name = source.source.metadata.get("name", recipe.data["metadata"]["name"])
    image = {"repository": repository, "image": f"{name}-driver-container", "version": "v${KERNEL_FULL_VERSION}"}
    _put_driver(recipe, image, "/lib/modules")


def _put_driver(recipe: drafts.Draft, image: Mapping[str, str] | None, folder: str) -> None:
    """Put the images of a recipe, and its driver but for the modules, which lie in a folder of the image."""
    if image is not None:
        recipe.put(("spec", "images", "modules"), dict(image))
    recipe.put(("spec", "driver", "version"), "modules")
    recipe.put(("spec", "driver", "payloads"), [{"image": "modules", "paths": [folder]}])


def _put_modules(recipe: drafts.Draft, source: reading.Reading, names: Iterable[tuple[str, documents.Path]]) -> None:
    """Put modules in the order of loading, each with the path that names it; the kernel writes `_` for `-`."""
    for index, (name, path) in enumerate(names):
        recipe.put(("spec", "driver", "modules", index, "name"), name.replace("-", "_"), source.origin(*path))


def _begun(
    source: reading.Reading, wanted: drafts.Names, title: str, otherwise: str = ""
) -> tuple[drafts.Draft, drafts.Draft]:
    """Return a recipe for every node, and a policy of it, with their names; `otherwise` is for a source without one."""
    recipe, policy = (drafts.Draft(kind, source.source.document) for kind in ("Recipe", "DevicePolicy"))
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
    source.carry(policy, ("spec", "pullPolicy"), str, *_CONTAINER, "imagePullPolicy")
    source.carry(policy, ("spec", "daemonSets", "tolerations"), list, "tolerations")
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
    _put_modules(recipe, source, loaded)
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
