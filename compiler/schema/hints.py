"""Hints: what to write in place of a value or field that a schema refuses."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from compiler import diagnostics, wording
from compiler.formats import canonical, documents
from compiler.schema import judge, phrases

_MOST_FIELDS = 20
"""The most fields that a hint lists."""

_LATER = ("components", "facts", "offers")
"""Fields of a recipe for programs of its own, which nothing makes yet."""

_BOOLEANS: Mapping[str, str] = MappingProxyType(
    {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
)

_SYNONYMS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "canary": ("waves",),
        "environment": ("env",),
        "hosts": ("nodes",),
        "k8sversion": ("kubernetesVersion",),
        "name": ("image",),
        "nodeselector": ("inventorySelector",),
        "pattern": ("regexp",),
        "plugin": ("devicePlugin",),
        "registry": ("repository",),
        "selector": ("nodeSelector", "inventorySelector"),
        "tag": ("version",),
        "version": ("tag",),
    }
)
"""Names that Kubernetes and Helm charts use, in lower case, and the fields that mean the same here."""


def meant(name: str, fields: Iterable[str]) -> str | None:
    """Return the field of a mapping that an unknown one was probably meant to be."""
    known = tuple(fields)
    synonyms = (field for field in _SYNONYMS.get(str(name).lower(), ()) if field in known)
    return wording.nearest(name, known) or next(synonyms, None)


def on_unknown_field(name: str, fields: Iterable[str], document: phrases.Schema) -> str:
    """Return the field to write instead of an unknown one: of the same mapping, or of another one of the document."""
    if document.get("title") == "Recipe" and name in _LATER:
        return "Remove it: templates are not supported yet."
    known = tuple(fields)
    if near := meant(name, known):
        return f"Did you mean '{near}'?"
    elsewhere = [path for path in _paths(document) if path[-1] == name]
    if len(elsewhere) == 1:
        return f"Did you mean '{wording.dotted(elsewhere[0])}'?"
    if len(known) > _MOST_FIELDS:
        return "Remove it."
    return f"Its fields are {wording.listed(known)}." if known else "Write {}: it has no fields."


def _paths(document: phrases.Schema) -> Iterator[documents.Path]:
    """Yield the path of every field that lies in no list."""
    pending: list[tuple[documents.Path, phrases.Schema]] = [((), document)]
    for path, schema in pending:  # The loop appends to it.
        for name, inner in schema.get("properties", {}).items():
            yield (*path, name)
            pending.append(((*path, name), phrases.resolved(inner, document)))


def on_nothing(path: documents.Path, schema: phrases.Schema) -> str:
    """Return what to do with a key or an item that has no value."""
    noun = "item" if isinstance(path[-1], int) else "key"
    can_be_empty = schema["type"] == "object" and not schema.get("required")
    return f"Remove the {noun}, or write {{}}." if can_be_empty else f"Remove the {noun}, or give it a value."


def on_type(
    value: Any, path: documents.Path, schema: phrases.Schema, document: phrases.Schema, span: diagnostics.Span
) -> str:
    """Return what to write instead of a value of a wrong type, where the value shows what was meant."""
    expected = schema["type"]
    if expected == "array":
        return _list(value, phrases.resolved(schema.get("items", {}), document))
    if expected == "object":
        return _mapping(value, schema)
    if expected == "string" and isinstance(value, bool | int | float):
        return f'Put it in quotes: "{_spelt(value, span)}".'
    if not isinstance(value, str):
        return ""
    if expected == "boolean" and value.lower() in _BOOLEANS:
        return f"Write {_BOOLEANS[value.lower()]}, without quotes."
    return _number(value, path, expected) if expected in ("integer", "number") else ""


def on_long_list(path: documents.Path) -> str:
    """Return what to write instead of a list with too many items."""
    return "Give these nodes a label in common, and select by it." if path[-1] == "values" else "Shorten it."


def _list(value: Any, items: phrases.Schema) -> str:
    if not isinstance(value, dict):
        return f"Write a list, even of one: [{_item(value, items)}]."
    if value and items.get("properties", {}).keys() == {"name", "value"}:
        name, content = next(iter(value.items()))
        return f"Write a list: [{_variable(name, content)}{', …' if len(value) > 1 else ''}]."
    return "Begin each item of the list with '- '."


def _mapping(value: Any, schema: phrases.Schema) -> str:
    fields = schema.get("properties", {})
    if isinstance(value, str) and len(schema.get("required", ())) == 1:
        return f"Write {_item(value, schema)}."
    if fields and len(fields) <= _MOST_FIELDS:
        return f"Its fields are {wording.listed(fields)}."
    return "Write each entry as 'key: value', without '- '." if isinstance(value, list) else ""


def _item(value: Any, schema: phrases.Schema) -> str:
    """Return a scalar as an item of a list: as it is, or as the one field that a mapping requires."""
    required = schema.get("required", ())
    if len(required) != 1 or not isinstance(value, str):
        return wording.cut(value)
    name, equals, content = value.partition("=")
    if equals and "value" in schema.get("properties", {}):
        return _variable(name, content)
    return f"{{{required[0]}: {_written(value)}}}"


def _variable(name: Any, content: Any) -> str:
    """Return a variable as an item of a list; its value is a string."""
    text = str(content).lower() if isinstance(content, bool) else str(content)
    return f"{{name: {_written(str(name))}, value: {_written(text)}}}"


def _written(text: str) -> str:
    """Return a string as a scalar between brackets, where a comma or a bracket would end a plain one."""
    if not text.isprintable():
        return wording.cut(text)
    return wording.cut(canonical.quoted(text) if re.search(r"[\[\]{},]", text) else canonical.scalar(text))


def _number(value: str, path: documents.Path, expected: str) -> str:
    digits = "-?[0-9]{1,15}" if expected == "integer" else r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?"
    number = re.fullmatch(rf"({digits})(\s*%)?", value, re.ASCII)
    if number is None or (number[2] and not str(path[-1]).lower().endswith("percent")):
        return ""
    return f"Write {number[1]}, without {'the sign' if number[2] else 'quotes'}."


def _spelt(value: Any, span: diagnostics.Span) -> str:
    """Return a number or boolean as the document spells it, such as 1.30 for the value 1.3."""
    word = re.match(r"[-+.\w]+", span.text[span.column - 1 :]) if span.column else None
    return word.group() if word else phrases.value(value).removeprefix("the number ")


def on_value(value: Any, schema: phrases.Schema) -> str:
    """Return the value that was probably meant instead of one that its schema refuses."""
    if near := wording.nearest(value, (word for word in schema.get("enum", ()) if isinstance(word, str))):
        return f"Did you mean '{near}'?"
    if not isinstance(value, str) or "pattern" not in schema:
        return ""
    if "integer" in schema.get("type", ()) and re.fullmatch("[0-9]{1,15}", value, re.ASCII):
        return f"Write {int(value)}, without quotes."
    words = value.split()
    lower = re.sub(r"[\s_]+", "-", value.strip()).lower()
    for text in (value.strip(), "-".join(words), "".join(words), lower, posixpath.normpath(value)):
        if text and text != value and judge.is_found(schema["pattern"], text):
            return f"Did you mean {wording.quoted(text)}?"
    return ""
