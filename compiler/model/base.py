"""What the models share: strict frozen objects, fields that name a repository, and types that Kubernetes has."""

import ast
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, Field, create_model

from compiler import kae, release
from compiler.fleet import forms, pods, selectors


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


def meaning(words: str) -> Any:
    """Return a field with a meaning in words that continue "'x' is not …"."""
    return Field(json_schema_extra=forms.form(words))


Quantity = Annotated[
    Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?$", max_length=30)]
    | Annotated[int, Field(ge=0)]
    | Annotated[float, Field(ge=0)],
    meaning("a quantity, such as 2, 500m or 1Gi"),
]
"""https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/"""
IntOrPercent = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")],
    meaning('a whole number, or a percentage such as "10%"'),
]


class LocalObjectReference(Model):
    """An object of the same namespace."""

    name: forms.ObjectName
    """The object's name."""


class Toleration(Model):
    """A taint that a pod tolerates (Toleration v1 core)."""

    key: forms.LabelKey | None = None
    """The taint's key; absent, with operator Exists, means every taint."""
    operator: Literal["Equal", "Exists"] = "Equal"
    """Exists bears any value, Equal only this one."""
    value: forms.LabelValue | None = None
    """The taint's value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Absent means every effect."""
    tolerationSeconds: int | None = None
    """How long a pod that runs already stays; for NoExecute only."""


class ResourceRequirements(Model):
    """What a container asks for and is held to (ResourceRequirements v1 core)."""

    limits: dict[forms.ResourceName, Quantity] = Field(default_factory=dict)
    """The most that it may use."""
    requests: dict[forms.ResourceName, Quantity] = Field(default_factory=dict)
    """What is set aside for it."""


class EnvVar(Model):
    """An environment variable with a plain value."""

    name: Annotated[str, forms.text(r"[-._a-zA-Z][-._a-zA-Z0-9]*", 200, "the name of an environment variable")]
    """The variable."""
    value: Annotated[str, Field(max_length=4096)] = ""
    """Its value, taken literally."""


class Requirement(Model):
    """A node selector requirement (NodeSelectorRequirement v1 core)."""

    key: forms.LabelKey
    """The label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """Gt and Lt compare whole numbers; NotIn and DoesNotExist also take a node without the label."""
    values: Annotated[tuple[forms.LabelValue, ...], Field(max_length=256)] = ()
    """One to 256 for In and NotIn, one whole number for Gt and Lt, none otherwise."""


class NodeSelector(Model):
    """Labels that a node must have; every one of them."""

    matchLabels: dict[forms.LabelKey, forms.LabelValue] = Field(default_factory=dict)
    """Labels with exactly these values."""
    matchExpressions: tuple[Requirement, ...] = ()
    """Requirements on labels."""


class Metrics(Model):
    """Whether, and where, a program serves Prometheus metrics."""

    enabled: bool = False
    """Serve metrics, and only then."""
    port: forms.Port
    """Where they are served."""


class Container(Model):
    """A program on the nodes of a policy."""

    enabled: bool = True
    """Run it."""
    resources: ResourceRequirements = defaults()
    """What the container asks for and is held to."""


class Component(Container):
    """An image and how it is pulled and run."""

    repository: forms.ImagePart = release.REPOSITORY
    """Registry and path before the image's name."""
    image: forms.ImagePart
    """The image's name; the whole reference where repository and version are both empty."""
    version: forms.ImagePart = "latest"
    """A tag, or a digest `sha256:…`."""
    pullPolicy: forms.PullPolicy = "IfNotPresent"
    """When the kubelet pulls the image."""
    pullSecrets: tuple[LocalObjectReference, ...] = ()
    """Secrets of the namespace with the registry's credentials."""


class Metadata(Model):
    """What every document carries beside its spec."""

    name: forms.ObjectName
    labels: dict[forms.LabelKey, forms.LabelValue] = Field(default_factory=dict)
    annotations: dict[forms.LabelKey, str] = Field(default_factory=dict)


class Document(Model):
    """What every document is: a versioned object with a kind of its own."""

    apiVersion: Literal["device.openfuyao.com/v1alpha1"]


_KNOWN: Mapping[type, type[Model]] = {
    pods.EnvVar: EnvVar,
    pods.Reference: LocalObjectReference,
    pods.Resources: ResourceRequirements,
    pods.Toleration: Toleration,
    selectors.Selector: NodeSelector,
}
"""The models of values that policies have too."""


@functools.cache
def of_value(value: type[msgspec.Struct], name: str) -> type[Model]:
    """Return the model of a value whose class has the fields of a document, with its defaults and docstrings."""
    base = _KNOWN.get(value.__bases__[0], Model)
    types, texts = get_type_hints(value, include_extras=True), field_texts(value)
    fields: dict[str, Any] = {
        field.name: (
            _modelled(types[field.name]),
            _field(field.default, alias=field.encode_name, description=texts.get(field.encode_name)),
        )
        for field in msgspec.structs.fields(value)
        if field.name not in base.model_fields
    }
    return create_model(name, __base__=base, __doc__=value.__doc__, __module__=__name__, **fields)


def _modelled(annotation: Any) -> Any:
    """Return the type of a field with models in the place of values."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _KNOWN.get(annotation) or of_value(annotation, annotation.__name__)
    inner = tuple(map(_modelled, get_args(annotation)))
    if get_origin(annotation) is tuple:
        return tuple[inner]  # type: ignore[valid-type]  # the types are made here
    return inner[0] | None if type(None) in inner else annotation


def _field(default: Any, **more: Any) -> Any:
    """Return a field with the default of a value's field: of an object, what it has other than its class."""
    if not isinstance(default, msgspec.Struct):
        return Field(... if default is msgspec.NODEFAULT else default, **more)
    known = ((field, getattr(default, field.name)) for field in msgspec.structs.fields(default))
    given = {field.encode_name: own for field, own in known if own not in (field.default, {})}
    return Field(default_factory=lambda: given, validate_default=True, **more)


def field_texts(value: type[msgspec.Struct]) -> dict[str, str]:
    """Return the docstrings of a value's fields, by the field's name in documents."""
    keys = {field.name: field.encode_name for field in msgspec.structs.fields(value)}
    found: dict[str, str] = {}
    for ancestor in reversed(value.__mro__):
        if issubclass(ancestor, msgspec.Struct) and ancestor is not msgspec.Struct:
            (definition,) = ast.parse(inspect.getsource(ancestor)).body
            found |= {keys[name]: text for name, text in _texts(definition) if name in keys}
    return found


def _texts(definition: Any) -> Iterator[tuple[str, str]]:
    for field, text in itertools.pairwise(definition.body):
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            yield ast.unparse(field.target), inspect.cleandoc(str(text.value.value))
