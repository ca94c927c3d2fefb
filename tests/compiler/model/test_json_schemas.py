"""The schemas and the definitions that are made from the models."""

import functools
import json
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from compiler import API_VERSION, keywords
from compiler.model import cel_rules, json_schemas

FOLDER = pathlib.Path(__file__).parents[3] / "schemas"
SCHEMA = functools.cache(json_schemas.schema)
DOCUMENTS = [stem for stem in json_schemas.NAMES if not stem.endswith("-config")]
"""The schemas that are explained to people."""
DEFINITIONS = json_schemas.crd()

# What a structural schema may hold, beside properties, items and additionalProperties:
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
STRUCTURAL = {
    *("type", "description", "enum", "pattern", "required", "properties", "items", "additionalProperties"),
    *("minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
}


def nodes(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Every schema inside a schema, itself first."""
    yield schema
    for keyword in ("properties", "$defs"):
        for inner in schema.get(keyword, {}).values():
            yield from nodes(inner)
    for keyword in ("items", "additionalProperties", "propertyNames"):
        if isinstance(schema.get(keyword), dict):
            yield from nodes(schema[keyword])


def root(definition: dict[str, Any]) -> dict[str, Any]:
    (version,) = definition["spec"]["versions"]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return schema


def broken_rules(schema: dict[str, Any]) -> list[str]:
    """The rules of structural schemas that a schema breaks."""
    definition: list[str] = []
    for node in nodes(schema):
        definition += [f"{key} is not allowed" for key in sorted(node.keys() - STRUCTURAL)]
        if "properties" in node and "additionalProperties" in node:
            definition.append("properties and additionalProperties exclude each other")
        if isinstance(node.get("additionalProperties"), bool):
            definition.append("additionalProperties is a schema")
        untyped = {"x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"} & node.keys()
        if bool(untyped) == isinstance(node.get("type"), str):
            definition.append(f"a node has one type, is int-or-string, or holds what it likes: {node}")
        if node.get("type") == "array" and "items" not in node:
            definition.append("an array has items")
    return definition


def test_the_checked_in_schemas_are_those_of_the_models() -> None:
    written = {file.stem: file.read_text(encoding="utf-8") for file in FOLDER.glob("*.json")}

    assert written == {stem: json_schemas.text(SCHEMA(stem)) for stem in json_schemas.NAMES}


@pytest.mark.parametrize("stem", json_schemas.NAMES)
def test_a_schema_is_one_of_draft_2020_12_and_names_no_host(stem: str) -> None:
    schema = SCHEMA(stem)

    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:kae:v1alpha1:{stem}"


@pytest.mark.parametrize("stem", json_schemas.NAMES)
def test_what_is_optional_is_left_out_and_never_null(stem: str) -> None:
    for node in nodes(SCHEMA(stem)):
        # A condition of a recipe asks by null whether a parameter is not set.
        assert "null" not in node.get("type", ()) or "null where it is not set" in node[keywords.FORM]
        assert stem not in DOCUMENTS or node.keys().isdisjoint({"anyOf", "allOf", "oneOf"})
        assert node.get("default", "") is not None


@pytest.mark.parametrize("stem", json_schemas.NAMES)
def test_every_default_is_a_value_that_its_schema_allows(stem: str) -> None:
    definitions = {"$defs": SCHEMA(stem).get("$defs", {})}
    shown = [node for node in nodes(SCHEMA(stem)) if "default" in node]

    for node in shown:
        jsonschema.Draft202012Validator({**definitions, **node}).validate(node["default"])
    assert shown


@pytest.mark.parametrize("stem", DOCUMENTS)
def test_every_pattern_is_said_in_words(stem: str) -> None:
    wordless = [node["pattern"] for node in nodes(SCHEMA(stem)) if "pattern" in node and keywords.FORM not in node]

    assert wordless == []


@pytest.mark.parametrize("stem", sorted({*json_schemas.NAMES} - {"nodelist"}))
def test_an_object_of_ours_has_no_field_but_its_own(stem: str) -> None:
    objects = [node for node in nodes(SCHEMA(stem)) if node.get("type") == "object"]

    assert all("additionalProperties" in node for node in objects)
    assert all(node["additionalProperties"] is False for node in objects if "properties" in node)


def test_text_is_the_same_whatever_the_order_of_keys() -> None:
    assert json_schemas.text({"b": "…", "a": {}}) == '{\n  "a": {},\n  "b": "…"\n}\n'
    assert json_schemas.text({"a": {}, "b": "…"}) == json_schemas.text({"b": "…", "a": {}})


@pytest.mark.parametrize("release", ["1.25", "1.30", "1.37"])
@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition["spec"]["names"]["kind"])
def test_a_definition_passes_the_strict_schema_of_kubernetes(definition: dict[str, Any], release: str) -> None:
    kubernetes_validate.validate(definition, release, strict=True)

    assert json.loads(json.dumps(definition)) == definition


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition["spec"]["names"]["kind"])
def test_a_definition_is_structural(definition: dict[str, Any]) -> None:
    schema = root(definition)

    assert broken_rules(schema) == []
    assert schema["type"] == "object"
    assert schema["properties"]["apiVersion"] == schema["properties"]["kind"] == {"type": "string"}
    assert schema["properties"]["metadata"].keys() == {"type", "properties"}
    assert schema["properties"]["metadata"]["properties"].keys() == {"name"}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "$ref": "#/$defs/A"},
        {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        {"type": "object", "additionalProperties": False},
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {"type": ["integer", "string"]}}},
        {"type": "array"},
    ],
)
def test_the_test_of_structure_sees_what_is_not_structural(schema: dict[str, Any]) -> None:
    assert broken_rules(schema) != []


def test_a_definition_is_of_cluster_scope_and_bears_the_names_of_its_kind() -> None:
    names = {definition["metadata"]["name"]: definition["spec"] for definition in DEFINITIONS}

    plurals = ["devicepolicies", "kaeclusters", "kaepolicies", "recipes"]
    assert sorted(names) == [f"{plural}.device.openfuyao.com" for plural in plurals]
    for spec in names.values():
        (version,) = spec["versions"]
        assert spec["scope"] == "Cluster"
        assert f"{spec['group']}/{version['name']}" == API_VERSION
        assert version["served"] and version["storage"]


def test_a_definition_sets_no_defaults_that_would_be_drift_but_tells_them() -> None:
    fields = root(DEFINITIONS[0])["properties"]["spec"]["properties"]["driver"]["properties"]

    assert "default" not in fields["state"]
    assert fields["state"]["description"].endswith('Defaults to "Present".')


def test_a_quantity_of_a_definition_is_an_integer_or_a_string() -> None:
    fields = root(DEFINITIONS[0])["properties"]["spec"]["properties"]["driver"]["properties"]
    quantity = fields["resources"]["properties"]["limits"]["additionalProperties"]

    assert quantity["x-kubernetes-int-or-string"] is True
    assert re.search(quantity["pattern"], "500m")
    assert not re.search(quantity["pattern"], "500 m")


def test_every_rule_between_fields_stands_on_an_object_of_a_definition() -> None:
    messages = {rule["message"] for definition in DEFINITIONS for rule in validations(root(definition))}

    assert messages == {rule.message for definition in cel_rules.RULES.values() for rule in definition}


def test_every_list_of_named_items_holds_a_name_once() -> None:
    schemas = (node for definition in DEFINITIONS for node in nodes(root(definition)))
    keyed = [schema for schema in schemas if "x-kubernetes-list-map-keys" in schema]

    assert len(keyed) == 14
    for schema in keyed:
        assert (schema["type"], schema["x-kubernetes-list-type"]) == ("array", "map")
        assert set(schema["x-kubernetes-list-map-keys"]) <= set(schema["items"]["required"])


def validations(schema: dict[str, Any]) -> Iterator[dict[str, str]]:
    for node in nodes(schema):
        yield from node.get("x-kubernetes-validations", ())
