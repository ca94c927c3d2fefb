"""The driver of a recipe: its images, its modules, and the user space that it brings."""

from typing import Annotated, Any, Literal

from pydantic import Field

from compiler import keywords
from compiler.model.base import Model
from compiler.model.stacks import fields

Source = Literal["build", "inTree", "packages", "prebuilt"]


class RecipePayload(Model):
    """Paths of an image that the driver installer sees below /payload/NAME."""

    image: fields.PartName
    """One of the images; it holds `cp`, as KMM's images do."""
    paths: Annotated[tuple[fields.HostPath, ...], Field(min_length=1)]
    """Files and folders of the image."""


class RecipeModule(Model):
    """A kernel module of a recipe."""

    name: fields.ModuleName
    """The kernel's name of it."""
    optional: bool = False
    """A policy may leave it out by driver.modules."""
    replaces: tuple[fields.ModuleName, ...] = ()
    """Modules of the kernel that are unloaded before it is loaded, and come back where it goes."""
    parameters: dict[fields.ModuleParameter, dict[str, Any]] = Field(default_factory=dict)
    """The schema of each of its parameters, as in spec.parameters: an integer, a string or a boolean."""
    network: bool = False
    """Network interfaces hang on it, so that it is not unloaded while one of them carries the node's traffic."""


class HostFile(Model):
    """User space that is put on the host."""

    from_: Annotated[fields.HostPath, Field(alias="from")]
    """A path in a payload."""
    to: fields.OptPath
    """The path on the host."""


class RecipeDriver(Model):
    """The driver installer of a recipe, and what it brings to a host."""

    image: fields.PartName = keywords.INSTALLER_IMAGE
    """One of the images; driver-installer is KAE's, without a driver, unless the recipe has one of this name."""
    version: fields.PartName | None = None
    """The image whose version is that of the driver; absent: the installer's."""
    sources: Annotated[tuple[Source, ...], Field(min_length=1)] = ("prebuilt",)
    """Where modules may come from; a policy has the first one by default, but for packages, which it names."""
    payloads: tuple[RecipePayload, ...] = ()
    """What is taken out of other images."""
    modules: Annotated[tuple[RecipeModule, ...], Field(min_length=1)]
    """The modules, in the order of loading."""
    nodes: tuple[fields.DevicePath, ...] = ()
    """Device nodes that are there when the driver is loaded."""
    files: tuple[HostFile, ...] = ()
    """User space on the host."""
