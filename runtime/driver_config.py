"""The config of the driver installer: the compiler writes it, the installer reads it.

What a change of a field does to a driver that runs is decided in `driver_work`.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

import msgspec

from runtime import shapes

Repository = Annotated[str, msgspec.Meta(pattern=rf"^({shapes.URL})\Z", max_length=500)]

ObjectName = Annotated[
    str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z", max_length=253)
]


IMAGE_PACKAGES = "file:///var/lib/kae/packages"
"""The repository in the installer's image, as policies name it: it is copied to this path of the host."""


class Repositories(shapes.Shape, frozen=True, kw_only=True):
    """The repositories of packages."""

    repositories: tuple[Repository, ...] = ()
    """None means the node's own; file:// is a path of the host."""
    credentials_secret: ObjectName | None = None
    """The Secret with the user of the repositories, which the pod mounts."""

    @property
    def is_in_image(self) -> bool:
        """True where one of the repositories is that in the installer's image."""
        return any(url.rstrip("/") == IMAGE_PACKAGES for url in self.repositories)


class Build(Repositories, frozen=True, kw_only=True):
    """The modules are compiled on the node against the kernel-devel package of its running kernel."""


class Packages(Repositories, frozen=True, kw_only=True):
    """The modules come as rpm packages."""

    names: Annotated[
        tuple[Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9._+${}~-]+\Z", max_length=250)], ...],
        msgspec.Meta(min_length=1),
    ]
    """In the order of installation; `${DRIVER_VERSION}` stands for the driver's version."""
    gpg_check: bool = True
    """Refuse packages without a trusted signature."""


class Prebuilt(shapes.Shape, frozen=True, kw_only=True):
    """The image holds the modules, below /opt/lib/modules/<kernel>/."""


class InTree(shapes.Shape, frozen=True, kw_only=True):
    """The modules of the kernel itself."""


class Source(shapes.Shape, frozen=True, kw_only=True):
    """Where the driver's modules come from: exactly one of the four."""

    build: Build | None = None
    packages: Packages | None = None
    prebuilt: Prebuilt | None = None
    in_tree: InTree | None = None

    def __post_init__(self) -> None:
        """Raise ValueError for none and for several."""
        if len(self._names) != 1:
            raise ValueError("Expected exactly one of `build`, `packages`, `prebuilt` and `inTree`")

    @property
    def name(self) -> str:
        """The one source's field, as policies name it."""
        return self._names[0]

    @property
    def _names(self) -> list[str]:
        parts = {"build": self.build, "packages": self.packages, "prebuilt": self.prebuilt, "inTree": self.in_tree}
        return [name for name, part in parts.items() if part is not None]


ParameterName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_]+\Z", max_length=63)]
Parameter = int | bool | Annotated[str, msgspec.Meta(pattern=r'^[^"\\\x00-\x1f\x7f]*\Z', max_length=500)]
"""The value of a module's parameter."""


class Module(shapes.Shape, frozen=True, kw_only=True):
    """A kernel module of the driver."""

    name: shapes.Module
    parameters: dict[ParameterName, Parameter] = msgspec.field(default_factory=dict)
    replaces: tuple[shapes.Module, ...] = ()
    """Modules of the kernel that are unloaded first, and loaded again by a rollback; perhaps one of its own name."""
    network: bool = False
    """Interfaces hang on it: it stays while one carries the node's own traffic."""


class Payload(shapes.Shape, frozen=True, kw_only=True):
    """An image whose files an init container has copied to <payload folder>/<name>."""

    name: shapes.Name
    paths: Annotated[tuple[shapes.HostPath, ...], msgspec.Meta(min_length=1)]
    """Folders of the image."""


class HostFiles(shapes.Shape, frozen=True, kw_only=True):
    """A folder of user space or of firmware that the host gets."""

    from_: shapes.HostPath = msgspec.field(name="from")
    """Its path in a payload, or, of a driver without payloads, in the installer's image."""
    to: shapes.PlacePath
    """Its path on the host."""


class Drain(shapes.Shape, frozen=True, kw_only=True):
    """What happens to pods that hold a device when a module has to be unloaded."""

    enabled: bool = True
    """Evict them; false waits for them to go by themselves."""
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1, le=86400)] = 300
    """After this long the old driver stays."""


class Leases(shapes.Shape, frozen=True, kw_only=True):
    """The right to swap a driver: the first free one of these Leases is taken."""

    namespace: str
    names: tuple[str, ...]


