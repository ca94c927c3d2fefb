"""The config files of the node programs and of the watcher: the compiler writes, the programs read them."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from compiler.model import base, policy
from compiler.model import driver as drivers
from compiler.model import watcher as watchers
from compiler.model.base import Model
from compiler.model.stacks import fields
from compiler.model.stacks import resources as stacks

_KaeResource = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+$",
        max_length=317,
        json_schema_extra=base.form("an extended resource, such as example.com/device"),
    ),
]


class Kind(Model):
    """A device kind: of KAE, out of the compiler's table, or of a recipe, with `vendor` and the fields below it."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"required": ["vendor"]},
            "then": {
                "properties": {"resource": False, "pf": False, "vf": False, "module": False, "mode": False},
                "if": {"required": ["devices"], "properties": {"devices": {"minItems": 1}}},
                "else": {"required": ["classes"], "properties": {"classes": {"minItems": 1}}},
            },
            "else": {
                "required": ["resource", "pf", "vf", "module"],
                "properties": {"devices": False, "virtual": False, "classes": False},
            },
        }
    )

    name: base.DnsLabel
    """A part of the names of sockets, too."""
    resource: _KaeResource | None = None
    """The extended resource that a pod asks for."""
    pf: fields.PciId | None = None
    """PCI device id of the physical function."""
    vf: fields.PciId | None = None
    """PCI device id of the virtual function."""
    module: fields.ModuleName | None = None
    """The kernel module, which is also the name of its PCI driver."""
    mode: Literal["vfio"] | None = None
    """vfio: it is offered as IOMMU groups of functions that are bound to vfio-pci."""
    vendor: fields.PciId | None = None
    """PCI vendor id of a recipe's kind; that of KAE is the config's."""
    devices: tuple[fields.PciId, ...] | None = None
    """PCI device ids; absent: every device of the classes."""
    virtual: tuple[fields.PciId, ...] | None = None
    """PCI device ids of virtual functions; others are known by their physical function."""
    classes: tuple[fields.PciId, ...] | None = None
    """The first four digits of PCI classes; absent: every class."""


class MetricsEndpoint(Model):
    """Where metrics are served; a config without it serves none."""

    port: base.Port


class Program(Model):
    """What every program's config says."""

    version: Literal[1] = 1
    """The config's own format."""
    cluster: str
    metrics: MetricsEndpoint | None = None


class NodeProgram(Program):
    """What both programs on a node are told."""

    policy: str


class Lease(Model):
    """The right to swap a driver: the first free one of these Leases is taken."""

    namespace: str
    names: tuple[str, ...]


class DaemonSetRef(Model):
    """The installer's own DaemonSet, which it asks for before it cleans up."""

    namespace: str
    name: str


class Kernels(Model):
    """The kernels that a pool is for."""

    pattern: str
    """RE2, unanchored, against the full release of the running kernel."""
    unless: tuple[str, ...] = ()
    """Patterns that come first: a kernel that one of them matches belongs to another pool."""


class ModuleRule(Model):
    """What a module of a recipe needs beyond its load."""

    replaces: tuple[fields.ModuleName, ...] = ()
    """Modules of the kernel that are unloaded first, and loaded again by a rollback; perhaps one of its own name."""
    network: bool = False
    """Interfaces hang on it: it stays while one carries the node's own traffic."""


class Payload(Model):
    """An image whose files an init container has copied to /payload/<name>."""

    name: base.DnsLabel
    paths: Annotated[tuple[fields.HostPath, ...], Field(min_length=1)]
    """Folders of the image."""


class HostFiles(Model):
    """A folder of a payload that the host gets."""

    model_config = ConfigDict(populate_by_name=True)

    from_: Annotated[fields.HostPath, Field(alias="from")]
    """Its path in a payload."""
    to: fields.OptPath
    """Its path on the host."""


