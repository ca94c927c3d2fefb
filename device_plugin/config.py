"""The config of the device plugin: the shape of its config file, as schemas/device-plugin-config.json states it."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, ClassVar, Literal

import msgspec

from runtime import shapes

AbsolutePath = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+\Z", max_length=200)]
LibrariesPath = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._-]*){2,}\Z", max_length=200)]
Variable = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*\Z", max_length=200)]
Setting = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_./:,+-]+\Z", max_length=200)]


class Inject(shapes.Shape, frozen=True, kw_only=True):
    """The files and variables that a container with a device gets beside the device node."""

    mask_sysfs: bool = True
    """It sees its own devices only, below /sys/class/uacce."""
    libraries: bool = False
    """It gets the host's KAE libraries and engines (/opt/kae)."""
    libraries_path: LibrariesPath | None = None
    """The host's folder of these libraries, such as /usr/local/lib; absent: /opt/kae/lib."""
    openssl_conf: Literal["1.1", "3.0"] | None = None
    """It gets an openssl.cnf that loads the KAE engine, for this generation of OpenSSL."""
    openssl_settings: dict[Variable, Setting] | None = None
    """Settings of the engine in this openssl.cnf, over those of KAE's guide."""
    env: dict[Variable, Annotated[str, msgspec.Meta(max_length=4096)]] | None = None
    """It gets these environment variables."""
    mounts: dict[AbsolutePath, AbsolutePath] | None = None
    """It gets these files and folders, read-only: the path in the container, and the path on the host."""


HostPath = Annotated[str, msgspec.Meta(pattern=r"^(/[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*)+\Z", max_length=200)]
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


class InjectedFile(shapes.Shape, frozen=True, kw_only=True):
    """A file of this text that a container gets, read-only."""

    name: FileName
    as_: HostPath = msgspec.field(name="as")
    text: Annotated[str, msgspec.Meta(max_length=65536)]


