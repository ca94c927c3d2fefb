"""Recipe: how a stack of software for an accelerator is found, brought to nodes and offered to containers."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from compiler import keywords, names, release
from compiler.fleet import forms
from compiler.model import base, policy, program
from compiler.model.base import Model


def or_parameter(words: str, kind: str, least: int | None = None, most: int | None = None) -> Any:
    """Return a field of a recipe that a parameter may fill; `words` are its meaning, `kind` its type.

    The type in Python is that of the filled field: `read.device_policy` fills a recipe before it is read.
    """
    form = forms.form(words + keywords.OR_PARAMETER)
    own: dict[str, JsonValue] = {"type": [kind, "string"], "pattern": f"^{keywords.REFERENCE}$", **form}
    return Field(json_schema_extra=own, ge=least, le=most)


def _path(pattern: str, words: str) -> forms.Keywords:
    """Return the form of a path that may have references, and that a pattern matches once they are filled."""
    return forms.text(f"({pattern}{keywords.WITH_REFERENCE})", 200, words)


RecipeName = Annotated[
    str, forms.text(names.POLICY_PATTERN, names.RECIPE_LENGTH, "a DNS label of at most 20 characters without '--'")
]
PartName = Annotated[
    str, forms.text(names.POLICY_PATTERN, 20, "a name of at most 20 lower-case letters, digits and single '-'")
]
"""The name of an image, a kind of devices or a profile."""
ParameterName = Annotated[
    str,
    forms.text(keywords.PARAMETER, 63, "the name of a parameter, such as maxPods (at most 63 letters, digits and '_')"),
]
PciId = Annotated[str, forms.text("[0-9a-f]{4}", 4, 'four hexadecimal digits in quotes, such as "19e5"')]
ModuleName = Annotated[
    str,
    # MODULE_NAME_LEN of include/linux/module.h, less the final zero; the kernel writes `_` for `-`.
    forms.text("[A-Za-z0-9_]+", 55, "the kernel's name of a module, with '_' for '-', such as simple_kmod"),
]
ModuleParameter = Annotated[
    str, forms.text("[A-Za-z0-9_]+", 63, "the name of a module's parameter (at most 63 letters, digits and '_')")
]

ParameterValue = Annotated[
    bool | int | Annotated[str, Field(pattern=keywords.MODULE_TEXT, max_length=keywords.MODULE_TEXT_LENGTH)],
    base.meaning("true or false, a whole number, or one line without quotation marks and backslashes"),
]
"""The value of a module's parameter."""

_STEP = "[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*"
_GLOB_STEP = r"[A-Za-z0-9_*?\[-][A-Za-z0-9._:+,@*?\[\]!-]*"
HostPath = Annotated[str, _path(f"(/{_STEP})+", "an absolute path, such as /opt/onload")]
HostGlob = Annotated[str, _path(f"/{_STEP}(/{_GLOB_STEP})*", "an absolute path or a glob, such as /dev/npu*")]
TargetPath = Annotated[
    str,
    _path(f"(/{_STEP})+/?", "an absolute path, such as /dev/npu0, or of a folder with a final '/', such as /dev/"),
]
LibraryPath = Annotated[
    str,
    # LD_PRELOAD is a list with colons or spaces between its parts (ld.so(8)).
    _path(f"(/{_STEP.replace(':', '')})+", "the absolute path of a library, without ':'"),
]
DeviceGlob = Annotated[str, _path(f"/dev(/{_GLOB_STEP})+", "the path of a device node or a glob, such as /dev/npu*")]
DevicePath = Annotated[str, _path(f"/dev(/{_STEP})+", "the path of a device node, such as /dev/onload")]
PlacePath = Annotated[
    str,
    _path(
        f"(/opt|/lib/firmware/updates)(/{_STEP})+", "a path below /opt or /lib/firmware/updates, such as /opt/onload"
    ),
]
SourceName = Literal["build", "inTree", "packages", "prebuilt"]


class RecipePayload(Model):
    """Paths of an image that the driver installer sees below /payload/NAME."""

    image: PartName
    """One of the images; it holds `cp`, as KMM's images do."""
    paths: Annotated[tuple[HostPath, ...], Field(min_length=1)]
    """Files and folders of the image."""


