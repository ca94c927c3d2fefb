"""Phrases of the schema stage's messages."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from compiler import keywords, wording

Schema = Mapping[str, Any]

_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "array": "a list",
        "boolean": "true or false",
        "integer": "a whole number",
        "number": "a number",
        "object": "a mapping",
        "string": "a string",
    }
)


def resolved(schema: Schema, document: Schema) -> Schema:
    """Return a schema with the schema of the document that it refers to merged in."""
    reference = schema.get("$ref")
    if reference is None:
        return schema
    return {**document["$defs"][reference.removeprefix("#/$defs/")], **schema}


def expected(schema: Schema) -> str:
    """Return the phrase for the values that a schema allows."""
    if keywords.FORM in schema:
        return str(schema[keywords.FORM])
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return f"one of {wording.listed(schema['enum'])}"
    matching = f" that matches {wording.cut(schema['pattern'])}" if "pattern" in schema else ""
    return typed(schema) + _bounds(schema) + matching


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "maxLength" in schema:
        return f" of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    if low is not None:
        return f" of at least {low}" if high is None else f" from {low} to {high}"
    return "" if high is None else f" of at most {high}"


def typed(schema: Schema) -> str:
    """Return the phrase for the type of a schema, or for the common form of several types."""
    wanted = schema["type"]
    return _TYPES[wanted] if isinstance(wanted, str) else str(schema[keywords.FORM])


def value(data: Any) -> str:
    """Return the phrase for a value of a document, with its type."""
    if data is None:
        return "no value"
    if isinstance(data, dict | list):
        return "a mapping" if isinstance(data, dict) else "a list"
    if isinstance(data, bool):
        return "true" if data else "false"
    return f"the string {wording.quoted(data)}" if isinstance(data, str) else f"the number {wording.cut(data)}"
