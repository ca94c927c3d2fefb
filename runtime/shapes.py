"""The configs of the programs, as the compiler writes them: the shapes they share, and how to read one."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec

from runtime import errors

T = TypeVar("T", bound=msgspec.Struct)

_NEWER = "a newer kae compiled it: give the program the image of that release, or compile with the release of this one"
_ORIGIN = "in a pod it is the annotation device.openfuyao.com/config, projected to /etc/kae/config.json"


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of a config: its keys are in camel case, and unknown keys are errors."""


class _Head(msgspec.Struct):
    """The field by which a config tells its format; its other fields may be of a later one."""

    version: int = 1


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
Resource = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+\Z", max_length=317)]
"""An extended resource of KAE."""
ExtendedResource = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?\Z",
        max_length=200,
    ),
]
"""An extended resource of a recipe, such as example.com/device."""


class Kind(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A device kind: of KAE, with the first fields, or of a recipe, with `vendor` and those below it."""

    name: Name
    resource: Resource = ""
    """The extended resource that a pod asks for."""
    pf: PciId = ""
    """The PCI device id of the physical function."""
    vf: PciId = ""
    """The PCI device id of the virtual function."""
    module: Module = ""
    """The kernel module, which is also the name of its PCI driver."""
    mode: Literal["vfio"] | None = None
    """vfio: the device plugin offers its functions that are bound to vfio-pci, as IOMMU groups."""
    vendor: PciId = ""
    """The PCI vendor id of a recipe's kind; KAE's is the config's."""
    devices: tuple[PciId, ...] = ()
    """The PCI device ids of its functions."""
    virtual: tuple[PciId, ...] = ()
    """The PCI device ids of its virtual functions."""
    classes: tuple[PciId, ...] = ()
    """The first four digits of the PCI classes of its functions; with none, every class."""

    @property
    def vfio_resource(self) -> str:
        """Return the extended resource of a uacce kind's functions where they are offered by vfio."""
        return f"{self.resource}.vfio"

    def has(self, vendor: str, device: str, pci_class: str) -> bool:
        """Return whether a function of the config's or the kind's vendor is of this kind."""
        if not self.vendor:
            return device in (self.pf, self.vf)
        listed = not self.devices or device in self.devices or device in self.virtual
        return vendor == self.vendor and listed and (not self.classes or pci_class in self.classes)


def require_kinds(kinds: Sequence[Kind], *, recipe: bool) -> None:
    """Raise ValueError where a kind is not one of KAE, or not one of a recipe."""
    for kind in kinds:
        of_kae = (kind.resource, kind.pf, kind.vf, kind.module)
        if recipe and (not kind.vendor or any(of_kae) or kind.mode):
            raise ValueError(f"Kind '{kind.name}' of a recipe needs `vendor`, and has no field of a kind of KAE")
        if recipe and not kind.devices and not kind.classes:
            raise ValueError(f"Kind '{kind.name}' needs `devices` or `classes`")
        if not recipe and (not all(of_kae) or kind.vendor or kind.devices or kind.virtual or kind.classes):
            raise ValueError(
                f"Kind '{kind.name}' needs `resource`, `pf`, `vf` and `module`, and has no field of a recipe's kind"
            )
    if not recipe and not kinds:
        raise ValueError("Expected a kind")


class DeviceNodes(Shape, frozen=True, kw_only=True):
    """Who may open the device nodes."""

    mode: Literal["0660", "0666"] = "0666"
    group: Annotated[int, msgspec.Meta(ge=0, le=2147483647)] | None = None
    """The number of their group; absent: left as it is."""


class MetricsEndpoint(Shape, frozen=True, kw_only=True):
    """The endpoint of the metrics."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


def known_version(shape: type[Any]) -> int:
    """Return the version of the configs of this shape."""
    return int(next((field.default for field in msgspec.structs.fields(shape) if field.name == "version"), 1))


def load(path: Path, shape: type[T]) -> T:
    """Return the config in a JSON file, which must have exactly this shape.

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
        _require_known_version(path, content, shape)
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


def _require_known_version(path: Path, content: bytes, shape: type[Any]) -> None:
    """Raise ConfigError for a config of a later version; what is no config is left to the decoder of the shape."""
    with contextlib.suppress(msgspec.ValidationError):
        found, known = msgspec.json.decode(content, type=_Head).version, known_version(shape)
        if found > known:
            raise errors.ConfigError(
                f"The config '{path}' has version {found}, and this program reads version {known}: {_NEWER}."
            )
