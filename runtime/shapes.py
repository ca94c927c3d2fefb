"""The configs of the programs, as the compiler writes them: the shapes they share, and how to read one."""

import contextlib
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar

import msgspec

from runtime import errors

T = TypeVar("T")

_NEWER = "a newer kae compiled it: give the program the image of that release, or compile with the release of this one"
_OLDER = "an older kae compiled it: compile with the release of this program"
_ORIGIN = "in a pod it is the annotation device.openfuyao.com/config, projected to /etc/kae/config.json"


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of a config: its keys are in camel case, and unknown keys are errors."""


VERSION: Final = 2
"""The version of the configs: an older or a newer one is of another release of kae."""


class _Head(msgspec.Struct):
    """The field by which a config tells its format; its other fields may be of another one."""

    version: int = 0


_HOST = r"([^-@/:\x00-\x20\x7f][^@/:\x00-\x20\x7f]*|\[[0-9A-Fa-f:.]+\])(:[0-9]+)?"
REMOTE = rf"{_HOST}(/[^\x00-\x20\x7f]*)?"
"""A pattern of a URL after its scheme and user."""
URL = rf"https?://{REMOTE}|file:///[^\x00-\x20\x7f]+"
"""A pattern of the URLs of repositories, without a user."""

# The end is `\Z`: Python's `$` also matches before a last line break.
PciId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{4}\Z", max_length=4)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z", max_length=63)]
Module = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_]+\Z", max_length=55)]

RecipeName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\Z", max_length=20)]
ExtendedResource = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
        max_length=200,
    ),
]
"""An extended resource, such as example.com/device."""

_PATH = r"(/[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*)+\Z"
HostPath = Annotated[str, msgspec.Meta(pattern=f"^{_PATH}", max_length=200)]
"""An absolute path without a part that is '.' or '..'."""
DevicePath = Annotated[str, msgspec.Meta(pattern=f"^/dev{_PATH}", max_length=200)]
PlacePath = Annotated[str, msgspec.Meta(pattern=f"^(/opt|/lib/firmware/updates){_PATH}", max_length=200)]
"""A path at which a driver puts files on the host."""


class Home(Shape, frozen=True, kw_only=True):
    """The places of a recipe on the host: its programs write there, and nowhere else."""

    state: HostPath
    """The folder of what outlives a boot: the record of the driver, and the store of drivers."""
    run: HostPath
    """The folder of what lives until the next boot, which the programs share."""
    prefix: Name
    """The beginning of the names of its files in folders of the system, such as /etc/udev/rules.d."""
    tree: Annotated[str, msgspec.Meta(pattern=r"^\.[a-z0-9.-]+[~-]\Z", max_length=40)]
    """The beginning of the names of its trees of user-space files below /opt; that of no recipe begins another's."""
    options: Annotated[str, msgspec.Meta(pattern=r"^([a-z0-9-]+-)?\Z", max_length=40)] = ""
    """The beginning of the names of modules' options files in /etc/modprobe.d."""
    files: Annotated[str, msgspec.Meta(pattern=r"^/opt(/[A-Za-z0-9_-][A-Za-z0-9._:+,@-]*)*\Z", max_length=200)] = "/opt"
    """The folder that the names of its user-space files are relative to."""

    @property
    def dra_driver(self) -> str:
        """Return the name of the recipe's driver of Dynamic Resource Allocation; no other recipe's has it."""
        return f"{self.prefix}.openfuyao.com"


class Kind(Shape, frozen=True, kw_only=True):
    """A kind of PCI devices."""

    name: Name
    vendor: PciId
    """The PCI vendor id."""
    devices: tuple[PciId, ...] = ()
    """The PCI device ids of its physical functions; with none, every device of the classes."""
    virtual: tuple[PciId, ...] = ()
    """The PCI device ids of its virtual functions; others are known by their physical function."""
    classes: tuple[PciId, ...] = ()
    """The first four digits of the PCI classes of its functions; with none, every class."""
    module: Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9_]+)?\Z", max_length=55)] = ""
    """The kernel module of its devices, which is also the name of their PCI driver; empty if it is not known."""

    def __post_init__(self) -> None:
        """Raise ValueError for a kind that would be every device of its vendor."""
        if not self.devices and not self.classes:
            raise ValueError(f"Kind '{self.name}' needs `devices` or `classes`")

    def has(self, vendor: str, device: str, pci_class: str) -> bool:
        """Return whether a function is of this kind."""
        listed = not self.devices or device in self.devices or device in self.virtual
        return vendor == self.vendor and listed and (not self.classes or pci_class in self.classes)


class DeviceNodes(Shape, frozen=True, kw_only=True):
    """Who may open the device nodes."""

    mode: Literal["0660", "0666"] = "0666"
    group: Annotated[int, msgspec.Meta(ge=0, le=2147483647)] | None = None
    """The number of their group; absent: left as it is."""


class MetricsEndpoint(Shape, frozen=True, kw_only=True):
    """The endpoint of the metrics."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Config(Shape, frozen=True, kw_only=True):
    """The head of the configs of both programs on a node."""

    version: Literal[2]
    """The config's own format."""
    cluster: str
    policy: str
    recipe: RecipeName
    home: Home
    kinds: tuple[Kind, ...] = ()
    """The kinds of the recipe's devices; a recipe may have none."""
    metrics: MetricsEndpoint | None = None
    """Nothing is served without it."""


def load(path: Path, shape: type[T]) -> T:
    """Return the config in a JSON file, which must have exactly this shape, or one of a union of shapes.

    Raises `errors.ConfigError`, which names the file, the position and the expected value, or says that a newer kae
    wrote it.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise errors.ConfigError(f"The config '{path}' cannot be read ({error.strerror}); {_ORIGIN}.") from error
    if not content.strip():
        # The kubelet writes an empty file for an annotation that the pod does not have.
        raise errors.ConfigError(f"The config '{path}' is empty; {_ORIGIN}.")
    try:
        _require_known_version(path, content)
        return msgspec.json.decode(content, type=shape, strict=True)
    except msgspec.ValidationError as error:
        expected, _, place = str(error).partition(" - at ")
        where = place.strip("`") or "$"
        newer = f" Perhaps {_NEWER}." if "unknown field" in expected else ""
        raise errors.ConfigError(
            f"The config '{path}' does not fit this program at {where}: {expected}.{newer}"
        ) from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"The config '{path}' is no JSON: {error}.") from error


def _require_known_version(path: Path, content: bytes) -> None:
    """Raise ConfigError for a config of another version; what is no config is left to the decoder of the shape."""
    with contextlib.suppress(msgspec.ValidationError):
        found = msgspec.json.decode(content, type=_Head).version
        if found not in (0, VERSION):
            why = _NEWER if found > VERSION else _OLDER
            raise errors.ConfigError(
                f"The config '{path}' has version {found}, and this program reads version {VERSION}: {why}."
            )
