"""The JSON Schemas as a source of mutations: members of documents, absent fields, and values that fit."""

import functools
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compiler.project import package_data
from compiler.schema import judge
from tests.fuzz import words

Schema = Mapping[str, Any]

_STEMS = {
    "KAEPolicy": "kaepolicy",
    "DevicePolicy": "devicepolicy",
    "Recipe": "recipe",
    "KAECluster": "kaecluster",
    "NodeInventory": "nodeinventory",
    "List": "nodelist",
}
_DEPTH = 6


@dataclass(frozen=True, slots=True)
class Place:
    """A member of a mapping or a list, or a field that could be one, and what its schema says."""

    holder: Any
    key: Any
    schema: Schema


@dataclass(frozen=True, slots=True)
class Language:
    """One kind of document."""

    root: Schema

    def resolved(self, schema: Schema) -> Schema:
        """A schema with what it refers to."""
        while "$ref" in schema:
            schema = self.root["$defs"][schema["$ref"].rpartition("/")[2]]
        return schema

    def places(self, value: Any, schema: Schema) -> Iterator[Place]:
        """Every member below a value, as far as the schema knows it."""
        for key, item in members(value):
            found = self._member(schema, key)
            if found is not None:
                yield Place(value, key, found)
                yield from self.places(item, found)

    def gaps(self, value: Any, schema: Schema) -> Iterator[Place]:
        """Every optional field that is not there."""
        if isinstance(value, dict):
            for name, found in schema.get("properties", {}).items():
                if name not in value:
                    yield Place(value, name, self.resolved(found))
        for key, item in members(value):
            found = self._member(schema, key)
            if found is not None:
                yield from self.gaps(item, found)

    def _member(self, schema: Schema, key: Any) -> Schema | None:
        found = schema.get("items") if isinstance(key, int) else schema.get("properties", {}).get(key)
        if found is None:
            found = schema.get("additionalProperties")
        return self.resolved(found) if isinstance(found, Mapping) else None

    def value(self, chance: random.Random, schema: Schema, depth: int = 0) -> Any:
        """A value that the schema allows, mostly."""
        schema = self.resolved(schema)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return chance.choice(schema["enum"])
        kinds = schema.get("type", "string")
        kind = kinds if isinstance(kinds, str) else chance.choice(kinds)
        make = {"object": self._object, "array": self._array}.get(kind)
        if make is not None:
            return make(chance, schema, depth + 1)
        if kind == "boolean":
            return chance.random() < 0.5
        return number(chance, schema) if kind in ("integer", "number") else string(chance, schema)

    def _object(self, chance: random.Random, schema: Schema, depth: int) -> dict[str, Any]:
        given: dict[str, Any] = {}
        properties = schema.get("properties", {})
        needed = schema.get("required", ())
        for name, item in properties.items():
            if name in needed or (depth < _DEPTH and chance.random() < 0.3):
                given[name] = self.value(chance, item, depth)
        if schema.get("minProperties") == schema.get("maxProperties") == 1:
            name = chance.choice(list(properties))
            return {name: self.value(chance, properties[name], depth)}
        if isinstance(schema.get("additionalProperties"), Mapping):
            for _ in range(chance.choice((0, 1, 1, 2, 3))):
                key = string(chance, schema.get("propertyNames", {}))
                given[key] = self.value(chance, schema["additionalProperties"], depth)
        return given

    def _array(self, chance: random.Random, schema: Schema, depth: int) -> list[Any]:
        count = max(schema.get("minItems", 0), chance.choice((0, 1, 1, 1, 2, 3)))
        return [self.value(chance, schema.get("items", {}), depth) for _ in range(count)]


def of(data: Any) -> Language | None:
    """The language of a document, None for one that is none of ours."""
    kind = data.get("kind") if isinstance(data, dict) else None
    stem = _STEMS.get(kind) if isinstance(kind, str) else None
    return Language(package_data.schemas()[stem]) if stem else None


def members(value: Any) -> list[tuple[Any, Any]]:
    """Keys, or indexes, with their values; none for a scalar."""
    if isinstance(value, dict):
        return list(value.items())
    return list(enumerate(value)) if isinstance(value, list) else []


def number(chance: random.Random, schema: Schema) -> int:
    """A whole number in the schema's range, often at its border."""
    least = int(schema.get("minimum", -1))
    most = int(schema.get("maximum", max(least, 1024)))
    default = schema.get("default")
    usual = default if isinstance(default, int) else least
    return chance.choice((least, min(least + 1, most), usual, (least + most) // 2, max(most - 1, least), most))


def string(chance: random.Random, schema: Schema) -> str:
    """A string that fits the schema's pattern and length; an odd one now and then where all may stand."""
    pattern = schema.get("pattern", "")
    fitting = _fitting(pattern, schema.get("minLength", 0), schema.get("maxLength", 1 << 20))
    if not pattern and chance.random() < 0.3:
        return chance.choice(words.ODD)
    return chance.choice(fitting)


@functools.cache
def _fitting(pattern: str, least: int, most: int) -> tuple[str, ...]:
    return tuple(word for word in words.PLAUSIBLE if judge.is_found(pattern, word) and least <= len(word) <= most) or (
        "a",
    )
