"""The fields of a recipe in which references stand: what is no text is known to those who fill it in."""

from collections.abc import Iterator
from typing import Any

from compiler import keywords
from compiler.formats import references
from compiler.model import json_schemas

SCHEMA = json_schemas.schema("recipe")
FORM = keywords.OR_PARAMETER
PARTS = ("ProgramPod", "RecipeDriver", "RecipePlugin")
"""The parts of a recipe in which references stand."""


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    return {**SCHEMA["$defs"].get(name, {}), **schema}


def fields(schema: dict[str, Any], seen: tuple[str, ...] = ()) -> Iterator[tuple[str, dict[str, Any]]]:
    schema = resolved(schema)
    if {"when", "value"} == schema.get("properties", {}).keys():
        return
    for name, inner in schema.get("properties", {}).items():
        yield name, resolved(inner)
        if name not in seen:
            yield from fields(inner, (*seen, name))
    if isinstance(schema.get("items"), dict):
        yield from fields(schema["items"], seen)


def test_a_reference_alone_keeps_its_type_in_every_field_that_is_no_text() -> None:
    every = [
        *(field for part in PARTS for field in fields(SCHEMA["$defs"][part])),
        ("disrupts", resolved(SCHEMA["$defs"]["Program"]["properties"]["disrupts"])),
    ]

    typed = {name for name, schema in every if FORM in schema.get(keywords.FORM, "")}

    assert typed == references.TYPED
    assert all("string" in schema["type"] for name, schema in every if FORM in schema.get(keywords.FORM, ""))


def test_no_field_is_a_text_here_and_something_else_there() -> None:
    every = (field for part in PARTS for field in fields(SCHEMA["$defs"][part]))
    texts = {name for name, schema in every if schema.get("type") == "string"}

    assert texts & references.TYPED == set()
