"""Recipe: how a stack of software for an accelerator is found, brought to nodes and offered to containers."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from compiler import release
from compiler.model import base
from compiler.model import driver as drivers
from compiler.model.base import Model
from compiler.model.stacks import fields, resources
from compiler.model.stacks.driver import RecipeDriver


class PciKind(Model):
    """PCI functions of one kind; a node has the hardware with one of any kind."""

    kind: fields.PartName
    """A part of the names of labels."""
    vendor: fields.PciId
    """The PCI vendor id."""
    devices: tuple[fields.PciId, ...] = ()
    """PCI device ids of physical functions; without any, every function of the classes."""
    virtual: tuple[fields.PciId, ...] = ()
    """PCI device ids of virtual functions."""
    classes: tuple[fields.PciId, ...] = ()
    """PCI classes that the functions have; without any, all."""


class FeatureTerm(Model):
    """A condition on an attribute of a feature (MatchExpression of NFD's NodeFeatureRule)."""

    op: Literal["In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Lt", "GtLt", "IsTrue", "IsFalse"]
    """The operator."""
    value: tuple[Annotated[str, Field(max_length=200)], ...] = ()
    """What the operator compares with."""


class Feature(Model):
    """A feature of NFD, and conditions on its attributes."""

    feature: Annotated[
        str,
        Field(
            pattern=r"^[a-z]+\.[a-z]+$",
            max_length=63,
            json_schema_extra=base.form("a feature of NFD, such as cpu.cpuid"),
        ),
    ]
    """The feature."""
    matchExpressions: dict[Annotated[str, Field(min_length=1, max_length=200)], FeatureTerm]
    """The conditions by attribute; all of them hold."""


class Everywhere(Model):
    """Every node that a policy selects."""


class Match(Model):
    """How the nodes with the hardware are known: exactly one of the four."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    pci: Annotated[tuple[PciKind, ...], Field(min_length=1)] | None = None
    """By PCI functions, which NFD labels and counts."""
    features: Annotated[tuple[Feature, ...], Field(min_length=1)] | None = None
    """By other features of NFD; all of them hold."""
    labels: dict[base.LabelKey, Annotated[tuple[base.LabelValue, ...], Field(min_length=1)]] | None = None
    """By labels that somebody else sets, each with the values that it may have."""
    all: Everywhere | None = None
    """Every node that a policy selects."""


class Parameters(Model):
    """The values that a policy of the recipe may give: a part of JSON Schema."""

    properties: dict[fields.ParameterName, dict[str, Any]] = Field(default_factory=dict)
    """The schema of each parameter, with these keywords: type, enum, pattern, minLength, maxLength, minimum, maximum,
    items with maxItems, properties with required, additionalProperties with maxProperties, default, description."""
    required: tuple[fields.ParameterName, ...] = ()
    """Parameters that every policy gives."""


class RecipeImage(Model):
    """An image of the stack, unless a policy names another."""

    repository: base.ImagePart = release.REPOSITORY
    """Registry and path before the image's name."""
    image: drivers.DriverImagePart
    """The image's name."""
    version: drivers.DriverImagePart = "latest"
    """A tag, or a digest `sha256:…`."""


Claim = Annotated[
    str,
    Field(
        pattern=r"^((path|socket):(/[A-Za-z0-9_.-]+)+|[a-z0-9.-]+/[A-Za-z0-9_.-]+)$",
        max_length=317,
        json_schema_extra=base.form("path: or socket: with an absolute path, or a resource such as example.com/npu"),
    ),
]


class RecipeSpec(Model):
    """A stack: its hardware, its parameters and images, its driver and its resources."""

    title: Annotated[
        str,
        Field(
            pattern=r"^[^\x00-\x1f\x7f]+$",
            max_length=100,
            json_schema_extra=base.form("one line of 1 to 100 characters"),
        ),
    ]
    """Its name for people."""
    match: Match
    """The nodes with its hardware."""
    parameters: Parameters = base.defaults()
    """What a policy may set in values."""
    exclusive: tuple[Annotated[tuple[fields.ParameterName, ...], Field(min_length=2)], ...] = ()
    """Boolean parameters of which at most one of each list is true."""
    images: dict[fields.PartName, RecipeImage] = Field(default_factory=dict)
    """Every image of the stack by name."""
    driver: RecipeDriver | None = None
    """Its driver; absent: it has none."""
    devicePlugin: resources.RecipePlugin | None = None
    """Its resources; absent: it has none."""
    claims: tuple[Claim, ...] = ()
    """What a node has only once, beside its modules, files and resources."""


class RecipeMetadata(base.Metadata):
    """The recipe's name: that of its folder, and a DNS label of at most 20 characters without `--`."""

    name: fields.RecipeName


class Recipe(base.Document):
    """A stack of software for an accelerator, which DevicePolicies bring to nodes."""

    kind: Literal["Recipe"]
    metadata: RecipeMetadata
    spec: RecipeSpec
