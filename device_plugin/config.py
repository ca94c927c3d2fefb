"""The config of the device plugin: the shape of its config file, as schemas/device-plugin-config.json states it."""

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


class Config(shapes.Shape, frozen=True, kw_only=True):
    """The kinds that the node advertises, and how it shares and allocates them."""

    PROGRAM: ClassVar[str] = "kae-device-plugin"
    """The name of the program and of its image."""

    version: Literal[1] = 1
    """The config's own format."""
    cluster: str
    policy: str
    vendor: shapes.PciId
    """PCI vendor id of the devices."""
    kinds: Annotated[tuple[shapes.Kind, ...], msgspec.Meta(min_length=1)]
    """The kinds to advertise."""
    sharing: dict[shapes.Name, Annotated[int, msgspec.Meta(ge=1, le=128)]]
    """The number of shares of each device, by kind."""
    allocation_policy: Literal["Balanced", "Packed"]
    inject: Inject
    device_nodes: shapes.DeviceNodes | None = None
    """Absent: the device nodes stay as they are."""
    metrics: shapes.MetricsEndpoint | None = None
    """Without it no metrics are served."""

    def __post_init__(self) -> None:
        """Raise ValueError for a kind that is not one of KAE."""
        shapes.require_kinds(self.kinds, recipe=False)
