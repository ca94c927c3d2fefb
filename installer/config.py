"""The shape of the installer's config file, which schemas/driver-config.json states."""

from typing import Annotated, ClassVar, Literal

import msgspec

from runtime import shapes

Repository = Annotated[str, msgspec.Meta(pattern=rf"^({shapes.URL})\Z", max_length=500)]

ObjectName = Annotated[
    str,
    msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z", max_length=253),
]


class Repositories(shapes.Shape, frozen=True, kw_only=True):
    """The repositories of packages."""

    repositories: tuple[Repository, ...] = ()
    """None means the node's own; file:// is a path of the host."""
    credentials_secret: ObjectName | None = None
    """The Secret with the user of the repositories, which the pod mounts."""


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


_PATH = r"(/[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*)+\Z"
Path = Annotated[str, msgspec.Meta(pattern=f"^{_PATH}", max_length=200)]
"""An absolute path without a part that is '.' or '..'."""
NodePath = Annotated[str, msgspec.Meta(pattern=f"^/dev{_PATH}", max_length=200)]
OptPath = Annotated[str, msgspec.Meta(pattern=f"^/opt{_PATH}", max_length=200)]
Parameter = int | bool | Annotated[str, msgspec.Meta(pattern=r'^[^"\\\x00-\x1f\x7f]*\Z', max_length=500)]
"""The value of a module's parameter."""


class ModuleRule(shapes.Shape, frozen=True, kw_only=True):
    """What a module of a recipe needs beyond its load."""

    replaces: tuple[shapes.Module, ...] = ()
    """Modules of the kernel that are unloaded first, and loaded again by a rollback; perhaps one of its own name."""
    network: bool = False
    """Interfaces hang on it: it stays while one carries the node's own traffic."""


class Payload(shapes.Shape, frozen=True, kw_only=True):
    """An image whose files an init container has copied to <payload folder>/<name>."""

    name: shapes.Name
    paths: Annotated[tuple[Path, ...], msgspec.Meta(min_length=1)]
    """Folders of the image."""


class HostFiles(shapes.Shape, frozen=True, kw_only=True):
    """A folder of a payload that the host gets."""

    from_: Path = msgspec.field(name="from")
    """Its path in a payload."""
    to: OptPath
    """Its path on the host."""


_ABOVE_KAE = ("hisi_acc_vfio_pci", "hisi_migration")


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
    """The kernels that the pool is for."""

    pattern: str
    """RE2, unanchored, against the full release of the running kernel."""
    unless: tuple[str, ...] = ()
    """Patterns of mappings that come first; a kernel that one of them matches belongs to another pool."""


class Config(shapes.Shape, frozen=True, kw_only=True):
    """The desired state of the host, and how the installer reaches it."""

    PROGRAM: ClassVar[str] = "kae-driver-installer"
    """The name of the program and of its image."""

    version: Literal[1] = 1
    """The config's own format."""
    cluster: str
    policy: str
    pool: str
    recipe: shapes.RecipeName | None = None
    """Absent: the stack is KAE."""
    class_: Literal["none"] | None = msgspec.field(default=None, name="class")
    """none: a driver without devices of the class uacce; absent: uacce."""
    vendor: shapes.PciId = ""
    """PCI vendor id of KAE's devices; the kinds of a recipe have their own."""
    kinds: tuple[shapes.Kind, ...]
    """Every kind, enabled or not: its module may be loaded, and has to be unloaded before the common ones."""
    daemon_set: DaemonSet
    state: Literal["Present", "Absent"]
    driver_version: str
    install_policy: Literal["IfNotPresent", "Always"]
    present_when: Literal["Loaded"] | None = None
    """A driver of others is present when its modules are loaded; absent: when its devices have entries."""
    enabled_cleanup: bool
    kernels: Kernels | None = None
    """The pool's mapping; absent: every kernel."""
    source: Source
    modules: Annotated[tuple[shapes.Module, ...], msgspec.Meta(min_length=1)]
    """The common ones and those of the enabled kinds, in the order of loading; unloaded in reverse."""
    module_parameters: dict[shapes.Module, dict[str, Parameter]] = msgspec.field(default_factory=dict)
    module_rules: dict[shapes.Module, ModuleRule] = msgspec.field(default_factory=dict)
    """Only of the modules that have one."""
    left_out: tuple[shapes.Module, ...] = ()
    """Modules of the recipe that the policy leaves to the kernel: they are not taken from images."""
    network_force: bool = False
    """True to swap modules although an interface of theirs carries the node's own traffic."""
    payloads: tuple[Payload, ...] = ()
    nodes: tuple[NodePath, ...] = ()
    """Device nodes that are there once the modules are loaded."""
    files: tuple[HostFiles, ...] = ()
    resources: tuple[shapes.ExtendedResource, ...] = ()
    """Extended resources whose holders are drained, besides those of the kinds."""
    sriov: dict[shapes.Name, Annotated[int, msgspec.Meta(ge=0, le=63)]] = msgspec.field(default_factory=dict)
    """Kind and virtual functions for each physical function; an absent kind is left alone."""
    device_nodes: shapes.DeviceNodes = shapes.DeviceNodes()
    drain: Drain
    leases: Leases
    metrics: shapes.MetricsEndpoint | None = None
    """Nothing is served without it."""

    def __post_init__(self) -> None:
        """Raise ValueError for a recipe without a class, or with a kind of KAE, and the other way round."""
        of_recipe = self.recipe is not None
        if of_recipe is not (self.class_ is not None) or of_recipe is bool(self.vendor):
            raise ValueError("Expected `recipe` with `class`, or neither, with `vendor`")
        shapes.require_kinds(self.kinds, recipe=of_recipe)
        if of_recipe and (self.sriov or self.present_when or self.device_nodes != shapes.DeviceNodes()):
            raise ValueError("Expected no `sriov`, `presentWhen` and `deviceNodes` with `recipe`")

    @property
    def uacce(self) -> bool:
        """Return whether the driver's devices are those of the class uacce, as KAE's are."""
        return self.class_ is None

    @property
    def replaced(self) -> tuple[str, ...]:
        """Return the modules that are unloaded before those of the config, in this order."""
        return tuple(dict.fromkeys(name for rule in self.module_rules.values() for name in rule.replaces))

    @property
    def above(self) -> tuple[str, ...]:
        """Return modules of live migration, which use hisi_qm: a change unloads them, and loads them at its end."""
        return _ABOVE_KAE if self.uacce else ()

    @property
    def all_modules(self) -> tuple[str, ...]:
        """The modules to load, and after them others that may be loaded: of kinds not enabled, or to be replaced."""
        others = (kind.module for kind in self.kinds) if self.uacce else reversed(self.replaced)
        return tuple(dict.fromkeys((*self.modules, *others)))
