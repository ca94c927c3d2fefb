"""The reader of KAEPolicies: their fields in the terms of KAE's recipe, and that recipe in the fields of a Recipe."""

from collections.abc import Sequence
from typing import Any

import msgspec

from compiler import kae, recipes
from compiler.fleet import definitions
from compiler.formats import canonical, documents
from compiler.read import parts
from runtime import device_plugin_config, driver_config, shapes

_PARTS = ("repository", "image", "version")
_DRIVER: documents.Path = ("spec", "driver")
_INSTALL_POLICY = "INSTALL_POLICY"

WRITTEN = definitions.Written(
    rollout=_DRIVER,
    below=(),
    names_images=False,
    images={kae.INSTALLER: _DRIVER, kae.PLUGIN: ("spec", "devicePlugin")},
    overrides={kae.INSTALLER: ()},
    nouns={kae.INSTALLER: "the driver's image", kae.PLUGIN: "the device plugin's image"},
    pulls={"driver": _DRIVER, "devicePlugin": ("spec", "devicePlugin")},
    install_policy=_INSTALL_POLICY,
    switches=tuple(kind.switch for kind in kae.KINDS),
)


def policy_of(document: documents.Document, data: parts.Data) -> definitions.Policy:
    """Return the policy in a document that its schema accepts; `data` has the defaults of the schema."""
    spec = data["spec"]
    served = tuple(kind for kind in kae.KINDS if spec["operator"][kind.switch])
    names = {kind.name for kind in served}
    return parts.policy(
        document,
        data,
        _overrides,
        stated=lambda declared: declared,
        recipe=kae.RECIPE,
        kinds=tuple(kind for kind in kae.RECIPE.kinds if kind.name in names),
        driver=_driver(spec["driver"], served),
        plugin=_plugin(spec["devicePlugin"], served),
        written=WRITTEN,
    )


def recipe_spec() -> dict[str, Any]:
    """Return KAE's recipe in the fields of a Recipe; `supports` alone is a field that only KAE has."""
    recipe = kae.RECIPE
    pci = [
        {"kind": kind.name, "vendor": kind.vendor, "devices": [*kind.devices], "virtual": [*kind.virtual]}
        for kind in recipe.kinds
    ]
    offered = [
        {"name": name, "class": sort, "kind": kind.name}
        for kind in kae.KINDS
        for name, sort in ((kind.resource, "uacce"), (kind.vfio_resource, "vfio"))
    ]
    return {
        "title": kae.TITLE,
        "match": {"pci": pci},
        "supports": msgspec.to_builtins(recipe.support),
        "images": {name: dict(kae.program(name)) for name in (kae.INSTALLER, kae.PLUGIN)},
        "driver": {
            "image": kae.INSTALLER,
            "modules": list(map(_module, kae.MODULES)),
            "files": [canonical.stated(files) for files in kae.FILES],
        },
        "devicePlugin": {"image": kae.PLUGIN, "resources": offered},
    }


def _module(module: recipes.Module) -> dict[str, Any]:
    # Modules have parameters in common; YAML would print equal objects as an alias.
    own = {name: dict(schema) for name, schema in module.parameters.items()}
    return {"name": module.name, **({"parameters": own} if own else {})}


def _overrides(data: parts.Data) -> tuple[dict[str, definitions.ImageParts], parts.Data, parts.Data]:
    image = _image(data)
    return {kae.INSTALLER: image} if image else {}, data, {}


def _image(data: parts.Data) -> definitions.ImageParts:
    return {part: data[part] for part in _PARTS if part in data}


def _driver(spec: parts.Data, served: Sequence[kae.Kind]) -> definitions.Driver:
    names = {None, *(kind.name for kind in served)}
    environment = {variable["name"]: variable["value"] for variable in spec["env"]}
    return parts.driver(
        spec,
        spec["rollout"],
        driver_config.Uacce,
        {
            "install_policy": "Always" if environment.get(_INSTALL_POLICY) == "Always" else "IfNotPresent",
            "above": kae.ABOVE,
            "related": kae.RELATED,
            "resources": tuple(name for kind in kae.KINDS for name in (kind.resource, kind.vfio_resource)),
        },
        images={kae.INSTALLER: _image(spec)},
        installer=kae.INSTALLER,
        counting=kae.INSTALLER,
        declared=tuple(module for module in kae.MODULES if module.kind in names),
        parameters=spec["moduleParameters"],
        files=kae.FILES,
        container=parts.container(spec, spec, spec["env"]),
    )


def _plugin(spec: parts.Data, served: Sequence[kae.Kind]) -> definitions.Plugin:
    return definitions.Plugin(
        enabled=spec["enabled"],
        image=kae.PLUGIN,
        parts=_image(spec),
        resources=tuple(_resource(spec, kind) for kind in served),
        max_unavailable=spec["maxUnavailable"],
        device_nodes=parts.optional(spec.get("deviceNodes"), shapes.DeviceNodes),
        container=parts.container(spec, spec),
        config=parts.passed(spec, device_plugin_config.Config),
    )


def _resource(spec: parts.Data, kind: kae.Kind) -> device_plugin_config.AnyResource:
    inject, shares = spec["inject"], spec["sharing"][kind.name]
    libraries = device_plugin_config.Libraries(path=inject.get("librariesPath")) if inject["libraries"] else None
    openssl = device_plugin_config.OpenSsl(conf=inject.get("opensslConf"), settings=inject.get("opensslSettings", {}))
    if spec["mode"][kind.name] == "vfio":
        return device_plugin_config.Vfio(
            name=kind.vfio_resource,
            socket=kind.name,
            kind=kind.name,
            shares=shares,
            # A virtual machine gets none of it; the host keeps what containers got earlier.
            inject=device_plugin_config.Inject(libraries=libraries, openssl=openssl),
        )
    return device_plugin_config.Uacce(
        name=kind.resource,
        socket=kind.name,
        kind=kind.name,
        shares=shares,
        mask_sysfs=inject["maskSysfs"],
        device_nodes=parts.optional(spec.get("deviceNodes"), shapes.DeviceNodes),
        inject=device_plugin_config.Inject(
            mounts=tuple(
                device_plugin_config.InjectedMount(path=path, as_=place, checked=False)
                for place, path in sorted(inject.get("mounts", {}).items())
            ),
            env=inject.get("env", {}),
            libraries=libraries,
            openssl=openssl,
        ),
    )
