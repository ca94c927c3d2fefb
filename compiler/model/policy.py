"""KAEPolicy: which nodes, and what they get. Names and defaults are those of the KAE Operator's guide."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import Field

from compiler import release
from compiler.model import base, kinds
from compiler.model import driver as drivers
from compiler.model.base import Model

Replicas = Annotated[int, Field(ge=1, le=128)]
Mode = Literal["uacce", "vfio"]

if TYPE_CHECKING:
    Operator: TypeAlias = Model
    Sharing: TypeAlias = Model
    Modes: TypeAlias = Model
else:
    Operator = kinds.model(
        "Operator",
        "The kinds of devices that the policy serves; at least one.",
        bool,
        lambda kind: (kind.switch, kind.enabled, f"Serve {kind.plural} ({kind.use}) as {kind.resource}."),
    )
    Sharing = kinds.model(
        "Sharing",
        "Containers that may share one device, for each kind.",
        Replicas,
        lambda kind: (kind.name, 1, f"Of one {kind.name.upper()} device."),
    )
    Modes = kinds.model(
        "Modes",
        "How the devices of each kind are offered: uacce, to containers; vfio, as IOMMU groups to virtual machines.",
        Mode,
        lambda kind: (kind.name, "uacce", f"{kind.plural}; vfio as {kind.vfio_resource}."),
    )


class DaemonSets(Model):
    """What every pod of the policy gets, the driver's and the device plugin's."""

    labels: dict[base.LabelKey, base.LabelValue] = Field(default_factory=dict)
    """Labels on the pods; never a part of selectors."""
    tolerations: tuple[base.Toleration, ...] = ()
    """Taints that every pod of the policy bears; NFD's workers bear them too."""
    priorityClassName: base.ObjectName = "system-node-critical"
    """The priority of the pods; it must exist in the cluster."""


class DevicePluginMetrics(base.Metrics):
    """Metrics of the device plugin."""

    port: base.Port = 9510
    """On the pod's own address."""


AbsolutePath = Annotated[
    str,
    Field(
        pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$",
        max_length=200,
        json_schema_extra=base.form("an absolute path, such as /etc/kae"),
    ),
]
LibrariesPath = Annotated[
    str,
    Field(
        # The device plugin mounts the folder above it, which is not the root folder.
        pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*){2,}$",
        max_length=200,
        json_schema_extra=base.form("the path of a folder in another, such as /usr/lib64"),
    ),
]
VariableName = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        max_length=200,
        json_schema_extra=base.form("the name of an environment variable, such as KAE_LOG_LEVEL"),
    ),
]
EngineSetting = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9_./:,+-]+$",
        max_length=200,
        json_schema_extra=base.form("a value without spaces and quotes, such as 1"),
    ),
]


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
    """Environment variables, such as KAE_LOG_LEVEL; over those of the device plugin, below those of the pod."""
    mounts: dict[AbsolutePath, AbsolutePath] | None = None
    """Files and folders of the host, read-only: the path in the container, and the path on the host."""


class Offer(Model):
    """What a device plugin of any recipe has: its pace, and the choice between devices."""

    maxUnavailable: base.IntOrPercent = "10%"
    """Pods of the DaemonSet that may be replaced at a time."""
    allocationPolicy: Literal["Balanced", "Packed"] = "Balanced"
    """Which device is handed out first: the least used, or the most used that still has room."""
    metrics: DevicePluginMetrics = base.defaults()
    """Metrics of the device plugin."""


class DevicePlugin(Offer, base.Component):
    """The device plugin: how devices are offered to containers."""

    enabled: bool = True
    """false: a device plugin is pre-installed, and KAE's does not run."""
    image: base.ImagePart = "kae-device-plugin"
    version: base.ImagePart = release.version("kae-device-plugin")
    """A tag, or a digest `sha256:…`."""
    mode: Modes = base.defaults()
    """How devices are offered."""
    sharing: Sharing = base.defaults()
    """Containers that may share one device."""
    inject: Inject = base.defaults()
    """What a container gets beside its device."""
    deviceNodes: drivers.DeviceNodes | None = None
    """Mode and group of the device nodes of a pre-installed driver (driver.enabled: false); absent: as they are."""


KubeletDir = Annotated[
    str,
    Field(
        pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$",
        # The plugin's sockets lie in it, and the address of a Unix socket has at most 107 bytes (unix(7)).
        max_length=60,
        json_schema_extra=base.form("the path of a folder, such as /var/lib/k0s/kubelet (at most 60 characters)"),
    ),
]


class Selection(Model):
    """Which nodes of which clusters, and what all their pods have."""

    clusters: Annotated[tuple[base.Glob, ...], Field(min_length=1)] | None = None
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
    """Which nodes of which clusters, and the components that they get."""

    operator: Operator = base.defaults()
    """The kinds of devices to serve."""
    driver: drivers.Driver = base.defaults()
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
