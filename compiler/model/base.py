"""What the models share: strict frozen objects, and the Kubernetes types that documents borrow."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from compiler import keywords, names, release


class Model(BaseModel):
    """An object of a document: immutable, with no field but its own."""

    # For a quick start, a model is built when a document first needs it, and no default is built at import.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def defaults(**given: Any) -> Any:
    """Return a field that defaults to an object with the given values and the defaults of its other fields."""
    return Field(default_factory=lambda: given, validate_default=True)


def form(words: str) -> dict[str, JsonValue]:
    """Return the schema keyword with the meaning of a pattern, for messages about values that do not match it."""
    return {keywords.FORM: words}


_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = names.CLUSTER_PATTERN  # both are DNS names

LabelKey = Annotated[
    str,
    Field(
        pattern=rf"^({_DOMAIN}/)?{_NAME}$",
        max_length=317,
        json_schema_extra=form("a label key, such as app or example.com/app"),
    ),
]
LabelValue = Annotated[
    str,
    Field(
        pattern=rf"^({_NAME})?$",
        max_length=63,
        json_schema_extra=form(
            "a label value (at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends)"
        ),
    ),
]
DnsLabel = Annotated[
    str,
    Field(
        pattern=rf"^{names.LABEL_PATTERN}$",
        max_length=names.LABEL_LENGTH,
        json_schema_extra=form("a DNS label (at most 63 lower-case letters, digits and '-')"),
    ),
]
ObjectName = Annotated[
    str,
    Field(
        pattern=rf"^{_DOMAIN}$",
        max_length=253,
        json_schema_extra=form("a name (at most 253 lower-case letters, digits, '-' and '.')"),
    ),
]
ProjectName = Annotated[
    str,
    Field(
        pattern=rf"^{_DOMAIN}$",
        max_length=100,
        json_schema_extra=form("the name of an AppProject (at most 100 lower-case letters, digits, '-' and '.')"),
    ),
]
"""Shorter than Kubernetes would take, as a file is named after it: file systems end at 255 bytes, some at 143."""
PolicyName = Annotated[
    str,
    Field(
        pattern=rf"^{names.POLICY_PATTERN}$",
        max_length=names.POLICY_LENGTH,
        json_schema_extra=form("a DNS label of at most 30 characters without '--'"),
    ),
]
ClusterName = Annotated[
    str,
    Field(
        pattern=rf"^{_DOMAIN}$",
        max_length=names.CLUSTER_LENGTH,
        json_schema_extra=form("the name of a cluster (at most 50 lower-case letters, digits, '-' and '.')"),
    ),
]
Quantity = Annotated[
    Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?$", max_length=30)]
    | Annotated[int, Field(ge=0)]
    | Annotated[float, Field(ge=0)],
    Field(json_schema_extra=form("a quantity, such as 2, 500m or 1Gi")),
]
"""https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""
ResourceName = Annotated[
    str,
    Field(
        pattern=rf"^(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGTPE]i|{_DOMAIN}/{_NAME})$",
        max_length=317,
        json_schema_extra=form("a resource of containers, such as cpu or example.com/device"),
    ),
]
"""https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"""
IntOrPercent = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")],
    Field(json_schema_extra=form('a whole number, or a percentage such as "10%"')),
]
Port = Annotated[int, Field(ge=1, le=65535)]
ImagePart = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9._:/@-]*$",
        max_length=500,
        json_schema_extra=form(
            "a part of an image reference (at most 500 letters, digits, '.', '_', ':', '/', '@' and '-')"
        ),
    ),
]
Duration = Annotated[
    str,
    Field(
        pattern=r"^([0-9]+h)?([0-9]+m)?([0-9]+s)?$",
        min_length=2,
        max_length=20,
        json_schema_extra=form("a duration, such as 90s, 10m or 1h30m"),
    ),
]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Glob = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9.*?\[\]!-]+$",
        max_length=100,
        json_schema_extra=form("the name of a cluster or a glob, such as east-*"),
    ),
]


class LocalObjectReference(Model):
    """An object of the same namespace."""

    name: ObjectName
    """The object's name."""


class Toleration(Model):
    """A taint that a pod tolerates (Toleration v1 core)."""

    key: LabelKey | None = None
    """The taint's key; absent, with operator Exists, means every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Exists bears any value, Equal only this one."""
    value: LabelValue | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Absent means every effect."""
    tolerationSeconds: int | None = None
    """How long a pod that runs already stays; for NoExecute only."""


class ResourceRequirements(Model):
    """What a container asks for and is held to (ResourceRequirements v1 core)."""

    limits: dict[ResourceName, Quantity] = Field(default_factory=dict)
    """The most that it may use."""
    requests: dict[ResourceName, Quantity] = Field(default_factory=dict)
    """What is set aside for it."""


class EnvVar(Model):
    """An environment variable with a plain value."""

    name: Annotated[
        str,
        Field(
            pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$",
            max_length=200,
            json_schema_extra=form("the name of an environment variable"),
        ),
    ]
    """The variable."""
    value: Annotated[str, Field(max_length=4096)] = ""
    """Its value, taken literally."""


class Requirement(Model):
    """A node selector requirement (NodeSelectorRequirement v1 core)."""

    key: LabelKey
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """Gt and Lt compare whole numbers; NotIn and DoesNotExist also take a node without the label."""
    values: Annotated[tuple[LabelValue, ...], Field(max_length=256)] = ()
    """One to 256 for In and NotIn, one whole number for Gt and Lt, none otherwise."""


class NodeSelector(Model):
    """Labels that a node must have; every one of them."""

    matchLabels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    """Labels with exactly these values."""
    matchExpressions: tuple[Requirement, ...] = ()
    """Requirements on labels."""


class Metrics(Model):
    """Whether, and where, a program serves Prometheus metrics."""

    enabled: bool = False
    """Serve metrics, and only then."""
    port: Port
    """Where they are served."""


class PodPlacement(Model):
    """Where pods of a cluster may run, and how their images are pulled."""

    pullSecrets: tuple[LocalObjectReference, ...] = ()
    """Secrets of the namespace with the registry's credentials."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints that the pods bear."""
    nodeSelector: NodeSelector | None = None
    """The nodes that the pods may run on; absent means every node whose taints they tolerate."""


class Container(Model):
    """A program on the nodes of a policy."""

    enabled: bool = True
    """Run it."""
    resources: ResourceRequirements = defaults()
    """What the container asks for and is held to."""


class Component(Container):
    """An image and how it is pulled and run."""

    repository: ImagePart = release.REPOSITORY
    """Registry and path before the image's name."""
    image: ImagePart
    """The image's name; the whole reference where repository and version are both empty."""
    version: ImagePart = "latest"
    """A tag, or a digest `sha256:…`."""
    pullPolicy: PullPolicy = "IfNotPresent"
    """When the kubelet pulls the image."""
    pullSecrets: tuple[LocalObjectReference, ...] = ()
    """Secrets of the namespace with the registry's credentials."""


class Metadata(Model):
    """What every document carries beside its spec."""

    name: ObjectName
    labels: dict[LabelKey, LabelValue] = Field(default_factory=dict)
    annotations: dict[LabelKey, str] = Field(default_factory=dict)


class Document(Model):
    """What every document is: a versioned object with a kind of its own."""

    apiVersion: Literal["device.openfuyao.com/v1alpha1"]
