"""What the models share: strict frozen objects, fields that name a repository, and types that Kubernetes has."""

import ast
import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from pydantic import BaseModel, ConfigDict, Field, create_model

from compiler import kae, release
from compiler.fleet import clusters, forms, pods, selectors


class Model(BaseModel):
    """An object of a document: immutable, with no field but its own."""

    # For a quick start, a model is built when it is first needed, and no default is built at import.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True, use_attribute_docstrings=True)


class _Described(Model):
    """A model whose fields come with their meanings: pydantic would look for a class in all sources that call."""

    model_config = ConfigDict(use_attribute_docstrings=False)


def defaults(**given: Any) -> Any:
    """Return a field that defaults to an object with the given values and the defaults of its other fields."""
    return Field(default_factory=lambda: given, validate_default=True)


Described = tuple[str, Any, str]
"""The name of a field, its default, and its meaning."""


def of_kinds(name: str, meaning: str, annotation: Any, field: Callable[[kae.Kind], Described]) -> Any:
    """Return a model of this name whose fields, all of one type, `field` describes by kind, in the table's order."""
    described = map(field, kae.KINDS)
    fields: dict[str, Any] = {own: (annotation, Field(default, description=words)) for own, default, words in described}
    return create_model(name, __base__=_Described, __doc__=meaning, __module__=__name__, **fields)


def meaning(words: str) -> Any:
    """Return a field with a meaning in words that continue "'x' is not …"."""
    return Field(json_schema_extra=forms.form(words))


IntOrPercent = Annotated[
    Annotated[int, Field(ge=0)] | Annotated[str, Field(pattern=r"^(100|[1-9]?[0-9])%$")],
    meaning('a whole number, or a percentage such as "10%"'),
]


_NAMES: Mapping[type, str] = {
    clusters.Spec: "KAEClusterSpec",
    pods.Reference: "LocalObjectReference",
    pods.Resources: "ResourceRequirements",
    selectors.Selector: "NodeSelector",
}
"""The values that documents call otherwise."""


@functools.cache
def of_value(value: type[msgspec.Struct]) -> type[Model]:
    """Return the model of a value whose class has the fields of a document, with its defaults and docstrings."""
    name = _NAMES.get(value, value.__name__)
    types, texts = get_type_hints(value, include_extras=True), field_texts(value)
    fields: dict[str, Any] = {
        field.name: (
            _modelled(types[field.name]),
            _field(field, alias=field.encode_name, description=texts.get(field.encode_name)),
        )
        for field in msgspec.structs.fields(value)
    }
    return create_model(name, __base__=_Described, __doc__=value.__doc__, __module__=__name__, **fields)


def _modelled(annotation: Any) -> Any:
    """Return the type of a field with models in the place of values."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return of_value(annotation)
    inner = tuple(map(_modelled, get_args(annotation)))
    if get_origin(annotation) in (tuple, Mapping):
        return (tuple if get_origin(annotation) is tuple else dict)[inner]
    return inner[0] | None if type(None) in inner else annotation


def _field(field: msgspec.structs.FieldInfo, **more: Any) -> Any:
    """Return a field with the default of a value's field: of an object, what it has other than its class."""
    if field.default_factory is not msgspec.NODEFAULT:
        return Field(default_factory=field.default_factory, **more)
    if not isinstance(field.default, msgspec.Struct):
        return Field(... if field.default is msgspec.NODEFAULT else field.default, **more)
    known = ((inner, getattr(field.default, inner.name)) for inner in msgspec.structs.fields(field.default))
    given = {inner.encode_name: own for inner, own in known if own not in (inner.default, {})}
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


if TYPE_CHECKING:
    EnvVar: TypeAlias = Model
    LocalObjectReference: TypeAlias = Model
    NodeSelector: TypeAlias = Model
    ResourceRequirements: TypeAlias = Model
    Toleration: TypeAlias = Model
else:
    kubernetes = (pods.EnvVar, pods.Reference, selectors.Selector, pods.Resources, pods.Toleration)
    EnvVar, LocalObjectReference, NodeSelector, ResourceRequirements, Toleration = map(of_value, kubernetes)


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