class RecipeModule(Model):
    """A kernel module of a recipe."""

    name: ModuleName
    """The kernel's name of it."""
    optional: bool = False
    """A policy may leave it out by driver.modules."""
    replaces: tuple[ModuleName, ...] = ()
    """Modules of the kernel that are unloaded before it is loaded, and come back where it goes."""
    parameters: dict[ModuleParameter, dict[str, Any]] = Field(default_factory=dict)
    """The schema of each of its parameters, as in spec.parameters: an integer, a string or a boolean."""
    network: bool = False
    """Network interfaces hang on it, so that it is not unloaded while one of them carries the node's traffic."""


class HostFile(Model):
    """A folder of user space or of firmware that is put on the host."""

    from_: Annotated[HostPath, Field(alias="from")]
    """A path in a payload."""
    to: PlacePath
    """The path on the host."""


class RecipeDriver(Model):
    """The driver installer of a recipe, and what it brings to a host."""

    image: PartName = keywords.INSTALLER_IMAGE
    """One of the images; driver-installer is KAE's, without a driver, unless the recipe has one of this name."""
    version: PartName | None = None
    """The image whose version is that of the driver; absent: the installer's."""
    sources: Annotated[tuple[SourceName, ...], Field(min_length=1)] = ("prebuilt",)
    """Where modules may come from; a policy has the first one by default, but for packages, which it names."""
    payloads: tuple[RecipePayload, ...] = ()
    """What is taken out of other images."""
    modules: Annotated[tuple[RecipeModule, ...], Field(min_length=1)]
    """The modules, in the order of loading."""
    nodes: tuple[DevicePath, ...] = ()
    """Device nodes that are there when the driver is loaded."""
    files: tuple[HostFile, ...] = ()
    """User space and firmware on the host."""


Permissions = Literal["r", "w", "m", "rw", "rm", "wm", "rwm"]
"""Those of cgroups: read, write and mknod (DeviceSpec of the kubelet's device plugin API)."""
ExtendedResource = Annotated[
    str,
    # A resource of containers (forms.ResourceName) with a domain.
    forms.text(
        r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
        200,
        "a resource with a domain, such as example.com/npu",
    ),
]
Counted = Annotated[
    str,
    # `filterExtendedResource` of nfd-master: a quantity, here a whole one, or @ and the three parts of an attribute.
    forms.text(
        r"([0-9]{1,15}|[0-9]{1,6}([kMGT]|[KMGT]i)|@[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){2}(\.[A-Za-z0-9_.-]+)?)",
        200,
        'a whole number, or the attribute of a feature, such as "@cpu.security.sgx.epc"',
    ),
]
Variables = dict[policy.VariableName, Annotated[str, Field(max_length=4096)]]


class GroupPath(Model):
    """Device nodes of a group."""

    path: DeviceGlob
    """The node, or a glob that is walked in step with those of the group's other paths."""
    as_: Annotated[TargetPath | None, Field(alias="as")] = None
    """The path in the container; absent: that of the host."""
    permissions: Permissions = "rw"
    """What a container may do with it."""
    limit: Annotated[int, Field(ge=1, le=128)] = 1
    """The devices that one node may be a part of."""
    optional: bool = False
    """A device is there without it."""


class DeviceGroup(Model):
    """Device nodes that make up one device; those of PCI functions are of one function."""

    paths: Annotated[tuple[GroupPath, ...], Field(min_length=1)]
    """Its nodes."""
    vendor: PciId | None = None
    """The PCI vendor id that its functions have; absent: any. Nodes of no function are then none of it."""
    driver: Annotated[
        str | None, forms.text("[A-Za-z0-9_-]+", 63, "the name of a driver in /sys/bus/pci/drivers, such as xe")
    ] = None
    """The kernel driver that its functions are bound to; absent: any. Nodes of no function are then none of it."""


class InjectedNode(Model):
    """A device node that a container gets beside its device."""

    path: DeviceGlob
    """The node on the host, or a glob."""
    as_: Annotated[TargetPath | None, Field(alias="as")] = None
    """The path in the container; absent: that of the host."""
    permissions: Permissions = "rw"
    """What the container may do with it."""
    optional: bool = False
    """A container starts without it."""


