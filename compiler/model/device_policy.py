"""DevicePolicy: which nodes get the stack of a recipe, with which values, and at which pace."""

from typing import Any, Literal

from pydantic import Field

from compiler.fleet import forms
from compiler.model import base, policy, program
from compiler.model import recipe as recipes
from compiler.model.base import Model


class ImageOverride(Model):
    """The parts of an image that differ from the recipe's."""

    repository: forms.ImagePart | None = None
    """Registry and path before the image's name."""
    image: policy.DriverImagePart | None = None
    """The image's name."""
    version: policy.DriverImagePart | None = None
    """A tag, or a digest `sha256:…`; with kernelMappings it may hold `${KERNEL_FULL_VERSION}` or `${KERNEL_XYZ}`."""


class DriverOverride(Model):
    """The fields of the driver that a part of a policy's nodes has instead."""

    source: policy.Source | None = None
    """Instead of driver.source, as a whole."""
    state: Literal["Present", "Absent"] | None = None
    """Instead of driver.state."""
    modules: tuple[recipes.ModuleName, ...] | None = None
    """Instead of driver.modules."""


class StackOverrides(Model):
    """What a part of a policy's nodes gets instead: frozen over wave over mapping over policy."""

    images: dict[recipes.PartName, ImageOverride] = Field(default_factory=dict)
    """Images, field by field."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Values of the recipe's parameters, each as a whole."""
    driver: DriverOverride = base.defaults()
    """The driver, field by field."""


class StackMapping(policy.KernelGroup, StackOverrides):
    """Nodes with certain kernels, by either regexp or literal; the first mapping that matches takes a node."""


class StackWave(policy.Share, StackOverrides):
    """Nodes that change earlier than the rest: one of percent, nodes and inventorySelector.

    The first wave that takes a node keeps it.
    """


class StackFrozen(policy.Group, StackOverrides):
    """Nodes that stay as they are until this entry is edited; they belong to no wave."""


class StackRollout(policy.Pace):
    """The pace at which hosts change."""

    waves: tuple[StackWave, ...] = ()
    """Nodes that change earlier, in order; all others are the rest."""
    frozen: tuple[StackFrozen, ...] = ()
    """Nodes that never move until their entry is edited."""


class Network(Model):
    """What becomes of network interfaces that hang on a module."""

    force: bool = False
    """Unload a module although an interface of it carries the node's traffic: the node may be lost."""


class StackDriver(policy.Managed, base.Container):
    """The driver of the recipe, and how hosts change to it."""

    enabled: bool = True
    """false: the driver is pre-installed, and nothing touches it."""
    installPolicy: Literal["IfNotPresent", "Always"] = "IfNotPresent"
    """IfNotPresent keeps a driver that others installed while it works; Always replaces it."""
    source: policy.Source | None = None
    """Where the modules come from; absent: the first of the recipe's sources."""
    modules: tuple[recipes.ModuleName, ...] | None = None
    """The modules that are loaded; absent: all that are not optional."""
    moduleParameters: dict[recipes.ModuleName, dict[recipes.ModuleParameter, recipes.ParameterValue]] = Field(
        default_factory=dict
    )
    """Module, parameter, value; over the defaults of the recipe."""
    network: Network = base.defaults()
    """What becomes of network interfaces."""


class StackPlugin(policy.Offer, base.Container):
    """How the devices of the recipe are offered to containers."""

    enabled: bool = True
    """false: no device plugin runs."""


class StackProgram(Model):
    """A program of the recipe on the nodes of a policy."""

    enabled: bool = True
    """false: it does not run."""
    maxUnavailable: base.IntOrPercent | None = None
    """Pods that may be replaced at a time; absent: 10%, or 1 where its start disturbs pods."""
    resources: dict[forms.DnsLabel, base.ResourceRequirements] = Field(default_factory=dict)
    """What its containers ask for and are held to, by their names; each as a whole."""


class DevicePolicySpec(policy.Selection):
    """Which nodes of which clusters, and what they get of a recipe."""

    recipe: recipes.RecipeName
    """The recipe: a folder below recipes/."""
    values: dict[str, Any] = Field(default_factory=dict)
    """Values of the recipe's parameters."""
    images: dict[recipes.PartName, ImageOverride] = Field(default_factory=dict)
    """Images that differ from the recipe's, by name."""
    pullPolicy: forms.PullPolicy = "IfNotPresent"
    """When the kubelet pulls the images."""
    pullSecrets: tuple[base.LocalObjectReference, ...] = ()
    """Secrets of the namespace with the registries' credentials."""
    driver: StackDriver = base.defaults()
    """The driver, and how hosts change to it."""
    devicePlugin: StackPlugin = base.defaults()
    """How devices are offered to containers."""
    programs: dict[program.ProgramName, StackProgram] = Field(default_factory=dict)
    """The recipe's programs by name; those that are not named here run, too."""
    kernelMappings: tuple[StackMapping, ...] = ()
    """By kernel: what nodes get. A node whose kernel none of them matches keeps what it has."""
    rollout: StackRollout = base.defaults()
    """The pace of a change."""


class DevicePolicy(base.Document):
    """Which nodes get the stack of a recipe, and how."""

    kind: Literal["DevicePolicy"]
    metadata: policy.PolicyMetadata
    spec: DevicePolicySpec
