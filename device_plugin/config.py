"""The config of the device plugin: the shape of its config file, as schemas/device-plugin-config.json states it."""

from typing import Annotated, Literal

import msgspec

from runtime import shapes


class Inject(shapes.Shape, frozen=True, kw_only=True):
    """The files and variables that a container with a device gets beside the device node."""

    mask_sysfs: bool = True
    """It sees its own devices only, below /sys/class/uacce."""
    libraries: bool = False
    """It gets the host's KAE libraries and engines (/opt/kae)."""
    openssl_conf: Literal["1.1", "3.0"] | None = None
    """It gets an openssl.cnf that loads the KAE engine, for this generation of OpenSSL."""


class Config(shapes.Shape, frozen=True, kw_only=True):
    """The kinds that the node advertises, and how it shares and allocates them."""

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
    metrics: shapes.MetricsEndpoint | None = None
    """Without it no metrics are served."""