class InjectedMount(Model):
    """A file or folder of the host that a container gets."""

    path: HostGlob
    """The path on the host, or a glob."""
    as_: Annotated[TargetPath | None, Field(alias="as")] = None
    """The path in the container; absent: that of the host."""
    readOnly: bool = True
    """The container cannot write to it."""
    optional: bool = False
    """A container starts without it."""


class InjectedFile(Model):
    """A file that a container gets, with a text of the recipe."""

    name: PartName
    """Its name on the host."""
    as_: Annotated[HostPath, Field(alias="as")]
    """The path in the container."""
    text: Annotated[str, Field(max_length=65536)]
    """Its content."""


class RecipeInjection(Model):
    """What a container gets beside its device, where a condition holds."""

    when: program.Condition = None
    """Only where this holds."""
    nodes: tuple[InjectedNode, ...] = ()
    """Device nodes."""
    mounts: tuple[InjectedMount, ...] = ()
    """Files and folders of the host."""
    env: Annotated[Variables, or_parameter("a map of environment variables", "object")] = Field(default_factory=dict)
    """Environment variables."""
    preload: tuple[LibraryPath, ...] = ()
    """Libraries that LD_PRELOAD names."""
    files: tuple[InjectedFile, ...] = ()
    """Files with a text of the recipe."""


class RecipeResource(Model):
    """A resource that containers ask for."""

    name: ExtendedResource
    """The extended resource."""
    class_: Annotated[Literal["char", "token", "uacce", "vfio"], Field(alias="class")]
    """What one device of it is: a group of device nodes (char), a number (token), a PCI function with an entry in
    /sys/class/uacce, or an IOMMU group of functions that are bound to vfio-pci."""
    kind: PartName | None = None
    """The kind of match.pci whose functions are its devices (uacce and vfio)."""
    groups: Annotated[tuple[DeviceGroup, ...], Field(min_length=1)] | None = None
    """Its devices (char)."""
    count: Annotated[int | None, or_parameter("a whole number from 1 to 10000", "integer", 1, 10000)] = None
    """The number of its devices (token)."""
    shares: Annotated[int, or_parameter("a whole number from 1 to 128", "integer", 1, 128)] = 1
    """Containers that may share one device."""
    requires: tuple[HostPath, ...] = ()
    """Paths of the host without which its devices are unhealthy."""
    profiles: Annotated[
        dict[PartName, Variables], or_parameter("a map of profiles to environment variables", "object")
    ] = Field(default_factory=dict)
    """Further resources NAME-PROFILE, each with environment variables of its own (token)."""
    inject: tuple[RecipeInjection, ...] = ()
    """What a container gets beside its device."""


class RecipePlugin(Model):
    """The device plugin of a recipe."""

    image: PartName = keywords.PLUGIN_IMAGE
    """One of the images, named kae-device-plugin in its registry; device-plugin is kae's unless the recipe has one."""
    resources: Annotated[tuple[RecipeResource, ...], Field(min_length=1)]
    """The resources that it offers."""


class PciKind(Model):
    """PCI functions of one kind; a node has the hardware with one of any kind."""

    kind: PartName
    """A part of the names of labels."""
    vendor: PciId
    """The PCI vendor id."""
    devices: tuple[PciId, ...] = ()
    """PCI device ids of physical functions; without any, every function of the classes."""
    virtual: tuple[PciId, ...] = ()
    """PCI device ids of virtual functions."""
    classes: tuple[PciId, ...] = ()
    """PCI classes that the functions have; without any, all."""


class FeatureTerm(Model):
    """A condition on an attribute of a feature (MatchExpression of NFD's NodeFeatureRule)."""

    op: Literal["In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Lt", "GtLt", "IsTrue", "IsFalse"]
    """The operator."""
    value: tuple[Annotated[str, Field(max_length=200)], ...] = ()
    """What the operator compares with."""


class Feature(Model):
    """A feature of NFD, and conditions on its attributes."""

    feature: Annotated[str, forms.text(r"[a-z]+\.[a-z]+", 63, "a feature of NFD, such as cpu.cpuid")]
    """The feature."""
    matchExpressions: dict[Annotated[str, Field(min_length=1, max_length=200)], FeatureTerm]
    """The conditions by attribute; all of them hold."""