class DaemonSet(shapes.Shape, frozen=True, kw_only=True):
    """The installer's own DaemonSet, which it asks for before it cleans up."""

    namespace: str
    name: str


class Kernels(shapes.Shape, frozen=True, kw_only=True):
    """The kernels that a pool is for."""

    pattern: str
    """RE2, unanchored, against the full release of the running kernel."""
    unless: tuple[str, ...] = ()
    """Patterns of mappings that come first; a kernel that one of them matches belongs to another pool."""
    system: str = ""
    """ID of the operating system, as os-release has it; empty: any."""
    versions: tuple[str, ...] = ()
    """VERSION_ID of the operating system; none: any."""


class Driver(shapes.Config, frozen=True, kw_only=True, tag_field="class"):
    """The desired state of the host, and how the installer reaches it; the class of the driver is the subclass."""

    pool: str
    daemon_set: DaemonSet
    state: Literal["Present", "Absent"]
    driver_version: str
    """The version of the driver: an image's tag or digest."""
    install_policy: Literal["IfNotPresent", "Always"]
    """Always also replaces a driver that others installed."""
    enabled_cleanup: bool
    kernels: Kernels | None = None
    """Absent: the pool is for every kernel."""
    source: Source
    modules: Annotated[tuple[Module, ...], msgspec.Meta(min_length=1)]
    """In the order of loading; unloaded in reverse."""
    left_out: tuple[shapes.Module, ...] = ()
    """Modules of the recipe that the policy leaves to the kernel: they are not taken from images."""
    above: tuple[shapes.Module, ...] = ()
    """Modules that use the driver's without being of it: a change unloads them, and loads them at its end."""
    related: tuple[shapes.Module, ...] = ()
    """Modules that packages of the driver may hold, too: such a package is still the driver's alone."""
    network_force: bool = False
    """True to swap modules although an interface of theirs carries the node's own traffic."""
    payloads: tuple[Payload, ...] = ()
    nodes: tuple[shapes.DevicePath, ...] = ()
    """Device nodes that are there once the modules are loaded."""
    files: tuple[HostFiles, ...] = ()
    """User space of the host."""
    resources: tuple[shapes.ExtendedResource, ...] = ()
    """The extended resources whose holders are drained."""
    programs: Annotated[str, msgspec.Meta(max_length=300)] = ""
    """The label selector of the pods of programs that come after the driver, in the namespace of its DaemonSet; empty:
    there are none."""
    drain: Drain
    leases: Leases

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the modules, in the order of loading."""
        return tuple(module.name for module in self.modules)

    @property
    def parameters(self) -> dict[str, dict[str, Parameter]]:
        """Return the parameters of each module, by its name."""
        return {module.name: module.parameters for module in self.modules}

    @property
    def replaced(self) -> tuple[str, ...]:
        """Return the modules that are unloaded before those of the config, in this order."""
        return tuple(dict.fromkeys(name for module in self.modules for name in module.replaces))

    @property
    def all_modules(self) -> tuple[str, ...]:
        """The modules to load, and after them others that may be loaded: of kinds not served, or to be replaced."""
        others = (kind.module for kind in self.kinds if kind.module)
        return tuple(dict.fromkeys((*self.names, *others, *reversed(self.replaced))))


class Plain(Driver, frozen=True, kw_only=True, tag="none"):
    """A driver whose devices are known by their nodes alone, if it has any."""

    brings_along: ClassVar[bool] = True
    """Its modules come with others that they need: the config names those that are to be loaded."""
    sriov: ClassVar[Mapping[str, int]] = MappingProxyType({})
    device_nodes: ClassVar[None] = None


class Uacce(Driver, frozen=True, kw_only=True, tag="uacce"):
    """A driver whose devices have entries in /sys/class/uacce."""

    brings_along: ClassVar[bool] = False
    """The config names every module that it may have: those of its kinds, and those below them."""

    present_when: Literal["Serving", "Loaded"] = "Serving"
    """A driver of others is present when its devices have entries, or when its modules are loaded."""
    sriov: dict[shapes.Name, Annotated[int, msgspec.Meta(ge=0, le=63)]] = msgspec.field(default_factory=dict)
    """Kind and virtual functions for each physical function; an absent kind is left alone."""
    device_nodes: shapes.DeviceNodes = shapes.DeviceNodes()


Config = Plain | Uacce
"""A config of the installer."""


def load(path: Path) -> Config:
    """Return the config in a file, as `shapes.load` does."""
    return shapes.load(path, Config)  # type: ignore[arg-type]  # mypy knows no type of a union.
