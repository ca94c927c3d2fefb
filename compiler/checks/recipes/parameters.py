"""Rules for the parameters of a recipe: the part of JSON Schema that they may use, and the fields that they fill."""

import itertools
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from compiler import wording
from compiler.diagnostics import Diagnostic, rule
from compiler.formats import canonical, documents
from compiler.planning import kernels
from compiler.schema import judge, phrases, recipe_schema

MOST_ITEMS = 256
MOST_KEYS = 64
_LONGEST_PATTERN = 200
_DEEPEST = 4
"""Levels of a value: profiles of variables have three."""

_COMMON = ("type", "description")
_KEYWORDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "array": ("items", "minItems", "maxItems"),
        "boolean": (),
        "integer": ("enum", "minimum", "maximum"),
        "number": ("enum", "minimum", "maximum"),
        "object": ("properties", "required", "additionalProperties", "maxProperties"),
        "string": ("enum", "pattern", "minLength", "maxLength"),
    }
)
_MODULE_TYPES = ("boolean", "integer", "string")
_ODD_PATTERNS = ("(?", "[:", "&&", "--", "~~", "[[")
"""Syntax that the two libraries of the schema stage, Rust's regex and Python's re, read differently."""

_Path = documents.Path
Schema = Mapping[str, Any]


@rule("parameter-schema", "error")
def findings(source: documents.Document, schema: phrases.Schema) -> Iterator[Diagnostic]:
    """The schema of a parameter is of the subset that recipes have, and fits the fields that it fills."""
    spec: Mapping[str, Any] = source.data["spec"]
    top: _Path = ("spec", "parameters")
    properties: Mapping[str, Any] = spec.get("parameters", {}).get("properties", {})
    found = list(_each(source, (*top, "properties"), properties))
    for index, module in enumerate(spec.get("driver", {}).get("modules", ())):
        path: _Path = ("spec", "driver", "modules", index, "parameters")
        found += _each(source, path, module.get("parameters", {}), _MODULE_TYPES)
    found += _required(source, (*top, "required"), spec.get("parameters", {}).get("required", ()), properties)
    found += _places(source, properties, schema)
    yield from found or _defaults(source, spec, schema)


def _each(
    source: documents.Document, path: _Path, schemas: Mapping[str, Any], types: tuple[str, ...] = tuple(_KEYWORDS)
) -> Iterator[Diagnostic]:
    for name, schema in schemas.items():
        for at, message, hint in _faults(schema, types):
            yield _finding(source, (*path, name, *at), message, hint)


_Fault = tuple[_Path, str, str]
"""The place in a schema, the message and the hint."""


def _faults(schema: Schema, types: tuple[str, ...] = tuple(_KEYWORDS), depth: int = 0) -> Iterator[_Fault]:
    """Yield the mistakes in a schema."""
    kind = schema.get("type")
    if kind not in types:
        message = "A parameter has a type." if kind is None else f"{_shown(kind)} is not a type of parameters."
        yield (("type",) if kind is not None else ()), message, f"Write type: with one of {wording.listed(types)}."
        return
    if depth == _DEEPEST:
        yield (), f"A parameter has at most {_DEEPEST} levels.", "Make it flatter."
        return
    known = (*_COMMON, *_KEYWORDS[kind], *(("default",) if depth == 0 else ()))
    for keyword, value in schema.items():
        if keyword not in known:
            near = wording.did_you_mean(keyword, known)
            of_kind = f" of type {kind}" if any(keyword in those for those in _KEYWORDS.values()) else ""
            message = f"{wording.quoted(keyword)} is not a keyword of parameters{of_kind}."
            yield (keyword,), message, near or f"Its keywords are {wording.listed(known)}."
        elif (rule := _RULES.get(keyword)) and not rule[0](value, kind):
            yield (keyword,), f"{_shown(value)} is not {rule[1]}.", ""
    yield from _bounds(schema, kind)
    yield from _inner(schema, types, depth)


def _shown(value: Any) -> str:
    """Return a value as people write it in YAML, in quotes where it is no list or mapping."""
    return wording.cut(_flow(value)) if isinstance(value, list | dict) else wording.quoted(value)


