"""The config of the device plugin: the compiler writes it, the device plugin reads it."""

from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from runtime import shapes

LibrariesPath = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*){2,}\Z", max_length=200)]
Variable = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", max_length=200)]
Setting = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_./:,+-]+\Z", max_length=200)]
HostGlob = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^/[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*(/[A-Za-z0-9_*?\[-][A-Za-z0-9._:+,@*?\[\]!-]*)*\Z", max_length=200
    ),
]
DeviceGlob = Annotated[
    str, msgspec.Meta(pattern=r"^/dev(/[A-Za-z0-9_*?\[-][A-Za-z0-9._:+,@*?\[\]!-]*)+\Z", max_length=200)
]
TargetPath = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*)+/?\Z", max_length=200)]
"""A path in a container; one that ends with / is of a folder, in which a file keeps its name."""
LibraryPath = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._+,@-]*)+\Z", max_length=200)]
"""A path that LD_PRELOAD can hold, which takes colons for separators (ld.so(8))."""
Permissions = Literal["r", "w", "m", "rw", "rm", "wm", "rwm"]
FileName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\Z", max_length=20)]
_MOST = 100_000
"""A list of many more devices is longer than the 4 MiB that the kubelet receives (kubernetes/kubernetes#109304)."""
Shares = Annotated[int, msgspec.Meta(ge=1, le=128)]


class InjectedNode(shapes.Shape, frozen=True, kw_only=True):
    """A device node that a container gets beside its device."""

    path: DeviceGlob
    as_: TargetPath | None = msgspec.field(name="as", default=None)
    """None: as on the host."""
    permissions: Permissions = "rw"
    optional: bool = False
    """A container starts without it."""


class InjectedMount(shapes.Shape, frozen=True, kw_only=True):
    """A file or folder of the host that a container gets."""

    path: HostGlob
    as_: TargetPath | None = msgspec.field(name="as", default=None)
    """None: as on the host."""
    read_only: bool = True
    optional: bool = False
    """A container starts without it."""
    checked: bool = True
    """False: the device plugin sees no such folder of the host, and a path without a glob is mounted as it stands."""


class InjectedFile(shapes.Shape, frozen=True, kw_only=True):
    """A file of this text that a container gets, read-only."""

    name: FileName
    as_: shapes.HostPath = msgspec.field(name="as")
    text: Annotated[str, msgspec.Meta(max_length=65536)]


class Libraries(shapes.Shape, frozen=True, kw_only=True):
    """The host's user space of KAE (libwd.so and its engines), which a container finds by LD_LIBRARY_PATH."""

    path: LibrariesPath | None = None
    """The host's folder of these libraries, such as /usr/local/lib; absent: /opt/kae/lib."""


class OpenSsl(shapes.Shape, frozen=True, kw_only=True):
    """The files openssl.cnf that load the engine of KAE: all are kept on the host, as earlier answers name them."""

    conf: Literal["1.1", "3.0"] | None = None
    """The generation of OpenSSL whose file a container gets; absent: none."""
    settings: dict[Variable, Setting] = msgspec.field(default_factory=dict)
    """Settings of the engine, over those of KAE's guide."""


def _twice(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


class Inject(shapes.Shape, frozen=True, kw_only=True):
    """What a container gets beside its devices of a resource."""

    nodes: tuple[InjectedNode, ...] = ()
    mounts: tuple[InjectedMount, ...] = ()
    env: dict[Variable, Annotated[str, msgspec.Meta(max_length=4096)]] = msgspec.field(default_factory=dict)
    preload: tuple[LibraryPath, ...] = ()
    """Libraries that LD_PRELOAD names."""
    files: tuple[InjectedFile, ...] = ()
    libraries: Libraries | None = None
    openssl: OpenSsl | None = None


class GroupPath(shapes.Shape, frozen=True, kw_only=True):
    """Device nodes of a group: each match of the glob belongs to another device."""

    path: DeviceGlob
    as_: TargetPath | None = msgspec.field(name="as", default=None)
    """None: as on the host."""
    permissions: Permissions = "rw"
    limit: Annotated[int, msgspec.Meta(ge=1, le=128)] = 1
    """The devices that one node may be a part of."""
    optional: bool = False
    """A device is there without it."""


class DeviceGroup(shapes.Shape, frozen=True, kw_only=True):
    """Device nodes that make up one device: globs are walked in step, those of PCI functions within each."""

    paths: Annotated[tuple[GroupPath, ...], msgspec.Meta(min_length=1)]
    vendor: shapes.PciId | None = None
    """The PCI vendor id of its functions; None: any."""
    driver: Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_-]+\Z", max_length=63)] | None = None
    """The kernel driver that its functions are bound to; None: any."""


