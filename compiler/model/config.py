"""The config files of the node programs and of the watcher: the compiler writes, the programs read them."""

from typing import Annotated, Literal

from pydantic import Field

from compiler.model import base, policy
from compiler.model import driver as drivers
from compiler.model import watcher as watchers
from compiler.model.base import Model

_PciId = Annotated[
    str,
    Field(pattern=r"^[0-9a-f]{4}$", max_length=4, json_schema_extra=base.form("four hexadecimal digits")),
]

_Module = Annotated[
    str,
    Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=55, json_schema_extra=base.form("the name of a module")),
]


class Kind(Model):
    """A device kind, out of the compiler's table."""

    name: base.DnsLabel
    """A part of the names of sockets, too."""
    resource: Annotated[
        str,
        Field(
            pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+$",
            max_length=317,
            json_schema_extra=base.form("an extended resource, such as example.com/device"),
        ),
    ]
    """The extended resource that a pod asks for."""
    pf: _PciId
    """PCI device id of the physical function."""
    vf: _PciId
    """PCI device id of the virtual function."""
    module: _Module
    """The kernel module, which is also the name of its PCI driver."""
    mode: Literal["vfio"] | None = None
    """vfio: it is offered as IOMMU groups of functions that are bound to vfio-pci."""


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
    vendor: _PciId
    """PCI vendor id of the devices."""
    kinds: Annotated[tuple[Kind, ...], Field(min_length=1)]


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


class DriverConfig(NodeProgram):
    """What the driver installer brings its host to."""

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
    modules: Annotated[tuple[_Module, ...], Field(min_length=1)]
    """The modules of the enabled kinds and those below them, in the order of loading; unloaded in reverse."""
    moduleParameters: dict[_Module, dict[str, int]] = Field(default_factory=dict)
    sriov: dict[base.DnsLabel, drivers.Vfs] = Field(default_factory=dict)
    """Kind and virtual functions for each physical function; an absent kind is left alone."""
    deviceNodes: drivers.DeviceNodes | None = None
    """Absent: mode 0666."""
    drain: drivers.Drain
    leases: Lease


class DevicePluginConfig(NodeProgram):
    """How the device plugin offers the devices of its node; `kinds` are the ones that it serves."""

    sharing: dict[base.DnsLabel, policy.Replicas]
    """Kind and replicas of each device."""
    allocationPolicy: Literal["Balanced", "Packed"]
    inject: policy.Inject
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
