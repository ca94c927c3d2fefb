"""JSON Schemas and custom resource definitions, made from the models, and the schemas of the programs' configs.

The files of schemas/ hold the output of `schema`, written by `text`; a test compares them. The schema stage, editors
and other programs read those files, and nothing else reads the shape of the models.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, NoDefault
from pydantic_core import core_schema

from compiler import API_VERSION, keywords
from compiler.model import base, cel_rules, cluster, device_policy, inventory, policy, program, project, recipe
from runtime import device_plugin_config, driver_config, shapes, watcher_config

Schema = dict[str, Any]

_MODELS: Mapping[str, type[BaseModel]] = MappingProxyType(
    {
        "devicepolicy": device_policy.DevicePolicy,
        "kaecluster": cluster.KAECluster,
        "kaepolicy": policy.KAEPolicy,
        "kaeproject": project.ProjectFile,
        "nodeinventory": inventory.NodeInventory,
        "nodelist": inventory.NodeList,
        "recipe": recipe.Recipe,
    }
)
_CONFIGS: Mapping[str, ModuleType] = MappingProxyType(
    {
        "device-plugin-config": device_plugin_config,
        "driver-config": driver_config,
        "watcher-config": watcher_config,
    }
)
"""The modules with the configs of the programs, each named Config."""

# The keywords that a structural schema takes unchanged:
# https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
_CARRIED = (
    "type",
    "enum",
    "pattern",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)


NAMES = tuple(sorted((*_MODELS, *_CONFIGS)))


def schema(name: str) -> Schema:
    """Return the JSON Schema (draft 2020-12) of a kind of document, by the name of its file without `.json`."""
    return _schema(name, _MODELS[name]) if name in _MODELS else _schema_of_config(name, _CONFIGS[name])


def text(schema: Mapping[str, Any]) -> str:
    """Return the text of a schema's file; equal schemas give equal bytes."""
    return json.dumps(schema, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def crd() -> list[Schema]:
    """Return the optional CustomResourceDefinitions of the documents that people write for a fleet."""
    return [
        _definition(policy.KAEPolicy, "kaepolicies", "kaep"),
        _definition(cluster.KAECluster, "kaeclusters", "kaec"),
        _definition(device_policy.DevicePolicy, "devicepolicies", "devp"),
        _definition(recipe.Recipe, "recipes", "rcp"),
    ]


class _Generator(GenerateJsonSchema):
    """A generator of schemas in which an optional field may be absent, but not null."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if self.get_default_value(schema) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        factory: Any = schema.get("default_factory")
        return factory() if factory else schema.get("default", NoDefault)

    def dict_schema(self, schema: core_schema.DictSchema) -> JsonSchemaValue:
        """Return the schema of a map; pydantic's patternProperties would accept keys that match no pattern."""
        return {
            "type": "object",
            "propertyNames": self.generate_inner(schema["keys_schema"]),
            "additionalProperties": self.generate_inner(schema["values_schema"]),
        }

    def get_union_of_schemas(self, schemas: list[JsonSchemaValue]) -> JsonSchemaValue:
        return _of_scalars(schemas)


def _of_scalars(schemas: Sequence[Schema]) -> Schema:
    """Return one schema for scalars of several types; each keyword applies to one type only."""
    types = {schema["type"] for schema in schemas}
    if "number" in types:
        types.discard("integer")
    merged = {key: value for schema in schemas for key, value in schema.items()}
    if any(merged[key] != value for schema in schemas for key, value in schema.items() if key != "type"):
        raise TypeError(f"a union whose members contradict each other: {schemas}")
    return {**merged, "type": sorted(types)}


def _schema(stem: str, model: type[BaseModel]) -> Schema:
    found = model.model_json_schema(schema_generator=_Generator)
    models = {one.__name__: one for one in _models(base.Model)}
    definitions = found.get("$defs", {})
    for name, definition in {**definitions, model.__name__: found}.items():
        if name in definitions:
            del definition["title"]
        for own, field in models[name].model_fields.items():
            if field.description:  # Pydantic leaves it out where the field's object says the same of itself.
                definition["properties"][field.alias or own]["description"] = field.description
    return _named(stem, _shared(found) if model is recipe.Recipe else found)


def _shared(schema: Schema) -> Schema:
    """Return a schema in which what many fields have is a definition."""
    made: Schema = _referring({**schema, "$defs": {**schema["$defs"], **program.SHARED}})
    return made


def _referring(data: Any) -> Any:
    if isinstance(data, list):
        return [_referring(item) for item in data]
    if not isinstance(data, dict):
        return data
    found = {key: _referring(value) for key, value in data.items() if key != keywords.SHARED}
    return {**found, **({"$ref": f"#/$defs/{data[keywords.SHARED]}"} if keywords.SHARED in data else {})}


def _models(model: type[base.Model]) -> Iterator[type[base.Model]]:
    """Yield a model and those that derive from it; models of values that no document holds stand elsewhere."""
    if model.__module__.startswith(f"{__package__}."):
        yield model
    for inner in model.__subclasses__():
        yield from _models(inner)


def _named(stem: str, schema: Schema) -> Schema:
    version = API_VERSION.rpartition("/")[2]
    return {**schema, "$schema": _Generator.schema_dialect, "$id": f"urn:kae:{version}:{stem}"}


_CHECKED: Mapping[str, Schema] = MappingProxyType(
    {
        "Kind": {
            "anyOf": [{"required": [name], "properties": {name: {"minItems": 1}}} for name in ("devices", "classes")]
        },
        "Source": {"minProperties": 1, "maxProperties": 1},
    }
)
"""The keywords for what shapes of configs check themselves; only their programs look up names in other places."""


def _schema_of_config(stem: str, module: ModuleType) -> Schema:
    """Return the schema of a program's config."""
    found = _of_shape(json.loads(msgspec.json.encode(msgspec.json.schema(module.Config))))
    shape_classes = {**vars(shapes), **vars(module)}
    for name, definition in found["$defs"].items():
        definition.update(_CHECKED.get(name, {}))
        for field, meaning in base.field_texts(shape_classes[name]).items():
            definition["properties"][field]["description"] = meaning
    root = found.pop("$ref", "").removeprefix("#/$defs/")
    return _named(stem, {**found["$defs"].pop(root, {}), **found})


def _of_shape(schema: Schema) -> Schema:
    """Return a schema of msgspec as pydantic's are here: an optional field may be absent, but not null."""
    found = {name: value for name, value in schema.items() if name not in ("title", "discriminator")}
    if found.get("required") == []:
        del found["required"]
    for key in found.keys() & {"$defs", "properties"}:
        found[key] = {name: _of_shape(value) for name, value in found[key].items()}
    for key in found.keys() & {"items", "propertyNames", "additionalProperties"}:
        found[key] = _of_shape(found[key]) if isinstance(found[key], dict) else found[key]
    if "pattern" in found:
        # The end is `\Z` for Python alone.
        found["pattern"] = found["pattern"].replace(r"\Z", "$")
    if len(found.get("enum", ())) == 1:
        found["const"] = found.pop("enum")[0]
    default = found.pop("default", None)
    if isinstance(default, dict):
        default = {name: value for name, value in default.items() if value is not None}
    if default not in (None, ""):
        found["default"] = default
    choices = [_of_shape(choice) for choice in found.pop("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) > 1:
        # Those with fields have different classes.
        return found | ({"oneOf": choices} if "$ref" in choices[0] else _of_scalars(choices))
    return found | (choices[0] if choices else {})


def _definition(model: type[BaseModel], plural: str, short: str) -> Schema:
    kind, (group, _, version) = model.__name__, API_VERSION.partition("/")
    schema = _schema(kind.lower(), model)
    root = _structural(schema, schema["$defs"])
    root["properties"]["apiVersion"] = {"type": "string"}
    root["properties"]["kind"] = {"type": "string"}
    # Of metadata, a definition may restrict the names alone.
    name = root["properties"]["metadata"]["properties"]["name"]
    root["properties"]["metadata"] = {"type": "object", "properties": {"name": name}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "shortNames": [short],
                "singular": kind.lower(),
            },
            "scope": "Cluster",
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": root}}],
        },
    }


def _structural(schema: Schema, definitions: Schema) -> Schema:
    """Return a structural schema: references are inlined, and keywords that it cannot hold are left out."""
    model = schema.get("$ref", "").removeprefix("#/$defs/")
    schema = {**definitions.get(model, {}), **schema}
    found = {keyword: schema[keyword] for keyword in _CARRIED if keyword in schema}
    if not isinstance(schema.get("type"), str):
        # Kubernetes knows no other union of scalars; its numbers are integers, and fractions are strings.
        is_number = {"boolean", "object"}.isdisjoint(schema.get("type", ("object",)))
        # The API server drops an empty pattern, which GitOps engines then report.
        pattern = {"pattern": schema["pattern"]} if "pattern" in schema else {}
        any_number = {"x-kubernetes-int-or-string": True, **pattern}
        found = any_number if is_number else {"x-kubernetes-preserve-unknown-fields": True}
        schema = {name: value for name, value in schema.items() if is_number or name == "description"}
    if "const" in schema:
        found["enum"] = [schema["const"]]
    if description := _description(schema):
        found["description"] = description
    if model in cel_rules.RULES:
        found["x-kubernetes-validations"] = [
            {"rule": rule.cel, "message": rule.message} for rule in cel_rules.RULES[model]
        ]
    if "items" in schema:
        found["items"] = _structural(schema["items"], definitions)
        # A list whose items have a key is merged by it, and each key is unique.
        key = cel_rules.KEYS.get(schema["items"].get("$ref", "").removeprefix("#/$defs/"))
        found |= {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]} if key else {}
    if schema.get("properties"):  # The API server drops an empty map, which GitOps engines then report.
        found["properties"] = {name: _structural(value, definitions) for name, value in schema["properties"].items()}
    elif isinstance(schema.get("additionalProperties"), dict):
        found["additionalProperties"] = _structural(schema["additionalProperties"], definitions)
    return found


def _description(schema: Schema) -> str:
    """Return the description of a field with its default; a `default` keyword would be written into stored objects."""
    words = [schema["description"]] if "description" in schema else []
    default = schema.get("default")
    if default not in (None, [], {}, ""):
        words.append(f"Defaults to {json.dumps(default, ensure_ascii=False)}.")
    return " ".join(words)
