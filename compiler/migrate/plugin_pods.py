"""The device plugin of a Module of the Kernel Module Management Operator, as a program of its recipe.

The operator runs its pod where the module is loaded: privileged, and with the kubelet's folder of device plugins
(internal/module of the operator, api/v1beta1/module_types.go). A program has the fields of pods that need no object of
the cluster.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from compiler.formats import documents
from compiler.migrate import translation
from compiler.migrate.translation import ITEM, Draft, Source

_AT = "devicePlugin"
_POD: documents.Path = ("spec", "programs", 0, "pod")
_FOLDER = "kubelet-device-plugins"
"""The operator's own name for the volume with the kubelet's folder, so that no volume of a Module has it."""
_CONTAINERS = MappingProxyType({"initContainer": "init", "container": "plugin"})
"""The containers of a Module, with their names here, which are also those of their images in the recipe."""
_VOLUMES = ("hostPath", "emptyDir")
_VOLUME = "A program has volumes of the host, and folders that begin empty, alone."
_FIELD = "A container of a program has no such field."

REASONS: translation.Reasons = MappingProxyType(
    {
        (_AT, "serviceAccountName"): translation.ACCOUNT,
        (_AT, "automountServiceAccountToken"): translation.ACCOUNT,
        (_AT, "volumes", ITEM, translation.ANY): _VOLUME,
        **{(_AT, container, translation.ANY): _FIELD for container in _CONTAINERS},
        **{(_AT, container, "volumeMounts", ITEM, translation.ANY): _FIELD for container in _CONTAINERS},
    }
)
"""The fields of a device plugin that nothing takes."""


def put(source: Source, recipe: Draft, policy: Draft) -> None:
    """Put the program, and the images of its containers."""
    if source.get(dict, _AT) is None:
        return
    if source.get(str, _AT, "container", "image") is None:
        source.wrong("The device plugin has no image.", "Name it in 'image' of its container.", _AT)
        return
    program: documents.Path = ("spec", "programs", 0)
    recipe.put((*program, "name"), "plugin", source.origin(_AT))
    recipe.put((*program, "per"), "pool")
    recipe.put((*program, "after"), "driver")
    volumes = list(_volumes(source, recipe))
    folder = {"name": _FOLDER, "hostPath": {"path": "${kubeletDir}/device-plugins", "type": "Directory"}}
    recipe.put((*_POD, "volumes", len(volumes)), folder)
    pull_policy = policy.data["spec"].get("pullPolicy", "IfNotPresent")
    for field, name in _CONTAINERS.items():
        if source.get(dict, _AT, field) is not None:
            _container(source, recipe, (field, name), volumes)
            if source.get(str, _AT, field, "imagePullPolicy") not in (None, pull_policy):
                why = "All pods of a policy have one pull policy, that of the module's image."
                source.drop(why, _AT, field, "imagePullPolicy")
    how = "No Module says which resources it offers: name them in `offers` of the recipe's program 'plugin'."
    source.differs(how, _AT)


def _volumes(source: Source, recipe: Draft) -> Iterator[str]:
    """Put the volumes that a program can have, and yield their names."""
    for index, volume in enumerate(source.get(list, _AT, "volumes") or ()):
        kind = next((one for one in _VOLUMES if isinstance(volume, Mapping) and one in volume), None)
        name = source.get(str, _AT, "volumes", index, "name") if kind else None
        if name is None or kind is None:
            source.drop(_VOLUME, _AT, "volumes", index)
            continue
        at = (*_POD, "volumes", len(recipe.data["spec"]["programs"][0].get("pod", {}).get("volumes", ())))
        made = {"name": name, kind: source.get(dict, _AT, "volumes", index, kind)}
        recipe.put(at, _escaped(made), source.origin(_AT, "volumes", index))
        yield name


def _container(source: Source, recipe: Draft, container: tuple[str, str], volumes: list[str]) -> None:
    field, name = container
    at: documents.Path = (*_POD, "initContainers" if field == "initContainer" else "containers", 0)
    image = source.get(str, _AT, field, "image")
    recipe.put((*at, "name"), name)
    recipe.put((*at, "image"), name)
    if image is not None:
        recipe.put(("spec", "images", name), translation.image_parts(image), source.origin(_AT, field, "image"))
    for own in ("command", "args"):
        if source.get(list, _AT, field, own):
            texts = _escaped(source.texts(_AT, field, own))
            recipe.put((*at, own), texts, source.origin(_AT, field, own))
    for number, variable in enumerate(_variables(source, field)):
        recipe.put((*at, "env", number), variable)
    resources = source.get(dict, _AT, field, "resources")
    recipe.put((*at, "resources"), resources or None, source.origin(_AT, field, "resources"))
    recipe.put((*at, "securityContext", "privileged"), field == "container" or None)
    mounts = list(_mounts(source, field, volumes))
    if field == "container":
        mounts.append({"name": _FOLDER, "mountPath": "/var/lib/kubelet/device-plugins"})
    recipe.put((*at, "volumeMounts"), mounts or None)


def _variables(source: Source, field: str) -> Iterator[Mapping[str, object]]:
    """Yield the variables that need no object of the cluster."""
    for index in range(len(source.get(list, _AT, field, "env") or ())):
        at = (_AT, field, "env", index)
        name = source.get(str, *at, "name")
        origins = {one: source.get(dict, *at, "valueFrom", one) for one in ("fieldRef", "resourceFieldRef")}
        known = {one: dict(data) for one, data in origins.items() if data is not None}
        known.get("fieldRef", {}).pop("apiVersion", None)
        if source.get(dict, *at, "valueFrom") is None:
            yield {"name": name, "value": _escaped(source.get(str, *at, "value") or "")}
        elif known:
            yield {"name": name, "valueFrom": known}
        else:
            source.drop("A program reads no object of the cluster.", *at)


def _mounts(source: Source, field: str, volumes: list[str]) -> Iterator[Mapping[str, object]]:
    """Yield the mounts of the volumes that are there."""
    kinds = {"name": str, "mountPath": str, "readOnly": bool, "subPath": str, "mountPropagation": str}
    for index in range(len(source.get(list, _AT, field, "volumeMounts") or ())):
        at = (_AT, field, "volumeMounts", index)
        found = {name: source.get(kind, *at, name) for name, kind in kinds.items()}
        if found["name"] in volumes:
            yield _escaped({name: value for name, value in found.items() if value is not None})
        else:
            source.drop("Its volume is not carried over.", *at)


def _escaped(data: Any) -> Any:
    """Return data whose texts are read as they stand: `${` begins a reference in a recipe."""
    if isinstance(data, str):
        return data.replace("${", "$${")
    if isinstance(data, Mapping):
        return {name: _escaped(value) for name, value in data.items()}
    return [_escaped(item) for item in data] if isinstance(data, list) else data