class Resource(shapes.Shape, frozen=True, kw_only=True, tag_field="class", tag=str.lower):
    """An extended resource; its class is the subclass."""

    name: shapes.ExtendedResource
    socket: Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9]+(-[a-z0-9]+)*)?\Z", max_length=20)] = ""
    """The beginning of the name of its socket, which is short, as the path of a socket is; empty: made from its name.
    """
    requires: tuple[shapes.HostPath, ...] = ()
    """Paths on the host without which its devices are unhealthy."""
    inject: Inject = Inject()


class Token(Resource, frozen=True, kw_only=True):
    """A number of equal tokens, for software that any container of the node may use."""

    count: Annotated[int, msgspec.Meta(ge=1, le=10000)]
    shares: Shares = 1


class Char(Resource, frozen=True, kw_only=True):
    """Device nodes by their paths."""

    groups: Annotated[tuple[DeviceGroup, ...], msgspec.Meta(min_length=1)]
    shares: Shares = 1


class Vfio(Resource, frozen=True, kw_only=True):
    """IOMMU groups of functions that are bound to vfio-pci; nobody can share one."""

    kind: shapes.Name
    shares: Literal[1] = 1


class Uacce(Resource, frozen=True, kw_only=True):
    """Functions with an entry in the class uacce."""

    kind: shapes.Name
    shares: Shares = 1
    mask_sysfs: bool = True
    """A container sees its own devices only, below /sys/class/uacce."""
    device_nodes: shapes.DeviceNodes | None = None
    """Who may open the device nodes; absent: they stay as they are."""


AnyResource = Token | Char | Vfio | Uacce


class Dra(shapes.Shape, frozen=True, kw_only=True):
    """How claims get devices, by the interface DRA."""

    queues: Literal["Exclusive", "Shared"] = "Exclusive"
    """Whether a claim has a device of the class uacce alone, or an amount of its queues."""


class Config(shapes.Config, frozen=True, kw_only=True):
    """What the node advertises, and how it shares and allocates it."""

    resources: Annotated[tuple[AnyResource, ...], msgspec.Meta(min_length=1)]
    allocation_policy: Literal["Balanced", "Packed"]
    """Of the interface DevicePlugin; with DRA the scheduler chooses the devices."""
    interface: Literal["DevicePlugin", "DRA"] = "DevicePlugin"
    """How the node offers its devices: by the kubelet's device plugins, or by Dynamic Resource Allocation."""
    dra: Dra = Dra()

    def __post_init__(self) -> None:
        """Raise ValueError for resources that cannot be offered."""
        for resource in self.resources:
            if resource.inject.preload and "LD_PRELOAD" in resource.inject.env:
                raise ValueError("LD_PRELOAD is in `env`, and `preload` is LD_PRELOAD: leave one of them out")
            if isinstance(resource, Token) and resource.count * resource.shares > _MOST:
                raise ValueError(f"Resource '{resource.name}' has more than {_MOST} shares of tokens")
            if self.interface == "DRA" and resource.shares != 1:
                raise ValueError(f"Resource '{resource.name}' has shares, which the interface DRA does not know")
        for name in _twice(resource.name for resource in self.resources):
            raise ValueError(f"Resource '{name}' is there twice")
        offered = [resource.kind for resource in self.resources if isinstance(resource, Vfio | Uacce)]
        for kind in _twice(offered):
            raise ValueError(f"Two resources offer kind '{kind}': a device can be of one resource only")
        for kind in set(offered).difference(kind.name for kind in self.kinds):
            raise ValueError(f"A resource offers kind '{kind}', which is not in `kinds`")
        files = {(file.name, file.text) for resource in self.resources for file in resource.inject.files}
        for name in _twice(name for name, _ in files):
            raise ValueError(f"There are two texts for a file '{name}': name one of them otherwise")
