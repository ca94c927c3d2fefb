"""KAEPolicy: which nodes, and what they get. Names and defaults are those of the KAE Operator's guide."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import ConfigDict, Field

from compiler import names, release
from compiler.fleet import forms
from compiler.formats import urls
from compiler.model import base
from compiler.model.base import Model

Replicas = Annotated[int, Field(ge=1, le=128)]
Vfs = Annotated[int, Field(ge=0, le=63)]
Mode = Literal["uacce", "vfio"]

if TYPE_CHECKING:
    Operator: TypeAlias = Model
    Sharing: TypeAlias = Model
    Modes: TypeAlias = Model
    Sriov: TypeAlias = Model
else:
    Operator = base.of_kinds(
        "Operator",
        "The kinds of devices that the policy serves; at least one.",
        bool,
        lambda kind: (kind.switch, kind.enabled, f"Serve {kind.plural} ({kind.use}) as {kind.resource}."),
    )
    Sharing = base.of_kinds(
        "Sharing",
        "Containers that may share one device, for each kind.",
        Replicas,
        lambda kind: (kind.name, 1, f"Of one {kind.name.upper()} device."),
    )
    Modes = base.of_kinds(
        "Modes",
        "How the devices of each kind are offered: uacce, to containers; vfio, as IOMMU groups to virtual machines.",
        Mode,
        lambda kind: (kind.name, "uacce", f"{kind.plural}; vfio as {kind.vfio_resource}."),
    )
    Sriov = base.of_kinds(
        "Sriov",
        "Virtual functions for each physical function; an absent kind is left alone.",
        Vfs | None,
        lambda kind: (kind.name, None, f"Of each {kind.name.upper()} device."),
    )


class DriverMetrics(base.Metrics):
    """Metrics of the driver installer."""

    port: forms.Port = 9511
    """On the pod's own address."""


Repository = Annotated[
    str,
    forms.url(
        f"{urls.HTTP}|{urls.FILE}",
        "the URL of a package repository (https://, http:// or file:///)",
        "Remove the URL; without repositories, those of the hosts' /etc/yum.repos.d are used, with their credentials.",
    ),
]
PackageName = Annotated[
    str, forms.text(r"[A-Za-z0-9._+${}~-]+", 250, "the name of a package, such as uacce-${DRIVER_VERSION}")
]


class BuildSource(Model):
    """The modules are compiled on the node against the kernel-devel package of its running kernel."""

    repositories: tuple[Repository, ...] = ()
    """Package repositories; none means the node's own. file:// is a path of the host."""
    credentialsSecret: forms.ObjectName | None = None
    """A Secret of the namespace with the keys username and password, for these repositories."""


class PackagesSource(Model):
    """The modules come as rpm packages."""

    names: Annotated[tuple[PackageName, ...], Field(min_length=1)]
    """Packages in the order of installation; `${DRIVER_VERSION}` stands for driver.version."""
    repositories: tuple[Repository, ...] = ()
    """Package repositories; none means the node's own. file:// is a path of the host."""
    credentialsSecret: forms.ObjectName | None = None
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


DriverImagePart = Annotated[
    str,
    forms.text(
        r"([A-Za-z0-9._:/@-]|\$\{KERNEL_(FULL_VERSION|XYZ)\})*",
        500,
        "a part of an image reference (at most 500 letters, digits, '.', '_', ':', '/', '@' and '-', and "
        "${KERNEL_FULL_VERSION} or ${KERNEL_XYZ})",
    ),
]
Kernel = Annotated[
    str, forms.text(names.KERNEL_PATTERN, names.KERNEL_LENGTH, "a kernel's full version, as `uname -r` prints it")
]


class Overrides(Model):
    """What a part of a policy's nodes gets instead: frozen over wave over mapping over driver, field by field."""

    version: DriverImagePart | None = None
    """Instead of driver.version."""
    repository: forms.ImagePart | None = None
    """Instead of driver.repository."""
    image: DriverImagePart | None = None
    """Instead of driver.image."""
    source: Source | None = None
    """Instead of driver.source, as a whole."""
    state: Literal["Present", "Absent"] | None = None
    """Instead of driver.state."""


