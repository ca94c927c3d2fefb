"""What the models share: strict frozen objects, fields that name a repository, and types that Kubernetes has."""

from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model

from compiler import kae, keywords, names, release
from compiler.formats import urls


class Model(BaseModel):
    """An object of a document: immutable, with no field but its own."""

    # For a quick start, a model is built when it is first needed, and no default is built at import.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, use_attribute_docstrings=True)


def defaults(**given: Any) -> Any:
    """Return a field that defaults to an object with the given values and the defaults of its other fields."""
    return Field(default_factory=lambda: given, validate_default=True)


Described = tuple[str, Any, str]
"""The name of a field, its default, and its meaning."""


def of_kinds(name: str, meaning: str, annotation: Any, field: Callable[[kae.Kind], Described]) -> Any:
    """Return a model of this name whose fields, all of one type, `field` describes by kind, in the table's order."""
    described = map(field, kae.KINDS)
    fields: dict[str, Any] = {own: (annotation, Field(default, description=words)) for own, default, words in described}
    return create_model(name, __base__=Model, __doc__=meaning, __module__=__name__, **fields)


def form(words: str) -> dict[str, JsonValue]:
    """Return the schema keyword with the meaning of a field, for messages about values that do not fit it."""
    return {keywords.FORM: words}


def meaning(words: str) -> Any:
    """Return a field with a meaning in words that continue "'x' is not …"."""
    return Field(json_schema_extra=form(words))


def text(pattern: str, longest: int | None, words: str, shortest: int | None = None) -> Any:
    """Return the field of a text that a pattern matches as a whole, with a bound of its length, and its meaning."""
    return Field(pattern=f"^{pattern}$", max_length=longest, min_length=shortest, json_schema_extra=form(words))


_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_DOMAIN = names.CLUSTER_PATTERN  # both are DNS names

LabelKey = Annotated[str, text(rf"({_DOMAIN}/)?{_NAME}", 317, "a label key, such as app or example.com/app")]
LabelValue = Annotated[
    str,
    text(
        rf"({_NAME})?",
        63,
        "a label value (at most 63 letters, digits, '-', '_' and '.', a letter or digit at both ends)",
    ),
]
DnsLabel = Annotated[
    str, text(names.LABEL_PATTERN, names.LABEL_LENGTH, "a DNS label (at most 63 lower-case letters, digits and '-')")
]
ObjectName = Annotated[str, text(_DOMAIN, 253, "a name (at most 253 lower-case letters, digits, '-' and '.')")]
ProjectName = Annotated[
    str, text(_DOMAIN, 100, "the name of an AppProject (at most 100 lower-case letters, digits, '-' and '.')")
]
"""Shorter than Kubernetes would take, as a file is named after it: file systems end at 255 bytes, some at 143."""
PolicyName = Annotated[
    str, text(names.POLICY_PATTERN, names.POLICY_LENGTH, "a DNS label of at most 30 characters without '--'")
]
ClusterName = Annotated[
    str,
    text(_DOMAIN, names.CLUSTER_LENGTH, "the name of a cluster (at most 50 lower-case letters, digits, '-' and '.')"),
]
Quantity = Annotated[
    Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?$", max_length=30)]
    | Annotated[int, Field(ge=0)]
    | Annotated[float, Field(ge=0)],
    meaning("a quantity, such as 2, 500m or 1Gi"),
]
"""https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""
ResourceName = Annotated[
    str,
    text(
        rf"(cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGTPE]i|{_DOMAIN}/{_NAME})",
        317,
        "a resource of containers, such as cpu or example.com/device",
    ),
]
"""https://kubernetes.io/docs/concepts/configuration/manage-resources-containers/"""
IntOrPercent = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")],
    meaning('a whole number, or a percentage such as "10%"'),
]
Port = Annotated[int, Field(ge=1, le=65535)]
ImagePart = Annotated[
    str,
    text(
        r"[A-Za-z0-9._:/@-]*",
        500,
        "a part of an image reference (at most 500 letters, digits, '.', '_', ':', '/', '@' and '-')",
    ),
]
Duration = Annotated[
    str, text(r"([0-9]+h)?([0-9]+m)?([0-9]+s)?", 20, "a duration, such as 90s, 10m or 1h30m", shortest=2)
]
PullPolicy = Literal["Always", "IfNotPresent", "Never"]
Glob = Annotated[str, text(r"[a-z0-9.*?\[\]!-]+", 100, "the name of a cluster or a glob, such as east-*")]


def url(patterns: str, words: str, credentials: str) -> Any:
    """Return the field of a URL: its patterns, its meaning in words, and the place of credentials in a sentence."""
    more = form(words) | {keywords.CREDENTIALS: credentials}
    return Field(pattern=f"^({patterns})$", max_length=500, json_schema_extra=more)


def git_url(credentials: str) -> Any:
    """Return the field of the URL of a git repository."""
    words = "the URL of a git repository, such as https://git.example.com/fleet.git"
    return url(f"{urls.HTTP}|{urls.FILE}|{urls.GIT}", words, credentials)


_PATH_PART = r"\.{0,2}[A-Za-z0-9_][A-Za-z0-9._-]*"
GitPath = Annotated[
    str,
    text(
        rf"(\.|{_PATH_PART}(/{_PATH_PART})*)",
        250,
        "the path of a folder in git (letters, digits, '.', '_', '-', and '/' between two names, but no '..')",
    ),
]
_REFERENCE = rf"[^{urls.BLANK}~^:?*\[\\/.{{"
"""The beginning of a class of characters: those of a reference's name but dot and slash."""
_DOTTED = rf"(\.{_REFERENCE}]+)*"
Branch = Annotated[
    str,
    # The rules of https://git-scm.com/docs/git-check-ref-format, but for `.lock`: RE2 knows no lookahead.
    text(
        rf"{_REFERENCE}@-]{_REFERENCE}]*{_DOTTED}(/{_REFERENCE}]+{_DOTTED})*",
        250,
        "the name of a branch in git (see git check-ref-format), such as main or release/1.2",
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

    name: Annotated[str, text(r"[-._a-zA-Z][-._a-zA-Z0-9]*", 200, "the name of an environment variable")]
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
