"""Rules for the parameters of a recipe: the part of JSON Schema that they may use, and the fields that they fill."""

import itertools
import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from compiler import wording
from compiler.checks import lists, references
from compiler.diagnostics import Diagnostic, shared_rule
from compiler.formats import canonical, documents
from compiler.planning import kernels
from compiler.schema import judge, phrases, recipe_schema

MOST_ITEMS = 256
MOST_KEYS = 64
_LONGEST_TEXT = 65536
"""Of a text with a bound of its own, such as a file of a program."""
_MOST: Mapping[str, int] = MappingProxyType(
    {
        **dict.fromkeys(("minItems", "maxItems"), MOST_ITEMS),
        **dict.fromkeys(("minLength", "maxLength"), _LONGEST_TEXT),
        "maxProperties": MOST_KEYS,
    }
)
_LONGEST_PATTERN = 200
_PATTERN = f"a pattern of at most {_LONGEST_PATTERN} characters, without '(?', named classes and escapes of letters"
_DEEPEST = 5
"""Levels of a value: profiles of variables have three, lists of selectors of devices all."""

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


shared_rule(
    "parameter-schema",
    "error",
    "The schema of a parameter is of the subset that recipes have, and the parameter stands in some field.",
)


def schemas_of(source: documents.Document) -> Iterator[Diagnostic]:
    """Yield the mistakes in the schemas of a recipe's parameters, without which nothing else is known of these."""
    for path, schemas, types in _declared(source.data["spec"]):
        for name, own in schemas.items():
            yield from (_finding(source, (*path, name, *at), text, hint) for at, text, hint in _faults(own, types))


def names(source: documents.Document, *, is_sound: bool) -> Iterator[Diagnostic]:
    """Yield the parameters that are required or stated in vain.

    `is_sound` is False where references have mistakes: what they name is then not known.
    """
    spec: Mapping[str, Any] = source.data["spec"]
    stated: Mapping[str, Any] = spec.get("parameters", {})
    properties: Mapping[str, Any] = stated.get("properties", {})
    for path, name in lists.items(("spec", "parameters"), stated, "required"):
        if name not in properties:
            hint = wording.did_you_mean(name, properties) or "Add it to properties, or remove it here."
            yield _finding(source, path, f"{wording.quoted(name)} is not a parameter of the recipe.", hint)
    if is_sound:
        yield from _idle(source, properties)


def _declared(spec: Mapping[str, Any]) -> Iterator[tuple[_Path, Mapping[str, Any], tuple[str, ...]]]:
    """Yield the schemas of the recipe's parameters and of each module's, by name, with their path and their types."""
    yield ("spec", "parameters", "properties"), spec.get("parameters", {}).get("properties", {}), tuple(_KEYWORDS)
    for path, module in lists.items(("spec", "driver"), spec.get("driver", {}), "modules"):
        yield (*path, "parameters"), module.get("parameters", {}), _MODULE_TYPES


_Fault = tuple[_Path, str, str]
"""The place in a schema, the message and the hint."""


def _faults(schema: Schema, types: tuple[str, ...], depth: int = 0) -> Iterator[_Fault]:
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
        elif wanted := _unfit(keyword, value, kind):
            yield (keyword,), f"{_shown(value)} is not {wanted}.", ""
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
        message = "A mapping of a parameter with additionalProperties has maxProperties."
        yield (), message, f"Add maxProperties: at most {MOST_KEYS}."
    for least, most in (("minimum", "maximum"), ("minItems", "maxItems"), ("minLength", "maxLength")):
        low, high = schema.get(least, -math.inf), schema.get(most, math.inf)
        if all(_is_number(bound, "number") for bound in (low, high)) and low > high:
            yield (least,), f"{least} {low} is more than {most} {high}, so no value fits.", "Correct one of the two."
    for name in schema.get("required", ()) if _is_names(schema.get("required", ())) else ():
        if name not in schema.get("properties", {}):
            yield ("required",), f"{wording.quoted(name)} is not one of the properties.", "Correct the name."


def _inner(schema: Schema, types: tuple[str, ...], depth: int) -> Iterator[_Fault]:
    """Yield the mistakes in the schemas of items, keys and values."""
    inner: list[tuple[_Path, Any]] = [
        ((word,), schema[word]) for word in ("items", "additionalProperties") if word in schema
    ]
    properties = schema.get("properties", {})
    inner += (
        [(("properties", name), value) for name, value in properties.items()] if isinstance(properties, dict) else []
    )
    for path, value in inner:
        if isinstance(value, dict):
            yield from (((*path, *at), message, hint) for at, message, hint in _faults(value, types, depth + 1))


def _unfit(keyword: str, value: Any, kind: str) -> str:
    """Return what a keyword takes, in words that continue "'x' is not …"; none where the value is one of these."""
    match keyword:
        case "additionalProperties" | "items":
            fits, wanted = isinstance(value, dict), "a schema"
        case "description":
            fits, wanted = isinstance(value, str), "a text"
        case "enum":
            fits = isinstance(value, list) and 0 < len(value) <= MOST_ITEMS
            fits = fits and all(isinstance(item, str) if kind == "string" else _is_number(item, kind) for item in value)
            wanted = f"a list of 1 to {MOST_ITEMS} values of the type"
        case "minimum" | "maximum":
            fits, wanted = _is_number(value, kind), "a number of the type"
        case "pattern":
            fits, wanted = _is_pattern(value), _PATTERN
        case "properties":
            fits = isinstance(value, dict) and all(isinstance(inner, dict) for inner in value.values())
            wanted = "a mapping of names to schemas"
        case "required":
            fits, wanted = _is_names(value), "a list of names"
        case _ if keyword in _MOST:
            fits = _is_number(value, "integer") and 0 <= value <= _MOST[keyword]
            wanted = f"a whole number from 0 to {_MOST[keyword]}"
        case _:
            return ""
    return "" if fits else wanted


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_number(value: Any, kind: str) -> bool:
    whole = isinstance(value, int) and not isinstance(value, bool)
    return whole or (kind == "number" and isinstance(value, float) and abs(value) < float("inf"))


def _is_pattern(value: Any) -> bool:
    if not isinstance(value, str) or len(value) > _LONGEST_PATTERN or any(odd in value for odd in _ODD_PATTERNS):
        return False
    escaped = any(first == "\\" and second.isalnum() for first, second in itertools.pairwise(value))
    return not escaped and kernels.fault(value) is None


def _idle(source: documents.Document, properties: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """A parameter stands in some field."""
    spec: Mapping[str, Any] = source.data["spec"]
    used = references.used(spec)
    for name in properties:
        if name not in used:
            message = f"The parameter '{name}' stands in no field, so its value would change nothing."
            hint = f"Write ${{values.{name}}} into a field of driver, devicePlugin or programs, or remove it."
            yield _finding(source, ("spec", "parameters", "properties", name), message, hint)


def defaults(source: documents.Document, schema: phrases.Schema) -> Iterator[Diagnostic]:
    """The default of a parameter is a value that it may have; `schema` is that of recipes."""
    spec: Mapping[str, Any] = source.data["spec"]
    (top, _, _), *of_modules = _declared(spec)
    allowed = {(*top, name): inner for name, inner in recipe_schema.parameters(spec, schema).items()}
    for path, schemas, _ in of_modules:
        allowed |= {(*path, name): recipe_schema.of_module(inner) for name, inner in schemas.items()}
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
