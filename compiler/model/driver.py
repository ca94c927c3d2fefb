"""The driver of a policy: which one a host ends with, by kernel and by group, and how it gets there."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from compiler import names
from compiler.formats import urls
from compiler.model import base, kinds, repositories
from compiler.model.base import Model


class DriverMetrics(base.Metrics):
    """Metrics of the driver installer."""

    port: base.Port = 9511
    """On the pod's own address."""


Repository = Annotated[
    str,
    repositories.url(
        f"{urls.HTTP}|{urls.FILE}",
        "the URL of a package repository (https://, http:// or file:///)",
        "Remove the URL; without repositories, those of the hosts' /etc/yum.repos.d are used, with their credentials.",
    ),
]
PackageName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._+${}~-]+$",
        max_length=250,
        json_schema_extra=base.form("the name of a package, such as uacce-${DRIVER_VERSION}"),
    ),
]


class BuildSource(Model):
    """The modules are compiled on the node against the kernel-devel package of its running kernel."""

    repositories: tuple[Repository, ...] = ()
    """Package repositories; none means the node's own. file:// is a path of the host."""
    credentialsSecret: base.ObjectName | None = None
    """A Secret of the namespace with the keys username and password, for these repositories."""


class PackagesSource(Model):
    """The modules come as rpm packages."""

    names: Annotated[tuple[PackageName, ...], Field(min_length=1)]
    """Packages in the order of installation; `${DRIVER_VERSION}` stands for driver.version."""
    repositories: tuple[Repository, ...] = ()
    """Package repositories; none means the node's own. file:// is a path of the host."""
    credentialsSecret: base.ObjectName | None = None
    """A Secret of the namespace with the keys username and password, for these repositories."""
    gpgCheck: bool = True
    """Refuse packages without a trusted signature."""


class PrebuiltSource(Model):
    """The image holds the modules, below /opt/lib/modules/<kernel>/."""


class InTreeSource(Model):
    """The modules of the kernel itself."""


class Source(Model):
    """Where the driver's modules come from: exactly one of the four."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    build: BuildSource | None = None
    """Compile on the node."""
    packages: PackagesSource | None = None
    """Install rpm packages."""
    prebuilt: PrebuiltSource | None = None
    """Take modules out of the image."""
    inTree: InTreeSource | None = None
    """Use the kernel's own modules."""

    @property
    def name(self) -> str:
        """The field that is set."""
        return next(name for name in type(self).model_fields if getattr(self, name) is not None)


Vfs = Annotated[int, Field(ge=0, le=63)]


if TYPE_CHECKING:
    Sriov: TypeAlias = Model
else:
    Sriov = kinds.model(
        "Sriov",
        "Virtual functions for each physical function; an absent kind is left alone.",
        Vfs | None,
        lambda kind: (kind.name, None, f"Of each {kind.name.upper()} device."),
    )


DriverImagePart = Annotated[
    str,
    Field(
        pattern=r"^([A-Za-z0-9._:/@-]|\$\{KERNEL_(FULL_VERSION|XYZ)\})*$",
        max_length=500,
        json_schema_extra=base.form(
            "a part of an image reference (at most 500 letters, digits, '.', '_', ':', '/', '@' and '-', and "
            "${KERNEL_FULL_VERSION} or ${KERNEL_XYZ})"
        ),
    ),
]
Kernel = Annotated[
    str,
    Field(
        pattern=rf"^{names.KERNEL_PATTERN}$",
        max_length=names.KERNEL_LENGTH,
        json_schema_extra=base.form("a kernel's full version, as `uname -r` prints it"),
    ),
]


class Overrides(Model):
    """What a part of a policy's nodes gets instead: frozen over wave over mapping over driver, field by field."""

    version: DriverImagePart | None = None
    """Instead of driver.version."""
    repository: base.ImagePart | None = None
    """Instead of driver.repository."""
    image: DriverImagePart | None = None
    """Instead of driver.image."""
    source: Source | None = None
    """Instead of driver.source, as a whole."""
    state: Literal["Present", "Absent"] | None = None
    """Instead of driver.state."""


class Named(Model):
    """A part of a policy's nodes with a name."""

    name: base.PolicyName
    """A part of the pool's name."""


class KernelGroup(Named):
    """Nodes with certain kernels, by either regexp or literal."""

    regexp: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """RE2, unanchored, against the kernel's full version."""
    literal: Kernel | None = None
    """The kernel's full version."""
    kernels: Annotated[tuple[Kernel, ...], Field(min_length=1)] | None = None
    """The kernels that there are images for, where an image's name holds `${KERNEL_…}`; absent means those of the
    inventory."""