class Named(Model):
    """A part of a policy's nodes with a name."""

    name: forms.PolicyName
    """A part of the pool's name."""


_RELEASE = "[A-Za-z0-9._-]+"
SystemVersion = Annotated[str, forms.text(_RELEASE, 63, 'a VERSION_ID of os-release in quotes, such as "22.04"')]


class System(Model):
    """An operating system, as /etc/os-release has it and NFD reports it."""

    id: Annotated[str, forms.text(_RELEASE, 63, "an ID of os-release, such as ubuntu")]
    """Its ID."""
    versions: Annotated[tuple[SystemVersion, ...], Field(min_length=1)] | None = None
    """Its VERSION_ID, one of these; absent: any."""


class KernelGroup(Named):
    """Nodes with certain kernels, by either regexp or literal."""

    regexp: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """RE2, unanchored, against the kernel's full version."""
    literal: Kernel | None = None
    """The kernel's full version."""
    os: System | None = None
    """Only with this operating system; absent: with any."""
    kernels: Annotated[tuple[Kernel, ...], Field(min_length=1)] | None = None
    """The kernels that there are images for, where an image's name holds `${KERNEL_…}`; absent means those of the
    inventory."""


class KernelMapping(KernelGroup, Overrides):
    """Nodes with certain kernels, by either regexp or literal; the first mapping that matches takes a node."""


class Group(Named):
    """Nodes of a policy that are chosen when it is compiled, and then are known by name."""

    nodes: Annotated[tuple[forms.ObjectName, ...], Field(min_length=1)] | None = None
    """The nodes by name."""
    inventorySelector: base.NodeSelector | None = None
    """Labels of nodes of the inventory; who they are is fixed by each compile."""
    clusters: Annotated[tuple[forms.Glob, ...], Field(min_length=1)] | None = None
    """Names or shell globs of clusters in which it holds; absent means every cluster of the policy."""


class Share(Group):
    """Nodes of a policy: one of percent, nodes and inventorySelector."""

    nodes: tuple[forms.ObjectName, ...] | None = None
    """The nodes by name; [] for a wave that has none yet, so that the first node of it moves alone."""
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
    """Pods of each DaemonSet of driver installers that may be replaced at a time."""
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
    """The image's name; the whole reference where repository and version are both empty."""
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


class DaemonSets(Model):
    """What every pod of the policy gets, the driver's and the device plugin's."""

    labels: dict[forms.LabelKey, forms.LabelValue] = Field(default_factory=dict)
    """Labels on the pods; never a part of selectors."""
    tolerations: tuple[base.Toleration, ...] = ()
    """Taints that every pod of the policy bears; NFD's workers bear them too."""
    priorityClassName: forms.ObjectName = "system-node-critical"
    """The priority of the pods; it must exist in the cluster."""


class DevicePluginMetrics(base.Metrics):
    """Metrics of the device plugin."""

    port: forms.Port = 9510
    """On the pod's own address."""


