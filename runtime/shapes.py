"""The parts that the configs of several programs share, as the compiler writes them."""

from typing import Annotated

import msgspec


class Shape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An object of a config: its keys are in camel case, and unknown keys are errors."""


PciId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{4}$", max_length=4)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Module = Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=55)]


class Kind(Shape, frozen=True, kw_only=True):
    """A device kind."""

    name: Name
    resource: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9.-]+/[a-z0-9.-]+$", max_length=317)]
    """The extended resource that a pod asks for."""
    pf: PciId
    """The PCI device id of the physical function."""
    vf: PciId
    """The PCI device id of the virtual function."""
    module: Module
    """The kernel module, which is also the name of its PCI driver."""


class MetricsEndpoint(Shape, frozen=True, kw_only=True):
    """The endpoint of the metrics."""

    port: Annotated[int, msgspec.Meta(ge=1, le=65535)]