def _flow(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {_flow(item)}' for key, item in value.items())}}}"
    return canonical.scalar(value) if isinstance(value, str | bool) else "null" if value is None else str(value)


def _bounds(schema: Schema, kind: str) -> Iterator[_Fault]:
    """Values are bounded in size, as objects of Kubernetes are."""
    if kind == "array" and "maxItems" not in schema:
        yield (), "A list of a parameter has maxItems.", f"Add maxItems: at most {MOST_ITEMS}."
    if kind == "array" and "items" not in schema:
        yield (), "A list of a parameter has items.", "Add items: the schema of each item."
    if kind == "object" and ("properties" in schema) == ("additionalProperties" in schema):
        hint = "Write properties for known keys, or additionalProperties for the values of others."
        yield (), "A mapping of a parameter has either properties or additionalProperties.", hint
    elif kind == "object" and "additionalProperties" in schema and "maxProperties" not in schema:
        yield (
            (),
            "A mapping of a parameter with additionalProperties has maxProperties.",
            (f"Add maxProperties: at most {MOST_KEYS}."),
        )
    for name in schema.get("required", ()) if _is_names(schema.get("required", ())) else ():
        if name not in schema.get("properties", {}):
            yield ("required",), f"{wording.quoted(name)} is not one of the properties.", "Correct the name."


def _inner(schema: Schema, types: tuple[str, ...], depth: int) -> Iterator[_Fault]:
    """Yield the mistakes in the schemas of items, keys and values."""
    inner: list[tuple[_Path, Any]] = [
        ((word,), schema[word]) for word in ("items", "additionalProperties") if word in schema
    ]
    properties = schema.get("properties", {})
    inner += [(("properties", name), value) for name, value in properties.items()] if _is_mapping(properties) else []
    for path, value in inner:
        if _is_mapping(value):
            yield from (((*path, *at), message, hint) for at, message, hint in _faults(value, types, depth + 1))


def _is_mapping(value: Any, _: str = "") -> bool:
    return isinstance(value, dict)


def _is_schemas(value: Any, _: str) -> bool:
    return isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values())


def _is_names(value: Any, _: str = "") -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_text(value: Any, _: str) -> bool:
    return isinstance(value, str)


def _is_pattern(value: Any, _: str) -> bool:
    if not isinstance(value, str) or len(value) > _LONGEST_PATTERN or any(odd in value for odd in _ODD_PATTERNS):
        return False
    escaped = any(first == "\\" and second.isalnum() for first, second in itertools.pairwise(value))
    return not escaped and kernels.fault(value) is None


def _is_number(value: Any, kind: str) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole or (kind == "number" and isinstance(value, float) and abs(value) < float("inf"))


def _is_choices(value: Any, kind: str) -> bool:
    right: Callable[[Any, str], bool] = _is_text if kind == "string" else _is_number
    return isinstance(value, list) and 0 < len(value) <= MOST_ITEMS and all(right(item, kind) for item in value)


def _is_up_to(most: int) -> Callable[[Any, str], bool]:
    return lambda value, _: isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most


_RULES: Mapping[str, tuple[Callable[[Any, str], bool], str]] = MappingProxyType(
    {
        "additionalProperties": (_is_mapping, "a schema"),
        "description": (_is_text, "a text"),
        "enum": (_is_choices, f"a list of 1 to {MOST_ITEMS} values of the type"),
        "items": (_is_mapping, "a schema"),
        "maxItems": (_is_up_to(MOST_ITEMS), f"a whole number from 0 to {MOST_ITEMS}"),
        "maxLength": (_is_up_to(recipe_schema.LONGEST), f"a whole number from 0 to {recipe_schema.LONGEST}"),
        "maxProperties": (_is_up_to(MOST_KEYS), f"a whole number from 0 to {MOST_KEYS}"),
        "maximum": (_is_number, "a number of the type"),
        "minItems": (_is_up_to(MOST_ITEMS), f"a whole number from 0 to {MOST_ITEMS}"),
        "minLength": (_is_up_to(recipe_schema.LONGEST), f"a whole number from 0 to {recipe_schema.LONGEST}"),
        "minimum": (_is_number, "a number of the type"),
        "pattern": (
            _is_pattern,
            f"a pattern of at most {_LONGEST_PATTERN} characters, without '(?', named classes and escapes of letters",
        ),
        "properties": (_is_schemas, "a mapping of names to schemas"),
        "required": (_is_names, "a list of names"),
    }
)
"""The values that a keyword takes, and their meaning in words, which continue "'x' is not …"."""