AbsolutePath = Annotated[
    str, forms.text(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+", 200, "an absolute path, such as /etc/kae")
]
LibrariesPath = Annotated[
    str,
    # The device plugin mounts the folder above it, which is not the root folder.
    forms.text(r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*){2,}", 200, "the path of a folder in another, such as /usr/lib64"),
]
VariableName = Annotated[
    str, forms.text(r"[A-Za-z_][A-Za-z0-9_]*", 200, "the name of an environment variable, such as KAE_LOG_LEVEL")
]
EngineSetting = Annotated[str, forms.text(r"[A-Za-z0-9_./:,+-]+", 200, "a value without spaces and quotes, such as 1")]


class Inject(Model):
    """What a container that asked for a device gets beside the device node."""

    maskSysfs: bool = True
    """Show the container its own devices only, below /sys/class/uacce."""
    libraries: bool = False
    """Mount the host's KAE libraries and engines (/opt/kae)."""
    librariesPath: LibrariesPath | None = None
    """The host's folder with libwd.so and its engines, such as /usr/local/lib, where the driver is pre-installed;
    absent: the driver installer's, /opt/kae/lib."""
    opensslConf: Literal["1.1", "3.0"] | None = None
    """Mount an openssl.cnf that loads the KAE engine, for this generation of OpenSSL."""
    opensslSettings: dict[VariableName, EngineSetting] | None = None
    """Settings of the engine in this openssl.cnf, such as KAE_CMD_ENABLE_SM4: "0"; over those of KAE's guide."""
    env: dict[VariableName, Annotated[str, Field(max_length=4096)]] | None = None
    """Environment variables, such as KAE_LOG_LEVEL; over those of the device plugin, below those of the pod, and by the
    interface DRA over these, too."""
    mounts: dict[AbsolutePath, AbsolutePath] | None = None
    """Files and folders of the host, read-only: the path in the container, and the path on the host."""


class Dra(Model):
    """How claims get devices, by the interface DRA."""

    queues: Literal["Exclusive", "Shared"] = "Exclusive"
    """Whether a claim has a device of the class uacce alone, or an amount of its queues (the capacity `queues`)."""


class Offer(Model):
    """What a device plugin of any recipe has: its pace, and the choice between devices."""

    maxUnavailable: base.IntOrPercent = "10%"
    """Pods of the DaemonSet that may be replaced at a time."""
    allocationPolicy: Literal["Balanced", "Packed"] = "Balanced"
    """Which device is handed out first: the least used, or the most used that still has room."""
    interface: Literal["DevicePlugin", "DRA"] = "DevicePlugin"
    """How nodes offer devices: by the kubelet's device plugins, or by Dynamic Resource Allocation (Kubernetes 1.36,
    containerd 2.0 or CRI-O 1.28)."""
    dra: Dra = base.defaults()
    """Of the interface DRA: how claims get devices."""
    metrics: DevicePluginMetrics = base.defaults()
    """Metrics of the device plugin."""


class DevicePlugin(Offer, base.Component):
    """The device plugin: how devices are offered to containers."""

    enabled: bool = True
    """false: a device plugin is pre-installed, and KAE's does not run."""
    image: forms.ImagePart = "kae-device-plugin"
    """The image's name; the whole reference where repository and version are both empty."""
    version: forms.ImagePart = release.version("kae-device-plugin")
    """A tag, or a digest `sha256:…`."""
    mode: Modes = base.defaults()
    """How devices are offered."""
    sharing: Sharing = base.defaults()
    """Containers that may share one device."""
    inject: Inject = base.defaults()
    """What a container gets beside its device."""
    deviceNodes: DeviceNodes | None = None
    """Mode and group of the device nodes of a pre-installed driver (driver.enabled: false); absent: as they are."""


KubeletDir = Annotated[
    str,
    # The plugin's sockets lie in it, and the address of a Unix socket has at most 107 bytes (unix(7)).
    forms.text(
        r"(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+",
        60,
        "the path of a folder, such as /var/lib/k0s/kubelet (at most 60 characters)",
    ),
]


class Selection(Model):
    """Which nodes of which clusters, and what all their pods have."""

    clusters: Annotated[tuple[forms.Glob, ...], Field(min_length=1)] | None = None
    """Names or shell globs of clusters; absent means every cluster."""
    nodeSelector: base.NodeSelector | None = None
    """Absent means every node. The cluster evaluates it, at any time."""
    default: bool = False
    """Take the nodes that no other policy of the cluster matches."""
    kubeletDir: KubeletDir = "/var/lib/kubelet"
    """The root folder of the nodes' kubelet (its --root-dir), such as /var/lib/k0s/kubelet of k0s."""
    daemonSets: DaemonSets = base.defaults()
    """What every pod of the policy gets."""


class KAEPolicySpec(Selection):
    """Which nodes of which clusters, and the components that they get; an empty one would be for every node."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    operator: Operator = base.defaults()
    """The kinds of devices to serve."""
    driver: Driver = base.defaults()
    """The driver, and how hosts change to it."""
    devicePlugin: DevicePlugin = base.defaults()
    """How devices are offered to containers."""


class PolicyMetadata(base.Metadata):
    """The policy's name: a DNS label of at most 30 characters without `--`."""

    name: forms.PolicyName


class KAEPolicy(base.Document):
    """Which nodes get the KAE driver and device plugin, and how."""

    kind: Literal["KAEPolicy"]
    metadata: PolicyMetadata
    spec: KAEPolicySpec
