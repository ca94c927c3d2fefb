"""An Onload object of Onload's operator as a DevicePolicy of the recipe onload (its api/v1alpha1/onload_types.go)."""

from types import MappingProxyType

from compiler.migrate import drafts, kernel_mappings, reading

_PLUGIN = "devicePlugin"
_MAPPINGS = ("onload", "kernelMappings")
_PLACES = "The recipe names the paths: its driver.files those of the hosts, its inject.mounts those of containers."
_USUAL = {
    "baseMountPath": ("/opt/onload",),
    "binMountPath": ("/usr/bin",),
    "hostOnloadPath": ("/opt/onload", "/opt/onload/"),
    "libMounthPath": ("/usr/lib64",),
}
"""The operator's defaults, which are the recipe's paths; the last name is spelled so in its JSON."""

REASONS: reading.Reasons = MappingProxyType(
    {
        ("serviceAccountName",): reading.ACCOUNT,
        ("onload", "version"): "The version is that of the image of userImage.",
        (*_MAPPINGS, reading.ITEM, "build"): reading.BUILT,
    }
)
"""The fields that nothing takes."""

_WRONG = {"preload": "setPreload", "libMountPath": "libMounthPath"}
"""Fields that the operator's samples have in comments, and the operator does not, with those that it has."""


def drafted(source: reading.Reading, wanted: drafts.Names) -> tuple[drafts.Draft, ...]:
    """Return the policy of an Onload; what cannot be said is among the findings of the reading."""
    policy = drafts.Draft("DevicePolicy", source.source.document)
    policy.put(("spec", "recipe"), wanted.recipe or "onload")
    policy.put(("metadata", "name"), *source.title(wanted, "policy"))
    policy.put(("spec", "clusters"), [wanted.cluster])
    source.selection(policy, "selector")
    _values(source, policy)
    _pull_policy(source, policy)
    _images(source, policy)
    _control_plane(source)
    source.stays("The operator unloads them with its Onload.")
    return (policy,)


def _values(source: reading.Reading, policy: drafts.Draft) -> None:
    for ours, kind, theirs in (
        ("maxPods", int, "maxPodsPerNode"),
        ("setPreload", bool, "setPreload"),
        ("mountOnload", bool, "mountOnload"),
    ):
        source.carry(policy, ("spec", "values", ours), kind, _PLUGIN, theirs)
    for name, usual in _USUAL.items():
        if source.get(str, _PLUGIN, name) not in (None, *usual):
            source.drop(_PLACES, _PLUGIN, name)
    for name, right in _WRONG.items():
        if name in (source.get(dict, _PLUGIN) or {}):
            why = "The operator has no such field, though a comment of its samples has it."
            source.drop(why, _PLUGIN, name, hint=f"Its field is '{right}'.")


def _pull_policy(source: reading.Reading, policy: drafts.Draft) -> None:
    """Put the pull policy of both parts, which is one here."""
    found = source.get(str, "onload", "imagePullPolicy")
    of_plugin = source.get(str, _PLUGIN, "imagePullPolicy")
    policy.put(("spec", "pullPolicy"), found, source.origin("onload", "imagePullPolicy"))
    if of_plugin not in (None, found or "IfNotPresent"):
        source.drop("All pods of a policy have one pull policy, that of 'onload'.", _PLUGIN, "imagePullPolicy")


def _images(source: reading.Reading, policy: drafts.Draft) -> None:
    """Put the images: that of user space, and one of the modules by kernel."""
    user = source.get(str, "onload", "userImage")
    if user is not None:
        policy.put(("spec", "images", "user"), kernel_mappings.parts(user), source.origin("onload", "userImage"))
    fields = kernel_mappings.Fields(mappings=_MAPPINGS, image="kernelModuleImage")
    image, served = kernel_mappings.put(source, policy, fields)
    policy.put(("spec", "images", "modules"), image)
    for place, index in enumerate(served):
        if source.get(dict, *_MAPPINGS, index, "sfc") is not None:
            at = ("spec", "kernelMappings", place, "driver", "modules")
            policy.put(at, ["sfc", "onload"], source.origin(*_MAPPINGS, index, "sfc"))


def _control_plane(source: reading.Reading) -> None:
    why = "The control plane server, onload_cp_server, is not run: the recipe says what that means."
    if source.get(dict, "onload", "controlPlane") is None:
        source.differs(why, "onload")
    else:
        source.drop(why, "onload", "controlPlane")
