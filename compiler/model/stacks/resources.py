"""The resources of a recipe: the devices that containers may ask for, and what a container gets with one."""

from typing import Annotated, Literal

from pydantic import Field

from compiler import keywords
from compiler.model import base
from compiler.model.base import Model
from compiler.model.policy import VariableName
from compiler.model.stacks import fields

Permissions = Literal["r", "w", "m", "rw", "rm", "wm", "rwm"]
"""Those of cgroups: read, write and mknod (DeviceSpec of the kubelet's device plugin API)."""
ExtendedResource = Annotated[
    str,
    Field(
        # A resource of containers (base.ResourceName) with a domain.
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+/"
        r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
        max_length=200,
        json_schema_extra=base.form("a resource with a domain, such as example.com/npu"),
    ),
]
Variables = dict[VariableName, Annotated[str, Field(max_length=4096)]]


class GroupPath(Model):
    """Device nodes of a group."""

    path: fields.DeviceGlob
    """The node, or a glob that is walked in step with those of the group's other paths."""
    as_: Annotated[fields.TargetPath | None, Field(alias="as")] = None
    """The path in the container; absent: that of the host."""
    permissions: Permissions = "rw"
    """What a container may do with it."""
    limit: Annotated[int, Field(ge=1, le=128)] = 1
    """The devices that one node may be a part of."""
    optional: bool = False
    """A device is there without it."""


class DeviceGroup(Model):
    """Device nodes that make up one device."""

    paths: Annotated[tuple[GroupPath, ...], Field(min_length=1)]
    """Its nodes."""


class InjectedNode(Model):
    """A device node that a container gets beside its device."""

    path: fields.DeviceGlob
    """The node on the host, or a glob."""
    as_: Annotated[fields.TargetPath | None, Field(alias="as")] = None
    """The path in the container; absent: that of the host."""
    permissions: Permissions = "rw"
    """What the container may do with it."""
    optional: bool = False
    """A container starts without it."""


class InjectedMount(Model):
    """A file or folder of the host that a container gets."""

    path: fields.HostGlob
    """The path on the host, or a glob."""
    as_: Annotated[fields.TargetPath | None, Field(alias="as")] = None
    """The path in the container; absent: that of the host."""
    readOnly: bool = True
    """The container cannot write to it."""
    optional: bool = False
    """A container starts without it."""


class InjectedFile(Model):
    """A file that a container gets, with a text of the recipe."""

    name: fields.PartName
    """Its name on the host."""
    as_: Annotated[fields.HostPath, Field(alias="as")]
    """The path in the container."""
    text: Annotated[str, Field(max_length=65536)]
    """Its content, or the value of a parameter."""


class RecipeInjection(Model):
    """What a container gets beside its device, where a condition holds."""

    when: Annotated[bool, Field(json_schema_extra=fields.or_parameter("true or false", "boolean"))] = True
    """false leaves it out."""
    nodes: tuple[InjectedNode, ...] = ()
    """Device nodes."""
    mounts: tuple[InjectedMount, ...] = ()
    """Files and folders of the host."""
    env: Annotated[
        Variables, Field(json_schema_extra=fields.or_parameter("a map of environment variables", "object"))
    ] = Field(default_factory=dict)
    """Environment variables."""
    preload: tuple[fields.LibraryPath, ...] = ()
    """Libraries that LD_PRELOAD names."""
    files: tuple[InjectedFile, ...] = ()
    """Files with a text of the recipe."""


class RecipeResource(Model):
    """A resource that containers ask for."""

    name: ExtendedResource
    """The extended resource."""
    class_: Annotated[Literal["char", "token", "uacce", "vfio"], Field(alias="class")]
    """What one device of it is: a group of device nodes (char), a number (token), a PCI function with an entry in
    /sys/class/uacce, or an IOMMU group of functions that are bound to vfio-pci."""
    kind: fields.PartName | None = None
    """The kind of match.pci whose functions are its devices (uacce and vfio)."""
    groups: Annotated[tuple[DeviceGroup, ...], Field(min_length=1)] | None = None
    """Its devices (char)."""
    count: Annotated[
        int | None,
        Field(ge=1, le=10000, json_schema_extra=fields.or_parameter("a whole number from 1 to 10000", "integer")),
    ] = None
    """The number of its devices (token)."""
    shares: Annotated[
        int, Field(ge=1, le=128, json_schema_extra=fields.or_parameter("a whole number from 1 to 128", "integer"))
    ] = 1
    """Containers that may share one device."""
    requires: tuple[fields.HostPath, ...] = ()
    """Paths of the host without which its devices are unhealthy."""
    profiles: Annotated[
        dict[fields.PartName, Variables],
        Field(json_schema_extra=fields.or_parameter("a map of profiles to environment variables", "object")),
    ] = Field(default_factory=dict)
    """Further resources NAME-PROFILE, each with environment variables of its own (token)."""
    inject: tuple[RecipeInjection, ...] = ()
    """What a container gets beside its device."""


class RecipePlugin(Model):
    """The device plugin of a recipe."""

    image: fields.PartName = keywords.PLUGIN_IMAGE
    """One of the images; device-plugin is that of KAE's device plugin unless the recipe has one of this name."""
    resources: Annotated[tuple[RecipeResource, ...], Field(min_length=1)]
    """The resources that it offers."""
