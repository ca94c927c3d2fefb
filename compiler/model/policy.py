"""KAEPolicy: which nodes, and what they get. Names and defaults are those of the KAE Operator's guide."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from compiler.model import base
from compiler.model.base import Model

REPOSITORY = "cr.openfuyao.cn/openfuyao"
"""Where the project's images are published."""


class Requirement(Model):
    """A node selector requirement (NodeSelectorRequirement v1 core)."""

    key: base.LabelKey
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """Gt and Lt compare whole numbers; NotIn and DoesNotExist also take a node without the label."""
    values: tuple[base.LabelValue, ...] = ()
    """One or more for In and NotIn, one whole number for Gt and Lt, none otherwise."""


class NodeSelector(Model):
    """Labels that a node must have; every one of them."""

    matchLabels: dict[base.LabelKey, base.LabelValue] = Field(default_factory=dict)
    """Labels with exactly these values."""
    matchExpressions: tuple[Requirement, ...] = ()
    """Requirements on labels."""


class Operator(Model):
    """The kinds of devices that the policy serves; at least one."""

    enabledHPRE: bool = True
    """Serve HPRE devices (public-key work) as openfuyao.com/kae.hpre."""
    enabledSEC: bool = False
    """Serve SEC devices (ciphers and digests) as openfuyao.com/kae.sec."""
    enabledZIP: bool = False
    """Serve ZIP devices (compression) as openfuyao.com/kae.zip."""


class DaemonSets(Model):
    """What every pod of the policy gets, the driver's and the device plugin's."""

    labels: dict[base.LabelKey, base.LabelValue] = Field(default_factory=dict)
    """Labels on the pods; never a part of selectors."""
    tolerations: tuple[base.Toleration, ...] = ()
    """Taints that every pod of the policy bears; NFD's workers bear them too."""
    priorityClassName: base.ObjectName = "system-node-critical"
    """The priority of the pods; it must exist in the cluster."""


class Metrics(Model):
    """Whether, and where, a program serves Prometheus metrics."""

    enabled: bool = False
    """Serve metrics, and only then."""
    port: base.Port
    """Where they are served."""


class DriverMetrics(Metrics):
    """Metrics of the driver installer."""

    port: base.Port = 9511
    """On the pod's own address."""


class DevicePluginMetrics(Metrics):
    """Metrics of the device plugin."""

    port: base.Port = 9510
    """On the pod's own address."""


