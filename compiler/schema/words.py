"""Phrases of the schema stage's messages."""

import difflib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from compiler import documents
from compiler.model import base

Schema = Mapping[str, Any]

_LONGEST = 80
"""Characters of a value that a message repeats."""

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


def expected(schema: Schema) -> str:
    """What a schema allows."""
    if base.FORM in schema:
        return str(schema[base.FORM])
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return f"one of {listed(schema['enum'])}"
    return typed(schema) + _bounds(schema)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if "maxLength" in schema:
        return f" of {schema.get('minLength', 0)} to {schema['maxLength']} characters"
    if low is not None:
        return f" of at least {low}" if high is None else f" from {low} to {high}"
    return ""


def typed(schema: Schema) -> str:
    """The type that a schema asks for; where there are several, their common form."""
    wanted = schema["type"]
    return _TYPES[wanted] if isinstance(wanted, str) else str(schema[base.FORM])


def value(found: Any) -> str:
    """What stands in a document, with its type."""
    if found is None:
        return "no value"
    if isinstance(found, dict | list):
        return "a mapping" if isinstance(found, dict) else "a list"
    if isinstance(found, bool):
        return "true" if found else "false"
    return f"the string '{shown(found)}'" if isinstance(found, str) else f"the number {shown(found)}"


def shown(found: Any) -> str:
    """A word of a document on one line, cut where it is long."""
    text = str(found)
    printable = (mark if mark.isprintable() else repr(mark)[1:-1] for mark in text[:_LONGEST])
    return "".join(printable) + ("…" if len(text) > _LONGEST else "")


def dotted(path: documents.Path) -> str:
    """A path as people write it: spec.driver.env[0].name."""
    text = ""
    for step in path:
        if isinstance(step, str) and re.fullmatch(r"[A-Za-z]\w*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text


def listed(names: Iterable[Any]) -> str:
    """A, B and C."""
    *most, last = (shown(name) for name in names)
    return f"{', '.join(most)} and {last}" if most else last


def nearest(word: Any, known: Iterable[str]) -> str | None:
    """What was probably meant; upper and lower case do not count."""
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word)[:_LONGEST].lower(), lower, n=1, cutoff=0.7)
    return lower[near[0]] if near else None