class DriverConfig(NodeProgram):
    """What the driver installer brings its host to."""

    model_config = ConfigDict(
        populate_by_name=True,
        json_schema_extra={
            "if": {"required": ["recipe"]},
            "then": {
                "required": ["class"],
                "properties": {
                    "vendor": False,
                    "presentWhen": False,
                    "deviceNodes": False,
                    "sriov": {"maxProperties": 0},
                    "kinds": {"items": {"required": ["vendor"]}},
                },
            },
            "else": {
                "required": ["vendor"],
                "properties": {"class": False, "kinds": {"minItems": 1, "items": {"required": ["module"]}}},
            },
        },
    )

    class_: Annotated[Literal["none"] | None, Field(alias="class")] = None
    """none: a driver without devices of the class uacce; absent: uacce."""
    recipe: fields.RecipeName | None = None
    """Absent: the stack is KAE."""
    vendor: fields.PciId | None = None
    """PCI vendor id of KAE's devices; the kinds of a recipe have their own."""
    kinds: tuple[Kind, ...]
    """A recipe may have none."""
    pool: str
    daemonSet: DaemonSetRef
    state: Literal["Present", "Absent"]
    driverVersion: str
    """The version of the driver: the image's tag or digest."""
    installPolicy: Literal["IfNotPresent", "Always"]
    presentWhen: Literal["Loaded"] | None = None
    """Absent: a driver of others is present when its devices have entries."""
    enabledCleanup: bool
    kernels: Kernels | None = None
    """Absent: the pool is for every kernel."""
    source: drivers.Source
    modules: Annotated[tuple[fields.ModuleName, ...], Field(min_length=1)]
    """The modules of the enabled kinds and those below them, in the order of loading; unloaded in reverse."""
    moduleParameters: dict[fields.ModuleName, dict[str, fields.ParameterValue]] = Field(default_factory=dict)
    moduleRules: dict[fields.ModuleName, ModuleRule] | None = None
    """Only of the modules that have one."""
    leftOut: tuple[fields.ModuleName, ...] | None = None
    """Modules of the recipe that the policy leaves to the kernel: they are not taken from images."""
    networkForce: bool | None = None
    """true: modules are swapped although an interface of theirs carries the node's own traffic."""
    payloads: tuple[Payload, ...] | None = None
    nodes: tuple[fields.DevicePath, ...] | None = None
    """Device nodes that are there once the modules are loaded."""
    files: tuple[HostFiles, ...] | None = None
    resources: tuple[stacks.ExtendedResource, ...] | None = None
    """Extended resources whose holders are drained; KAE's are those of its kinds."""
    sriov: dict[base.DnsLabel, drivers.Vfs] = Field(default_factory=dict)
    """Kind and virtual functions for each physical function; an absent kind is left alone."""
    deviceNodes: drivers.DeviceNodes | None = None
    """Absent: mode 0666."""
    drain: drivers.Drain
    leases: Lease


class ResourceInject(Model):
    """What a container gets beside its devices of a recipe's resource."""

    nodes: tuple[stacks.InjectedNode, ...] = ()
    mounts: tuple[stacks.InjectedMount, ...] = ()
    env: stacks.Variables = Field(default_factory=dict)
    preload: tuple[fields.LibraryPath, ...] = ()
    """Libraries that LD_PRELOAD names."""
    files: tuple[stacks.InjectedFile, ...] = ()


class _Resource(Model):
    """A resource of a recipe."""

    model_config = ConfigDict(populate_by_name=True)

    name: stacks.ExtendedResource
    requires: tuple[fields.HostPath, ...] = ()
    """Paths on the host without which its devices are unhealthy."""
    inject: ResourceInject = base.defaults()


class TokenResource(_Resource):
    """A number of equal tokens, for software that any container of the node may use."""

    class_: Annotated[Literal["token"], Field(alias="class")]
    count: Annotated[int, Field(ge=1, le=10000)]
    shares: policy.Replicas = 1