Repository = Annotated[
    str,
    Field(
        pattern=r"^(https?://|file:///)[^ ]+$",
        max_length=500,
        json_schema_extra=base.form("the URL of a package repository (https://, http:// or file:///)"),
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


class PackagesSource(Model):
    """The modules come as rpm packages."""

    names: Annotated[tuple[PackageName, ...], Field(min_length=1)]
    """Packages in the order of installation; `${DRIVER_VERSION}` stands for driver.version."""
    repositories: tuple[Repository, ...] = ()
    """Package repositories; none means the node's own. file:// is a path of the host."""
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


Vfs = Annotated[int, Field(ge=0, le=63)]


class Sriov(Model):
    """Virtual functions for each physical function; an absent kind is left alone."""

    hpre: Vfs | None = None
    """Of each HPRE device."""
    sec: Vfs | None = None
    """Of each SEC device."""
    zip: Vfs | None = None
    """Of each ZIP device."""


class Rollout(Model):
    """The pace at which hosts change their driver."""

    maxParallel: Annotated[int, Field(ge=1, le=1000)] = 1
    """Hosts of the policy that may swap their driver at a time, over all its pools."""
    maxUnavailable: base.IntOrPercent = "10%"
    """Pods of each DaemonSet that may be replaced at a time."""
    minReadySeconds: Annotated[int, Field(ge=0, le=3600)] = 30
    """How long a new pod stays Ready before it counts as available."""


class Drain(Model):
    """What happens to pods that hold a device when a module has to be unloaded."""

    enabled: bool = True
    """Evict them; false waits for them to go by themselves."""
    timeoutSeconds: Annotated[int, Field(ge=1, le=86400)] = 300
    """After this long the old driver stays, and the pod says who holds the device."""


class Component(Model):
    """An image and how it is pulled and run."""

    enabled: bool = True
    repository: base.ImagePart = REPOSITORY
    """Registry and path before the image's name."""
    image: base.ImagePart
    """The image's name; the whole reference where repository and version are both empty."""
    version: base.ImagePart = "latest"
    """A tag, or a digest `sha256:…`."""
    pullPolicy: base.PullPolicy = "IfNotPresent"
    """When the kubelet pulls the image."""
    pullSecrets: tuple[base.LocalObjectReference, ...] = ()
    """Secrets of the namespace with the registry's credentials."""
    resources: base.ResourceRequirements = base.defaults()
    """What the container asks for and is held to."""


class Driver(Component):
    """The driver installer: which driver a host ends with, and how it gets there."""

    enabled: bool = True
    """false: the driver is pre-installed, and nothing of ours touches it."""
    image: base.ImagePart = "kae-driver-installer"
    state: Literal["Present", "Absent"] = "Present"
    """Absent removes the driver from the hosts."""
    enabledCleanup: bool = False
    """Also remove the driver when the DaemonSet itself is deleted."""
    env: tuple[base.EnvVar, ...] = ()
    """INSTALL_POLICY is IfNotPresent (default) or Always; other names are passed on."""
    source: Source = base.defaults(build={})
    """Where the modules come from; one of the four."""
    moduleParameters: dict[str, dict[str, int]] = Field(default_factory=dict)
    """Module, parameter, value; over the defaults uacce_mode 2 (inTree: 1) and pf_q_num 256."""
    sriov: Sriov = base.defaults()
    """Virtual functions to set up."""
    rollout: Rollout = base.defaults()
    """The pace of a change."""
    drain: Drain = base.defaults()
    """What becomes of pods that hold a device."""
    metrics: DriverMetrics = base.defaults()
    """Metrics of the driver installer."""


Replicas = Annotated[int, Field(ge=1, le=128)]


class Sharing(Model):
    """Containers that may share one device, for each kind."""

    hpre: Replicas = 1
    """Of one HPRE device."""
    sec: Replicas = 1
    """Of one SEC device."""
    zip: Replicas = 1
    """Of one ZIP device."""


class Inject(Model):
    """What a container that asked for a device gets beside the device node."""

    maskSysfs: bool = True
    """Show the container its own devices only, below /sys/class/uacce."""
    libraries: bool = False
    """Mount the host's KAE libraries and engines (/opt/kae)."""
    opensslConf: Literal["1.1", "3.0"] | None = None
    """Mount an openssl.cnf that loads the KAE engine, for this generation of OpenSSL."""


class DevicePlugin(Component):
    """The device plugin: how devices are offered to containers."""

    enabled: bool = True
    """false: a device plugin is pre-installed, and nothing of ours runs."""
    image: base.ImagePart = "kae-device-plugin"
    maxUnavailable: base.IntOrPercent = "10%"
    """Pods of the DaemonSet that may be replaced at a time."""
    sharing: Sharing = base.defaults()
    """Containers that may share one device."""
    allocationPolicy: Literal["Balanced", "Packed"] = "Balanced"
    """Which device is handed out first: the least used, or the most used that still has room."""
    inject: Inject = base.defaults()
    """What a container gets beside its device."""
    metrics: DevicePluginMetrics = base.defaults()
    """Metrics of the device plugin."""


class KAEPolicySpec(Model):
    """Which nodes of which clusters, and the components that they get."""

    clusters: Annotated[tuple[base.Glob, ...], Field(min_length=1)] | None = None
    """Names or shell globs of clusters; absent means every cluster."""
    nodeSelector: NodeSelector | None = None
    """Absent means every node. The cluster evaluates it, at any time."""
    default: bool = False
    """Take the nodes that no other policy of the cluster matches."""
    operator: Operator = base.defaults()
    """The kinds of devices to serve."""
    daemonSets: DaemonSets = base.defaults()
    """What every pod of the policy gets."""
    driver: Driver = base.defaults()
    """The driver, and how hosts change to it."""
    devicePlugin: DevicePlugin = base.defaults()
    """How devices are offered to containers."""


class PolicyMetadata(base.Metadata):
    """The policy's name: a DNS label of at most 30 characters without `--`."""

    name: base.PolicyName


class KAEPolicy(base.Document):
    """Which nodes get the KAE driver and device plugin, and how."""

    kind: Literal["KAEPolicy"]
    metadata: PolicyMetadata
    spec: KAEPolicySpec = base.defaults()
