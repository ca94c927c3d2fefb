"""What the device plugin is told: the shape of its config file, as schemas/device-plugin-config.json states it."""

from typing import Annotated, Literal

import msgspec


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of the config: its fields are in camel case there, and there are no others."""


PciId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{4}$", max_length=4)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]


class Kind(Shape, frozen=True, kw_only=True):
    """A device kind."""

    name: Name
    resource: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+$", max_length=317)]
    """The extended resource that a pod asks for."""
    pf: PciId
    """PCI device id of the physical function."""
    vf: PciId
    """PCI device id of the virtual function."""
    module: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=55)]
    """The kernel module, which is also the name of its PCI driver."""


class Inject(Shape, frozen=True, kw_only=True):
    """What a container that asked for a device gets beside the device node."""

    mask_sysfs: bool = True
    """It sees its own devices only, below /sys/class/uacce."""
    libraries: bool = False
    """It gets the host's KAE libraries and engines (/opt/kae)."""
    openssl_conf: Literal["1.1", "3.0"] | None = None
    """It gets an openssl.cnf that loads the KAE engine, for this generation of OpenSSL."""


class MetricsEndpoint(Shape, frozen=True, kw_only=True):
    """Where metrics are served."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]


class Config(Shape, frozen=True, kw_only=True):
    """How the devices of the node are offered."""

    version: Literal[1] = 1
    """The config's own format."""
    cluster: str
    policy: str
    vendor: PciId
    """PCI vendor id of the devices."""
    kinds: Annotated[tuple[Kind, ...], msgspec.Meta(min_length=1)]
    """The kinds that are served."""
    sharing: dict[Name, Annotated[int, msgspec.Meta(ge=1, le=128)]]
    """Kind and replicas of each device."""
    allocation_policy: Literal["Balanced", "Packed"]
    inject: Inject
    metrics: MetricsEndpoint | None = None
    """Nothing is served without it."""
