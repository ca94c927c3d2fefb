"""Objects of the Intel Device Plugins Operator (deviceplugin.intel.com/v1) as policies of recipes that come with kae.

An absent field is written out with the operator's own default (pkg/controllers of v0.36.0, `getPodArgs`): that of the
program may be another one.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from compiler.formats import documents
from compiler.migrate import translation
from compiler.migrate.translation import Draft, Names, Source


class _Plugin(msgspec.Struct, frozen=True):
    """A kind of objects, in the terms of a recipe."""

    recipe: str
    values: Mapping[str, Any]
    """The fields that are parameters of the same name, with the operator's default, or the type of one without."""
    provisioned: bool = False
    """True where `initImage` makes devices ready, and `provisioningConfig` is its ConfigMap."""


_LOG: Mapping[str, Any] = {"logLevel": 0}
_SHARED: Mapping[str, Any] = {**_LOG, "sharedDevNum": 1}

_PLUGINS: Mapping[str, _Plugin] = MappingProxyType(
    {
        "DsaDevicePlugin": _Plugin("intel-dsa", {**_SHARED, "driver": "idxd"}, provisioned=True),
        "GpuDevicePlugin": _Plugin(
            "intel-gpu",
            {
                **_SHARED,
                "enableMonitoring": False,
                "monitoringMode": str,
                "preferredAllocationPolicy": "none",
                "bypathMode": str,
            },
        ),
        "IaaDevicePlugin": _Plugin("intel-iaa", _SHARED, provisioned=True),
        "NpuDevicePlugin": _Plugin("intel-npu", _SHARED),
        "QatDevicePlugin": _Plugin(
            "intel-qat",
            {**_LOG, "dpdkDriver": "vfio-pci", "maxNumDevices": 32, "preferredAllocationPolicy": str},
            provisioned=True,
        ),
        "SgxDevicePlugin": _Plugin(
            "intel-sgx", {**_LOG, "enclaveLimit": 1, "provisionLimit": 1, "dcapInfraResources": False}
        ),
    }
)

KINDS = tuple(_PLUGINS)

_LABEL = "intel.feature.node.kubernetes.io/"
"""The labels of the NodeFeatureRules that come with the plugins."""

_HOOKS = "It installs a hook of NFD on the nodes, whose labels the rule of the recipe makes."
_FOUND = "The rule of the recipe finds the nodes with the hardware."
_BESIDE = "The operator's plugin and that of the policy offer the same resources."

_CONFIGURATIONS = ("configuration", "nodeConfigurations")
"""The parameters with the texts of the ConfigMap, for all nodes and for single ones."""

_VF_DRIVERS = ("c6xxvf", "4xxxvf")
"""The operator's default."""

_FUNCTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "dh895xccvf": ("0434", "0435"),
        "c3xxxvf": ("19e2",),
        "c6xxvf": ("37c8",),
        "d15xxvf": ("6f54",),
        "4xxxvf": ("4940", "4942", "4944"),
        "420xxvf": ("4946",),
        "c4xxxvf": ("18a0",),
    }
)
"""The physical functions that the operator has the init container of QAT take, by the driver of the virtual ones."""

REASONS: translation.Reasons = MappingProxyType({})
"""What is no field of an object has none here either."""


def of_plugin(source: Source, wanted: Names) -> tuple[Draft, ...]:
    """Return the policy of an object; what cannot be said is among the findings of the translation."""
    plugin = _PLUGINS[source.kind]
    policy = Draft("DevicePolicy", source.document)
    policy.put(("spec", "recipe"), wanted.recipe or plugin.recipe)
    policy.put(("metadata", "name"), *source.title(wanted, "policy"))
    policy.put(("spec", "clusters"), [wanted.cluster])
    _selection(source, policy)
    source.carry(policy, ("spec", "daemonSets", "tolerations"), list, "tolerations")
    for name, usual in plugin.values.items():
        _value(source, policy, name, usual)
    _image(source, policy, "plugin", "image")
    _init(source, policy, plugin)
    if source.kind == "QatDevicePlugin":
        _vf_drivers(source, policy)
    if source.kind == "GpuDevicePlugin":
        for name in ("allowIDs", "denyIDs"):
            if text := source.get(str, name):
                policy.put(("spec", "values", name), [part.strip() for part in text.split(",")], source.origin(name))
    note = "The kubelet of a node takes whichever has registered last."
    source.tell(_BESIDE, note, "Delete the object, and wait until its pods are gone, before the policy is applied.")
    return (policy,)


def _selection(source: Source, policy: Draft) -> None:
    for key in map(str, source.get(dict, "nodeSelector") or ()):
        if key.startswith(_LABEL):
            source.drop(_FOUND, "nodeSelector", key)
        else:
            source.carry(policy, ("spec", "nodeSelector", "matchLabels", key), str, "nodeSelector", key)


def _value(source: Source, policy: Draft, name: str, usual: Any) -> None:
    """Put a field as a parameter; the operator takes an empty text and 0 for an absent field."""
    is_type = isinstance(usual, type)
    given = source.get(usual if is_type else type(usual), name)
    policy.put(("spec", "values", name), given or (None if is_type else usual), source.origin(name) if given else ())


def _image(source: Source, policy: Draft, name: str, field: str) -> bool:
    text = source.get(str, field)
    if text:
        policy.put(("spec", "images", name), translation.image_parts(text), source.origin(field))
    return bool(text)


def _init(source: Source, policy: Draft, plugin: _Plugin) -> None:
    """Put what makes devices ready: only with an image the operator has an init container."""
    if not plugin.provisioned:
        if "initImage" in source.options:
            source.drop(_HOOKS, "initImage")
        return
    policy.put(("spec", "values", "provision"), _image(source, policy, "init", "initImage"))
    if source.get(str, "provisioningConfig"):
        fields = ("services", "nodeServices") if source.kind == "QatDevicePlugin" else _CONFIGURATIONS
        source.drop(
            "No ConfigMap is read: its texts are values of the policy.",
            "provisioningConfig",
            hint=f"Write them into values.{fields[0]}, and those of single nodes into values.{fields[1]}.",
        )


def _vf_drivers(source: Source, policy: Draft) -> None:
    """Put the drivers of virtual functions, and the physical ones that the operator finds by them."""
    drivers = source.texts("kernelVfDrivers")
    at: documents.Path = ("spec", "values", "kernelVfDrivers")
    policy.put(at, drivers or list(_VF_DRIVERS), source.origin("kernelVfDrivers") if drivers else ())
    functions = [own for driver in drivers for own in _FUNCTIONS.get(driver, ())]
    if functions and policy.data["spec"]["values"]["provision"]:
        policy.put(("spec", "values", "physicalFunctions"), " ".join(functions), source.origin("kernelVfDrivers"))
