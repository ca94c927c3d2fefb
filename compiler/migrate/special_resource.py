"""A SpecialResource, or values of its chart, as a Recipe and a DevicePolicy, for charts in the shape of simple-kmod.

The charts' templates are not read. Sources: charts/example/simple-kmod-0.0.1 and api/v1beta1 of the operator.
"""

from types import MappingProxyType

from compiler.formats import documents
from compiler.migrate import drafts, kernel_modules, reading

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

REASONS: reading.Reasons = MappingProxyType(
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


def drafted(source: reading.Reading, wanted: drafts.Names) -> tuple[drafts.Draft, ...]:
    """Return the recipe and the policy; what cannot be said is among the findings of the reading."""
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
    recipe, policy = kernel_modules.begun(source, wanted, "Modules of the SpecialResource", modules[0])
    source.selection(policy, "nodeSelector")
    kernel_modules.put_modules(recipe, source, reading.numbered(modules, *values, "kmodNames"))
    source.differs(_PUSHED if source.source.identity else _UNNAMED, *values, "kmodNames")
    _image(source, recipe)
    policy.put(("spec", "kernelMappings"), [{"name": "kernels", "regexp": ".+"}])
    if source.source.identity:
        source.stays("The operator's driver container unloads them when it stops.")
    return recipe, policy


def _image(source: reading.Reading, recipe: drafts.Draft) -> None:
    """Put the image that the chart's build has pushed; values alone do not name it."""
    namespace = source.source.options.get("namespace") if source.source.identity else None
    repository = f"{_REGISTRY}/{namespace}" if isinstance(namespace, str) else "registry.example.com/drivers"
    name = source.source.metadata.get("name", recipe.data["metadata"]["name"])
    image = {"repository": repository, "image": f"{name}-driver-container", "version": "v${KERNEL_FULL_VERSION}"}
    kernel_modules.driver(recipe, image, "/lib/modules")