class CharResource(_Resource):
    """Device nodes by their paths."""

    class_: Annotated[Literal["char"], Field(alias="class")]
    groups: Annotated[tuple[stacks.DeviceGroup, ...], Field(min_length=1)]
    shares: policy.Replicas = 1


class VfioResource(_Resource):
    """IOMMU groups of functions that are bound to vfio-pci; nobody can share one."""

    class_: Annotated[Literal["vfio"], Field(alias="class")]
    kind: base.DnsLabel


class UacceResource(_Resource):
    """Functions with an entry in the class uacce."""

    class_: Annotated[Literal["uacce"], Field(alias="class")]
    kind: base.DnsLabel
    shares: policy.Replicas = 1


PluginResource = Annotated[TokenResource | CharResource | VfioResource | UacceResource, Field(discriminator="class_")]


class DevicePluginConfig(NodeProgram):
    """How the device plugin offers the devices of its node: KAE's by `kinds`, those of a recipe by `resources`."""

    model_config = ConfigDict(
        json_schema_extra={
            "if": {"required": ["recipe"]},
            "then": {
                "required": ["resources"],
                "properties": {
                    "vendor": False,
                    "sharing": False,
                    "inject": False,
                    "deviceNodes": False,
                    "kinds": {"items": {"required": ["vendor"]}},
                },
            },
            "else": {
                "required": ["vendor"],
                "properties": {"resources": False, "kinds": {"minItems": 1, "items": {"required": ["module"]}}},
            },
        }
    )

    recipe: fields.RecipeName | None = None
    """Absent: the stack is KAE, which alone has `vendor`, `sharing`, `inject` and `deviceNodes`."""
    vendor: fields.PciId | None = None
    """PCI vendor id of KAE's devices; the kinds of a recipe have their own."""
    kinds: tuple[Kind, ...]
    """Those that it serves."""
    resources: Annotated[tuple[PluginResource, ...], Field(min_length=1)] | None = None
    """What a recipe's plugin offers."""
    sharing: dict[base.DnsLabel, policy.Replicas] | None = None
    """Kind and replicas of each device."""
    allocationPolicy: Literal["Balanced", "Packed"]
    inject: policy.Inject | None = None
    deviceNodes: drivers.DeviceNodes | None = None
    """Absent: the device nodes stay as they are."""


class WatcherConfig(Program):
    """What the watcher reads, and where it commits."""

    cluster: base.ClusterName
    """Its inventory is the file of this name."""
    repository: watchers.WatcherRepository
    intervalSeconds: Annotated[int, Field(ge=1, le=10**18)]
    """Between full lists of the nodes."""
    quietSeconds: Annotated[int, Field(ge=0, le=86400)]
    """How long a node stays as it is before an addition or a change is committed."""
    removalQuietSeconds: Annotated[int, Field(ge=0, le=86400)]
    """How long it does before a removal is."""
    minCommitSeconds: Annotated[int, Field(ge=0, le=86400)]
    """Between two commits."""
    maxLossPercent: Annotated[int, Field(ge=0, le=100)]
    """The share of the nodes that may lose something within 24 hours; more is refused."""
    maxLossNodes: Annotated[int, Field(ge=0, le=100_000)] = 1
    """So many nodes may lose something within 24 hours, whatever their share is."""
    labels: tuple[watchers.LabelPrefix, ...] = ()
    """The labels that the inventory keeps: keys, or beginnings of keys that end with / or *; without any, all."""
    ignoreLabels: tuple[watchers.LabelGlob, ...] = ()
    """Label keys, or globs of them, that never enter the inventory."""
    author: watchers.Author
    messageTemplate: Annotated[str, Field(min_length=1, max_length=2000)]
    """The commit message; {cluster} and {summary} are filled in."""
    signing: Literal["ssh"] | None = None
    """Absent: commits are not signed."""
    pushOptions: tuple[watchers.PushOption, ...] = ()
    """Sent with each push (git-push(1), --push-option)."""