class KernelMapping(KernelGroup, Overrides):
    """Nodes with certain kernels, by either regexp or literal; the first mapping that matches takes a node."""


class Group(Named):
    """Nodes of a policy that are chosen when it is compiled, and then are known by name."""

    nodes: Annotated[tuple[base.ObjectName, ...], Field(min_length=1)] | None = None
    """The nodes by name."""
    inventorySelector: base.NodeSelector | None = None
    """Labels of nodes of the inventory; who they are is fixed by each compile."""
    clusters: Annotated[tuple[base.Glob, ...], Field(min_length=1)] | None = None
    """Names or shell globs of clusters in which it holds; absent means every cluster of the policy."""


class Share(Group):
    """Nodes of a policy: one of percent, nodes and inventorySelector."""

    percent: Annotated[float, Field(ge=0.01, le=100)] | None = None
    """The share of the policy's nodes, by a hash of their names, that is in this wave or in one before it."""


class Wave(Share, Overrides):
    """Nodes that change earlier than the rest: one of percent, nodes and inventorySelector.

    The first wave that takes a node keeps it.
    """


class Frozen(Group, Overrides):
    """Nodes that stay as they are until this entry is edited; they belong to no wave."""


class Pace(Model):
    """The pace at which hosts change their driver, but for groups of them."""

    maxParallel: Annotated[int, Field(ge=1, le=1000)] = 1
    """Hosts of the policy that may swap their driver at a time, over all its pools."""
    maxUnavailable: base.IntOrPercent = "10%"
    """Pods of each DaemonSet that may be replaced at a time."""
    minReadySeconds: Annotated[int, Field(ge=0, le=3600)] = 30
    """How long a new pod stays Ready before it counts as available."""


class Rollout(Pace):
    """The pace at which hosts change their driver."""

    waves: tuple[Wave, ...] = ()
    """Nodes that change earlier, in order; all others are the rest."""
    frozen: tuple[Frozen, ...] = ()
    """Nodes that never move until their entry is edited."""


class Drain(Model):
    """What happens to pods that hold a device when a module has to be unloaded."""

    enabled: bool = True
    """Evict them; false waits for them to go by themselves."""
    timeoutSeconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """After this long the old driver stays, and the pod says who holds the device."""


class DeviceNodes(Model):
    """Who may open the device nodes; a container also needs the device from the kubelet."""

    mode: Literal["0660", "0666"] = "0666"
    """0660 keeps everybody out but root and the group."""
    group: Annotated[int, Field(ge=0, le=2147483647)] | None = None
    """The number of their group, as in supplementalGroups of a pod; absent: as it is, root's at first."""


class DriverVariable(base.EnvVar):
    """An environment variable of the driver installer with a plain value."""


class Managed(Model):
    """What a driver of any recipe has: its presence on the hosts, and the eviction of pods that hold a device."""

    state: Literal["Present", "Absent"] = "Present"
    """Absent removes the driver from the hosts."""
    enabledCleanup: bool = False
    """Also remove the driver when the DaemonSet itself is deleted."""
    drain: Drain = base.defaults()
    """What becomes of pods that hold a device."""
    metrics: DriverMetrics = base.defaults()
    """Metrics of the driver installer."""


class Driver(Managed, base.Component):
    """The driver installer: which driver a host ends with, and how it gets there."""

    enabled: bool = True
    """false: the driver is pre-installed, and KAE does not touch it."""
    image: DriverImagePart = "kae-driver-installer"
    version: DriverImagePart = "latest"
    """A tag, or a digest `sha256:…`; with kernelMappings it may hold `${KERNEL_FULL_VERSION}` or `${KERNEL_XYZ}`."""
    env: tuple[DriverVariable, ...] = ()
    """INSTALL_POLICY is IfNotPresent (default) or Always; other names are passed on."""
    presentWhen: Literal["Serving", "Loaded"] = "Serving"
    """When a driver that others installed is there for INSTALL_POLICY IfNotPresent: when its devices have entries in
    /sys/class/uacce, or when its modules are Loaded, also for the kernel's own cryptography alone."""
    source: Source = base.defaults(build={})
    """Where the modules come from; one of the four."""
    kernelMappings: tuple[KernelMapping, ...] = ()
    """By kernel: which driver. A node whose kernel none of them matches keeps the driver that it has."""
    moduleParameters: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Module, parameter, value; over the defaults uacce_mode 2 (inTree: 1) and pf_q_num 256."""
    sriov: Sriov = base.defaults()
    """Virtual functions to set up."""
    deviceNodes: DeviceNodes = base.defaults()
    """Mode and group of the device nodes."""
    rollout: Rollout = base.defaults()
    """The pace of a change."""
