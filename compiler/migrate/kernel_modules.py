"""Kernel modules of three operators as a DevicePolicy, and as a Recipe where none is shipped for them.

The first is the Kernel Module Management Operator, with its Module (api/v1beta1/module_types.go). The second is the
Special Resource Operator before it, with its SpecialResource or values of its chart, for charts in the shape of
simple-kmod; the charts' templates are not read. Sources: charts/example/simple-kmod-0.0.1 and api/v1beta1 of the
operator. The third is Onload's operator, with its Onload (api/v1alpha1/onload_types.go), for the recipe onload.
"""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import msgspec

from compiler.formats import documents
from compiler.migrate import plugin_pods, translation
from compiler.migrate.translation import Draft, Names, Source

_CONTAINER = ("moduleLoader", "container")
_MODPROBE = (*_CONTAINER, "modprobe")
_MAPPINGS = (*_CONTAINER, "kernelMappings")
_TLS = "The container runtime of a node pulls images, and its settings name registries without TLS."
_ARGUMENTS = "The driver installer loads and unloads modules without further arguments."

MODULE: translation.Reasons = MappingProxyType(
    {
        **plugin_pods.REASONS,
        ("dra",): "A DRA driver is not run: keep its DaemonSet and its DeviceClasses.",
        ("imageRebuildTriggerGeneration",): translation.COUNTED,
        ("moduleLoader", "serviceAccountName"): translation.ACCOUNT,
        (*_CONTAINER, "version"): "Waves of the rollout bring a version to some nodes first, without labels on nodes.",
        (*_MODPROBE, "args"): _ARGUMENTS,
        (*_MODPROBE, "rawArgs"): _ARGUMENTS,
        **{(*_CONTAINER, field): translation.BUILT for field in ("build", "sign")},
        (*_CONTAINER, "registryTLS"): _TLS,
        **{(*_MAPPINGS, translation.ITEM, field): translation.BUILT for field in ("build", "sign")},
        (*_MAPPINGS, translation.ITEM, "registryTLS"): _TLS,
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
    "buildArgs": translation.BUILT,
    "kind": "",  # The operator wants these two in every `set`.
    "apiVersion": "",
    translation.ANY: "It is a value for the chart's templates, which are not read.",
}

SPECIAL_RESOURCE: translation.Reasons = MappingProxyType(
    {
        ("chart",): _CHART,
        ("debug",): "",
        ("dependencies",): "A recipe has no others that come before it: bring them by documents of their own.",
        ("driverContainer",): translation.BUILT,
        ("forceUpgrade",): "A changed image or version is an upgrade, and nothing else is.",
        ("managementState",): "Nothing manages objects in the cluster: what is in git is applied.",
        ("namespace",): translation.NAMESPACE,
        **{("set", name): why for name, why in _VALUES.items()},
    }
)
"""The fields of a SpecialResource that nothing takes."""

VALUES: translation.Reasons = MappingProxyType({(name,): why for name, why in _VALUES.items()})
"""Those of values alone."""

_ONLOAD_PLUGIN = "devicePlugin"
_ONLOAD_MAPPINGS = ("onload", "kernelMappings")
_CONTROL_PLANE = ("onload", "controlPlane")
_PATHS = "The recipe names the paths: its driver.files those of the hosts, its inject.mounts those of containers."
_ONLOAD_PATHS = {
    "baseMountPath": ("/opt/onload",),
    "binMountPath": ("/usr/bin",),
    "hostOnloadPath": ("/opt/onload", "/opt/onload/"),
    "libMounthPath": ("/usr/lib64",),
}
"""The operator's defaults, which are the recipe's paths; the last name is spelled so in its JSON."""

ONLOAD: translation.Reasons = MappingProxyType(
    {
        ("serviceAccountName",): translation.ACCOUNT,
        ("onload", "version"): "The version is that of the image of userImage.",
        (*_CONTROL_PLANE, translation.ANY): "The recipe names the place of the control plane server.",
        (*_ONLOAD_MAPPINGS, translation.ITEM, "build"): translation.BUILT,
    }
)
"""The fields that nothing takes."""

_MISSPELT = {"preload": "setPreload", "libMountPath": "libMounthPath"}
"""Fields that the operator's samples have in comments, and the operator does not, with those that it has."""

_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_KERNEL = ("KERNEL_FULL_VERSION", "KERNEL_XYZ")
"""The placeholders that images have here."""

_XYZ = "${KERNEL_X}.${KERNEL_Y}.${KERNEL_Z}"


def of_module(source: Source, wanted: Names) -> tuple[Draft, ...]:
    """Return the recipe and the policy of a Module; what cannot be said is among the findings of the translation."""
    recipe, policy = _begun(source, wanted, "Modules of the KMM Module")
    source.selection(policy, "selector")
    if source.get(dict, "moduleLoader") is None:
        source.wrong("The Module loads no module, and its device plugin is not imported.", "Keep the Module.")
        return ()
    source.carry(policy, ("spec", "pullPolicy"), str, *_CONTAINER, "imagePullPolicy")
    source.carry(policy, ("spec", "daemonSets", "tolerations"), list, "tolerations")
    if secret := source.get(dict, "imageRepoSecret"):
        policy.put(("spec", "pullSecrets", 0), secret, source.origin("imageRepoSecret"))
        source.differs("The Secret has to be in the namespace of the cluster's KAECluster.", "imageRepoSecret")
    _modules(source, recipe, policy)
    fields = _Fields(
        mappings=_MAPPINGS, image="containerImage", usual=(*_CONTAINER, "containerImage"), known=_known(source)
    )
    image, _ = _put_mappings(source, policy, fields)
    _put_driver(recipe, image, f"{(source.get(str, *_MODPROBE, 'dirName') or '/opt').rstrip('/')}/lib/modules")
    _put_firmware(source, recipe)
    plugin_pods.put(source, recipe, policy)
    source.stays("The operator unloads them with its Module.")
    return recipe, policy


def of_special_resource(source: Source, wanted: Names) -> tuple[Draft, ...]:
    """Return the recipe and the policy of a SpecialResource or of its chart's values, as `of_module` does."""
    values: documents.Path = ("set",) if source.identity else ()
    modules = source.texts(*values, "kmodNames")
    if not modules:
        message = f"{source.name(*values, 'kmodNames')} names no kernel module, and templates of charts are not read."
        source.wrong(message, "Write a recipe: docs/recipes.md begins with one.", *values, "kmodNames")
        return ()
    recipe, policy = _begun(source, wanted, "Modules of the SpecialResource", modules[0])
    source.selection(policy, "nodeSelector")
    _put_modules(recipe, source, translation.numbered(modules, *values, "kmodNames"))
    source.differs(_PUSHED if source.identity else _UNNAMED, *values, "kmodNames")
    _pushed_image(source, recipe)
    policy.put(("spec", "kernelMappings"), [{"name": "kernels", "regexp": ".+"}])
    if source.identity:
        source.stays("The operator's driver container unloads them when it stops.")
    return recipe, policy


def _pushed_image(source: Source, recipe: Draft) -> None:
    """Put the image that the chart's build has pushed; values alone do not name it."""
    namespace = source.options.get("namespace") if source.identity else None
    repository = f"{_REGISTRY}/{namespace}" if isinstance(namespace, str) else "registry.example.com/drivers"
    name = source.metadata.get("name", recipe.data["metadata"]["name"])
    image = {"repository": repository, "image": f"{name}-driver-container", "version": "v${KERNEL_FULL_VERSION}"}
    _put_driver(recipe, image, "/lib/modules")


def _put_driver(recipe: Draft, image: Mapping[str, str] | None, folder: str) -> None:
    """Put the images of a recipe, and its driver but for the modules, which lie in a folder of the image."""
    if image is not None:
        recipe.put(("spec", "images", "modules"), dict(image))
    recipe.put(("spec", "driver", "version"), "modules")
    recipe.put(("spec", "driver", "payloads"), [{"image": "modules", "paths": [folder]}])


def _put_firmware(source: Source, recipe: Draft) -> None:
    """Put the firmware: the operator copies all of a folder to the host, and here a folder in it is exchanged."""
    path, module = source.get(str, *_MODPROBE, "firmwarePath"), source.get(str, *_MODPROBE, "moduleName")
    if not path or not module:
        return
    folder = f"/{path.strip('/')}"
    recipe.put(("spec", "driver", "payloads", 0, "paths", 1), folder, source.origin(*_MODPROBE, "firmwarePath"))
    file = {"from": f"{folder}/{module}", "to": f"/lib/firmware/updates/{module}"}
    recipe.put(("spec", "driver", "files"), [file], source.origin(*_MODPROBE, "firmwarePath"))
    how = f"One folder of it is put on the hosts: name in driver.files the one in which '{module}' looks for its files."
    source.differs(how, *_MODPROBE, "firmwarePath")


def _put_modules(recipe: Draft, source: Source, names: Iterable[tuple[str, documents.Path]]) -> None:
    """Put modules in the order of loading, each with the path that names it; the kernel writes `_` for `-`."""
    for index, (name, path) in enumerate(names):
        recipe.put(("spec", "driver", "modules", index, "name"), name.replace("-", "_"), source.origin(*path))


def _begun(source: Source, wanted: Names, title: str, otherwise: str = "") -> tuple[Draft, Draft]:
    """Return a recipe for every node, and a policy of it, with their names; `otherwise` is for a source without one."""
    recipe, policy = (Draft(kind, source.document) for kind in ("Recipe", "DevicePolicy"))
    name, origin = source.title(wanted, "recipe", otherwise)
    recipe.put(("metadata", "name"), name, origin)
    recipe.put(("spec", "title"), f"{title} {name}")
    recipe.put(("spec", "match", "all"), {})
    policy.put(("metadata", "name"), *source.title(wanted, "policy", otherwise))
    policy.put(("spec", "recipe"), name, origin)
    policy.put(("spec", "clusters"), [wanted.cluster])
    return recipe, policy


def _modules(source: Source, recipe: Draft, policy: Draft) -> None:
    order = source.texts(*_MODPROBE, "modulesLoadingOrder")
    main = source.get(str, *_MODPROBE, "moduleName")
    paths = translation.numbered(order, *_MODPROBE, "modulesLoadingOrder")
    if main is None:
        source.wrong("The Module names no module.", "Name it in moduleName.", *_MODPROBE)
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


def _replaced(source: Source) -> dict[str, documents.Path]:
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


def _parameters(source: Source, recipe: Draft, policy: Draft, module: tuple[str, int]) -> None:
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


def _known(source: Source) -> dict[str, str]:
    """Return the values of the placeholders that stand for the Module itself."""
    metadata = source.metadata
    known = {"MOD_NAME": metadata.get("name"), "MOD_NAMESPACE": metadata.get("namespace")}
    return {name: value for name, value in known.items() if isinstance(value, str)}


def of_onload(source: Source, wanted: Names) -> tuple[Draft, ...]:
    """Return the policy of an Onload; what cannot be said is among the findings of the translation."""
    policy = Draft("DevicePolicy", source.document)
    policy.put(("spec", "recipe"), wanted.recipe or "onload")
    policy.put(("metadata", "name"), *source.title(wanted, "policy"))
    policy.put(("spec", "clusters"), [wanted.cluster])
    source.selection(policy, "selector")
    _onload_values(source, policy)
    pull_policy = source.get(str, "onload", "imagePullPolicy")
    of_plugin = source.get(str, _ONLOAD_PLUGIN, "imagePullPolicy")
    policy.put(("spec", "pullPolicy"), pull_policy, source.origin("onload", "imagePullPolicy"))
    if of_plugin not in (None, pull_policy or "IfNotPresent"):
        why = "All pods of a policy have one pull policy, that of 'onload'."
        source.drop(why, _ONLOAD_PLUGIN, "imagePullPolicy")
    _onload_images(source, policy)
    _control_plane(source, policy)
    source.stays("The operator unloads them with its Onload.")
    return (policy,)


def _control_plane(source: Source, policy: Draft) -> None:
    """Put the control plane server, which the operator runs in any case, and its arguments."""
    policy.put(("spec", "values", "controlPlane"), True, source.origin("onload", "controlPlane"))
    arguments = source.get(list, *_CONTROL_PLANE, "parameters")
    if arguments is not None:
        joined = " ".join(source.texts(*_CONTROL_PLANE, "parameters"))
        origin = source.origin(*_CONTROL_PLANE, "parameters")
        policy.put(("spec", "values", "controlPlaneParameters"), joined, origin)


def _onload_values(source: Source, policy: Draft) -> None:
    for ours, kind, theirs in (
        ("maxPods", int, "maxPodsPerNode"),
        ("setPreload", bool, "setPreload"),
        ("mountOnload", bool, "mountOnload"),
    ):
        source.carry(policy, ("spec", "values", ours), kind, _ONLOAD_PLUGIN, theirs)
    for name, usual in _ONLOAD_PATHS.items():
        if source.get(str, _ONLOAD_PLUGIN, name) not in (None, *usual):
            source.drop(_PATHS, _ONLOAD_PLUGIN, name)
    for name, right in _MISSPELT.items():
        if name in (source.get(dict, _ONLOAD_PLUGIN) or {}):
            why = "The operator has no such field, though a comment of its samples has it."
            source.drop(why, _ONLOAD_PLUGIN, name, hint=f"Its field is '{right}'.")


def _onload_images(source: Source, policy: Draft) -> None:
    """Put the images: that of user space, and one of the modules by kernel."""
    user = source.get(str, "onload", "userImage")
    if user is not None:
        policy.put(("spec", "images", "user"), translation.image_parts(user), source.origin("onload", "userImage"))
    fields = _Fields(mappings=_ONLOAD_MAPPINGS, image="kernelModuleImage")
    image, served = _put_mappings(source, policy, fields)
    policy.put(("spec", "images", "modules"), image)
    for place, index in enumerate(served):
        if source.get(dict, *_ONLOAD_MAPPINGS, index, "sfc") is not None:
            at = ("spec", "kernelMappings", place, "driver", "modules")
            policy.put(at, ["sfc", "onload"], source.origin(*_ONLOAD_MAPPINGS, index, "sfc"))


class _Fields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of an object that hold its mappings and images."""

    mappings: documents.Path
    image: str
    """The field of a mapping with its image."""
    usual: documents.Path | None = None
    """The image of the mappings without one."""
    known: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The values of placeholders that are the same for all kernels."""


def _put_mappings(source: Source, policy: Draft, fields: _Fields) -> tuple[Mapping[str, str] | None, list[int]]:
    """Put the mappings; return the image that they have by default, and the indexes of those that are carried over."""
    usual: Mapping[str, str] | None = None
    names, served = list[str](), list[int]()
    for index in range(len(source.get(list, *fields.mappings) or ())):
        here, there = ("spec", "kernelMappings", len(served)), (*fields.mappings, index)
        literal, regexp = source.get(str, *there, "literal"), source.get(str, *there, "regexp")
        image = _image(source, fields, there, literal)
        if image is None:
            continue
        usual = usual or image
        served.append(index)
        names.append(_name(literal or regexp or "", names))
        policy.put(here, {"name": names[-1]}, source.origin(*there))
        policy.put((*here, "literal"), literal, source.origin(*there, "literal"))
        policy.put((*here, "regexp"), regexp, source.origin(*there, "regexp"))
        if other := {part: value for part, value in image.items() if value != usual[part]}:
            policy.put((*here, "images", "modules"), other, source.origin(*there, fields.image))
    if not served:
        hint = f"Name one in '{fields.image}', after the kernel's full version or KERNEL_XYZ."
        source.wrong("No kernel has an image of modules that documents can name.", hint, *fields.mappings)
    return usual, served


def _image(source: Source, fields: _Fields, at: documents.Path, literal: str | None) -> dict[str, str] | None:
    """Return the image of a mapping; None where it has none that documents can name, which is said."""
    own = source.get(str, *at, fields.image)
    reference = own or (source.get(str, *fields.usual) if fields.usual else None)
    if reference is None:
        source.wrong("The mapping has no image.", f"Name one in '{fields.image}'.", *at)
        return None
    known = {**fields.known, **(_numbers(literal) if literal else {})}
    text, unknown = _filled(reference, known)
    if unknown:
        source.drop(
            f"No image is named after ${{{unknown[0]}}} here, only after ${{KERNEL_FULL_VERSION}} and ${{KERNEL_XYZ}}: "
            "nodes with these kernels keep what they have.",
            *at,
        )
        return None
    return translation.image_parts(text)


def _filled(reference: str, known: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return a reference with the values of placeholders that are `known`, and the placeholders that none is for."""
    text = reference.replace(_XYZ, "${KERNEL_XYZ}")
    text = _PLACEHOLDER.sub(lambda found: known.get(found[1], found[0]), text)
    return text, sorted({name for name in _PLACEHOLDER.findall(text) if name not in _KERNEL})


def _numbers(kernel: str) -> dict[str, str]:
    """Return the placeholders for the first three numbers of a kernel (internal/utils/replaceStrings.go of KMM)."""
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", kernel)
    return dict(zip(("KERNEL_X", "KERNEL_Y", "KERNEL_Z"), found.groups(), strict=True)) if found else {}


def _name(text: str, taken: Collection[str]) -> str:
    """Return a name for a kernel or a pattern, of its words: fc37-x86-64."""
    plain = re.sub(r"\\[A-Za-z]|\[[^]]*\]|\{[^}]*\}", " ", text.lower())
    name = "-".join(re.findall("[a-z0-9]+", plain))[:15].strip("-") or "kernels"
    others = (f"{name}-{number}" for number in itertools.count(2))
    return name if name not in taken else next(other for other in others if other not in taken)