def _twice(values: Iterable[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


class ResourceInject(shapes.Shape, frozen=True, kw_only=True):
    """What a container gets beside its devices of a recipe's resource."""

    nodes: tuple[InjectedNode, ...] = ()
    mounts: tuple[InjectedMount, ...] = ()
    env: dict[Variable, Annotated[str, msgspec.Meta(max_length=4096)]] = msgspec.field(default_factory=dict)
    preload: tuple[LibraryPath, ...] = ()
    """Libraries that LD_PRELOAD names."""
    files: tuple[InjectedFile, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError where two things would be in one place."""
        if self.preload and "LD_PRELOAD" in self.env:
            raise ValueError("LD_PRELOAD is in `env`, and `preload` is LD_PRELOAD: leave one of them out")
        for name in _twice(file.name for file in self.files):
            raise ValueError(f"Two of `files` are named '{name}'")
        places = [node.as_ or node.path for node in self.nodes] + [mount.as_ or mount.path for mount in self.mounts]
        for path in _twice([*places, *(file.as_ for file in self.files)]):
            # A folder takes several files.
            if not path.endswith("/"):
                raise ValueError(f"A container would get two things at '{path}'")


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
    """Device nodes that make up one device: the globs are walked in step."""

    paths: Annotated[tuple[GroupPath, ...], msgspec.Meta(min_length=1)]


class Resource(shapes.Shape, frozen=True, kw_only=True, tag_field="class", tag=str.lower):
    """A resource of a recipe; its class is the subclass."""

    name: shapes.ExtendedResource
    requires: tuple[HostPath, ...] = ()
    """Paths on the host without which its devices are unhealthy."""
    inject: ResourceInject = ResourceInject()


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


class Uacce(Resource, frozen=True, kw_only=True):
    """Functions with an entry in the class uacce."""

    kind: shapes.Name
    shares: Shares = 1


AnyResource = Token | Char | Vfio | Uacce


class Config(shapes.Shape, frozen=True, kw_only=True):
    """What the node advertises, and how it shares and allocates it: KAE's by `kinds`, a recipe's by `resources`."""

    PROGRAM: ClassVar[str] = "kae-device-plugin"
    """The name of the program and of its image."""

    version: Literal[1] = 1
    """The config's own format."""
    cluster: str
    policy: str
    recipe: shapes.RecipeName | None = None
    """None: kae, which alone has `vendor`, `sharing` and `inject`."""
    vendor: shapes.PciId = ""
    """PCI vendor id of the devices."""
    kinds: tuple[shapes.Kind, ...]
    """The kinds to advertise; of a recipe, those that `resources` name."""
    resources: tuple[AnyResource, ...] = ()
    sharing: dict[shapes.Name, Shares] = msgspec.field(default_factory=dict)
    """The number of shares of each device, by kind."""
    allocation_policy: Literal["Balanced", "Packed"]
    inject: Inject = Inject()
    device_nodes: shapes.DeviceNodes | None = None
    """Absent: the device nodes stay as they are."""
    metrics: shapes.MetricsEndpoint | None = None
    """Without it no metrics are served."""

    @property
    def functions(self) -> tuple[shapes.Kind, ...]:
        """Return the kinds whose PCI functions are offered; of a recipe, with their resource."""
        if self.recipe is None:
            return self.kinds
        kinds = {kind.name: kind for kind in self.kinds}
        return tuple(
            msgspec.structs.replace(
                kinds[resource.kind],
                resource=resource.name,
                # A part of the names of links and, for uacce, of nodes in containers.
                module=resource.kind,
                mode="vfio" if isinstance(resource, Vfio) else None,
            )
            for resource in self.resources
            if isinstance(resource, Vfio | Uacce)
        )

    @property
    def shares(self) -> dict[str, int]:
        """Return the shares of each device, by resource, of which there may be several."""
        if self.recipe is None:
            return {kind.resource: self.sharing.get(kind.name, 1) for kind in self.kinds}
        return {resource.name: 1 if isinstance(resource, Vfio) else resource.shares for resource in self.resources}

    @property
    def sockets(self) -> dict[str, str]:
        """Return the beginning of the names of sockets, by resource: short, as the path of a socket is."""
        if self.recipe is None:
            return {kind.resource: kind.name for kind in self.kinds}
        return {
            resource.name: re.sub("[^a-z0-9-]", "-", resource.name.partition("/")[2].lower())[:24]
            for resource in self.resources
        }

    def __post_init__(self) -> None:
        """Raise ValueError for a mixture of KAE's config and a recipe's, and for resources that cannot be offered."""
        shapes.require_kinds(self.kinds, recipe=self.recipe is not None)
        if self.recipe is None and (self.resources or not self.vendor):
            raise ValueError("Expected `vendor` and no `resources`, or `recipe`")
        of_kae = self.vendor or self.sharing or self.inject != Inject() or self.device_nodes is not None
        if self.recipe is not None and (not self.resources or of_kae):
            raise ValueError("A recipe needs `resources`; `vendor`, `sharing`, `inject` and `deviceNodes` are KAE's")
        for resource in self.resources:
            if isinstance(resource, Token) and resource.count * resource.shares > _MOST:
                raise ValueError(f"Resource '{resource.name}' has more than {_MOST} shares of tokens")
        for name in _twice(resource.name for resource in self.resources):
            raise ValueError(f"Resource '{name}' is there twice")
        offered = [resource.kind for resource in self.resources if isinstance(resource, Vfio | Uacce)]
        for kind in _twice(offered):
            raise ValueError(f"Two resources offer kind '{kind}': a device can be of one resource only")
        for kind in set(offered).difference(kind.name for kind in self.kinds):
            raise ValueError(f"A resource offers kind '{kind}', which is not in `kinds`")
        files = {(file.name, file.text) for resource in self.resources for file in resource.inject.files}
        for name in _twice(name for name, _ in files):
            raise ValueError(f"Two resources have different texts for a file '{name}': name one of them otherwise")