class Everywhere(Model):
    """Every node that a policy selects."""


class Alternative(Model):
    """One way in which a node may have the hardware: all of it holds."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    pci: Annotated[tuple[PciKind, ...], Field(min_length=1)] | None = None
    """A PCI function of one of these."""
    features: Annotated[tuple[Feature, ...], Field(min_length=1)] | None = None
    """Features of NFD; all of them hold."""


class Match(Model):
    """How the nodes with the hardware are known: by pci, features and any together, or by labels or all alone."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    pci: Annotated[tuple[PciKind, ...], Field(min_length=1)] | None = None
    """By PCI functions, which NFD labels and counts."""
    features: Annotated[tuple[Feature, ...], Field(min_length=1)] | None = None
    """By other features of NFD; all of them hold."""
    any: Annotated[tuple[Alternative, ...], Field(min_length=1, max_length=8)] | None = None
    """By further conditions, of which at least one holds."""
    extended: dict[ExtendedResource, Counted] | None = None
    """Resources that NFD gives the nodes with the hardware (extendedResources of its NodeFeatureRule): a number, or the
    attribute of a feature, such as "@cpu.security.sgx.epc"."""
    labels: dict[forms.LabelKey, Annotated[tuple[forms.LabelValue, ...], Field(min_length=1)]] | None = None
    """By labels that somebody else sets, each with the values that it may have."""
    all: Everywhere | None = None
    """Every node that a policy selects."""


class Parameters(Model):
    """The values that a policy of the recipe may give: a part of JSON Schema."""

    properties: dict[ParameterName, dict[str, Any]] = Field(default_factory=dict)
    """The schema of each parameter, with these keywords: type, enum, pattern, minLength, maxLength, minimum, maximum,
    items with maxItems, properties with required, additionalProperties with maxProperties, default, description."""
    required: tuple[ParameterName, ...] = ()
    """Parameters that every policy gives; a default does not count as given."""


class RecipeImage(Model):
    """An image of the stack, unless a policy names another."""

    repository: forms.ImagePart = release.REPOSITORY
    """Registry and path before the image's name."""
    image: policy.DriverImagePart
    """The image's name."""
    version: policy.DriverImagePart = "latest"
    """A tag, or a digest `sha256:…`."""


Claim = Annotated[
    str,
    forms.text(
        r"((path|socket):(/[A-Za-z0-9_.-]+)+|[a-z0-9.-]+/[A-Za-z0-9_.-]+)",
        317,
        "path: or socket: with an absolute path, or a resource such as example.com/npu",
    ),
]


class RecipeSpec(Model):
    """A stack: its hardware, its parameters and images, its driver and its resources."""

    title: Annotated[str, forms.text(r"[^\x00-\x1f\x7f]+", 100, "one line of 1 to 100 characters")]
    """Its name for people."""
    match: Match
    """The nodes with its hardware."""
    parameters: Parameters = base.defaults()
    """What a policy may set in values."""
    exclusive: tuple[Annotated[tuple[ParameterName, ...], Field(min_length=2)], ...] = ()
    """Parameters of which at most one of each list is true; one that is no boolean counts where it is set."""
    images: dict[PartName, RecipeImage] = Field(default_factory=dict)
    """Every image of the stack by name."""
    driver: RecipeDriver | None = None
    """Its driver; absent: it has none."""
    devicePlugin: RecipePlugin | None = None
    """Its resources; absent: it has none."""
    programs: Annotated[tuple[program.Program, ...], Field(max_length=8)] = ()
    """Vendors' own programs."""
    admission: Annotated[tuple[program.Admission, ...], Field(max_length=8)] = ()
    """What the API server adds to pods that ask for its resources."""
    claims: tuple[Claim, ...] = ()
    """What a node has only once, beside its modules, files and resources."""


class RecipeMetadata(base.Metadata):
    """The recipe's name: that of its folder, and a DNS label of at most 20 characters without `--`."""

    name: RecipeName


class Recipe(base.Document):
    """A stack of software for an accelerator, which DevicePolicies bring to nodes."""

    kind: Literal["Recipe"]
    metadata: RecipeMetadata
    spec: RecipeSpec