def _required(
    source: documents.Document, path: _Path, required: Any, properties: Mapping[str, Any]
) -> Iterator[Diagnostic]:
    for index, name in enumerate(required):
        if name not in properties:
            hint = wording.did_you_mean(name, properties) or "Add it to properties, or remove it here."
            yield _finding(source, (*path, index), f"{wording.quoted(name)} is not a parameter of the recipe.", hint)


def _places(source: documents.Document, properties: Mapping[str, Any], schema: phrases.Schema) -> Iterator[Diagnostic]:
    """A parameter stands alone in a field of its type, and always has a value there."""
    spec: Mapping[str, Any] = source.data["spec"]
    required = spec.get("parameters", {}).get("required", ())
    places = dict(recipe_schema.references(spec))
    for path, text in recipe_schema.texts(spec):
        at: _Path = ("spec", *path)
        if path not in places:
            if "${values." in text:
                yield _finding(source, at, "A parameter stands alone in its field.", "Write nothing beside it.")
            continue
        name, wanted = places[path], recipe_schema.field(schema, path)
        own = properties.get(name)
        if own is None:
            hint = wording.did_you_mean(name, properties) or "Add it to spec.parameters.properties."
            yield _finding(source, at, f"'values.{name}' is not a parameter of the recipe.", hint)
        elif isinstance(own.get("type"), str) and own["type"] in _KEYWORDS and own["type"] != wanted["type"]:
            message = f"'{wording.dotted(at)}' takes {phrases.typed({'type': wanted['type']})}, and '{name}' is "
            yield _finding(source, at, f"{message}{phrases.typed({'type': own['type']})}.", "Correct one of the types.")
        elif "default" not in own and name not in required:
            message = f"'{wording.dotted(at)}' has no value where a policy leaves out '{name}'."
            yield _finding(source, at, message, "Give the parameter a default, or name it in spec.parameters.required.")
    for name in properties:
        if name not in places.values():
            message = f"The parameter '{name}' stands in no field, so its value would change nothing."
            hint = f"Write ${{values.{name}}} into a field of driver or devicePlugin, or remove it."
            yield _finding(source, ("spec", "parameters", "properties", name), message, hint)


def _defaults(source: documents.Document, spec: Mapping[str, Any], schema: phrases.Schema) -> Iterator[Diagnostic]:
    """The default of a parameter is a value that it may have."""
    top: _Path = ("spec", "parameters", "properties")
    allowed: dict[_Path, Schema] = {
        (*top, name): inner for name, inner in recipe_schema.parameters(spec, schema).items()
    }
    for index, module in enumerate(spec.get("driver", {}).get("modules", ())):
        for name, inner in module.get("parameters", {}).items():
            path: _Path = ("spec", "driver", "modules", index, "parameters", name)
            allowed[path] = recipe_schema.of_module(inner)
    for at, inner in allowed.items():
        place = (*at, "default")
        if not source.has(place):
            continue
        value = source.value(place)
        error = next(iter(judge.thorough()(inner).iter_errors(value)), None)
        if error is not None:
            below = wording.dotted(tuple(error.absolute_path))
            message = f"The default of '{at[-1]}' is not a value that it may have{f', at {below}' if below else ''}."
            hint = f"Write {phrases.expected(error.schema)}." if "type" in error.schema else ""
            yield _finding(source, (*place, *error.absolute_path), message, hint)


def _finding(source: documents.Document, path: _Path, message: str, hint: str) -> Diagnostic:
    is_key = isinstance(source.value(path), dict | list) if source.has(path) else False
    span = source.key_span(*path) if is_key else source.span(*path)
    return Diagnostic(code="parameter-schema", span=span, message=message, hint=hint)
