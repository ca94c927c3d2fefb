"""The schema of a recipe's policies: that of DevicePolicy, with the names, values and choices that the recipe has."""

import copy
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from compiler import keywords
from compiler.formats import documents, references
from compiler.schema import phrases

LONGEST = 4096
"""The most characters of a text whose schema sets no bound."""

_REFERENCE = re.compile(keywords.REFERENCE)
_PARTS = ("driver", "devicePlugin")
_OF_PLACES = ("$ref", "description", "default", "pattern")
_PACE = ("maxParallel", "maxUnavailable", "minReadySeconds")
"""What `rollout` says of the driver alone; a program has a maxUnavailable of its own."""
_OVERRIDES = ("StackMapping", "StackWave", "StackFrozen")


def typed(spec: Mapping[str, Any]) -> Iterator[tuple[documents.Path, str]]:
    """Yield the places in a recipe's spec where a parameter stands alone and keeps its type, with its name."""
    for path, part in references.parts(spec):
        for place in references.places(part, path):
            if place.is_typed and (reference := _REFERENCE.fullmatch(place.text)):
                yield place.path, reference[1]


def field(recipe_schema: phrases.Schema, path: documents.Path) -> phrases.Schema:
    """Return the schema of the value at a path of a recipe's spec, without the parameter that may stand for it."""
    found = phrases.resolved(recipe_schema["properties"]["spec"], recipe_schema)
    for step in path:
        inner = found["items"] if isinstance(step, int) else found.get("properties", {}).get(step)
        found = phrases.resolved(found["additionalProperties"] if inner is None else inner, recipe_schema)
    if "when" in found.get("properties", {}) and "value" in found["properties"]:
        found = phrases.resolved(found["properties"]["value"], recipe_schema)
    if isinstance(found["type"], list):
        kind = next((kind for kind in found["type"] if kind != "string"), "string")
        return {**found, "type": kind, keywords.FORM: str(found[keywords.FORM]).removesuffix(keywords.OR_PARAMETER)}
    return found


def parameters(spec: Mapping[str, Any], recipe_schema: phrases.Schema) -> dict[str, Any]:
    """Return the schema of each parameter of a recipe; it allows what every field allows that the parameter fills."""
    filled: dict[str, list[phrases.Schema]] = {}
    for path, name in typed(spec):
        allowed = field(recipe_schema, path)
        # The pattern of a field is that of the parameter's place.
        inner = {key: value for key, value in allowed.items() if key not in _OF_PLACES}
        filled.setdefault(name, []).append(inner)
    properties: Mapping[str, Any] = spec.get("parameters", {}).get("properties", {})
    return {
        name: closed(schema) | ({"allOf": filled[name]} if name in filled else {})
        for name, schema in properties.items()
    }


def closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a value in which unknown keys and long texts are refused."""
    found = {key: value for key, value in schema.items() if key not in ("default", "description")}
    if found["type"] == "object" and "additionalProperties" not in found:
        found["properties"] = {name: closed(inner) for name, inner in found.get("properties", {}).items()}
        found["additionalProperties"] = False
    elif found["type"] == "object":
        found["additionalProperties"] = closed(found["additionalProperties"])
    elif found["type"] == "array":
        found["items"] = closed(found["items"])
    elif found["type"] == "string":
        found.setdefault("maxLength", LONGEST)
    return found


def of_module(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema of a module's parameter, whose text a file of modprobe.d can hold."""
    text = {"type": "string", "pattern": keywords.MODULE_TEXT, "maxLength": keywords.MODULE_TEXT_LENGTH}
    words = {keywords.FORM: "one line without quotation marks"}
    return closed(schema) | ({"allOf": [text | words]} if schema["type"] == "string" else {})


def spliced(schema: phrases.Schema, recipe_schema: phrases.Schema, spec: Mapping[str, Any]) -> phrases.Schema:
    """Return the schema of the policies of a recipe, given by its spec; the other two are those of the kinds."""
    made = copy.deepcopy(dict(schema))
    definitions: dict[str, Any] = made["$defs"]
    policy, overrides = definitions["DevicePolicySpec"], [definitions[name] for name in _OVERRIDES]
    values = {"type": "object", **_closed_map(parameters(spec, recipe_schema))}
    images = (*spec.get("images", {}), *programs(spec))
    for fields in (each["properties"] for each in (policy, *overrides)):
        fields["values"] |= values
        _restrict(fields["images"], dict.fromkeys(images, fields["images"]["additionalProperties"]))
        for part in _PARTS:
            if part not in spec:
                fields.pop(part, None)
    _restrict_programs(policy, definitions["StackProgram"], spec.get("programs", ()))
    required = list(spec.get("parameters", {}).get("required", ()))
    policy["properties"]["values"] = {**policy["properties"]["values"], "required": required}
    policy["required"] = [*policy["required"], *(["values"] if required else [])]
    if "driver" in spec:
        _restrict_driver(definitions, spec["driver"])
    else:
        for name in _PACE:
            del definitions["StackRollout"]["properties"][name]
    return made


def _closed_map(fields: Mapping[str, phrases.Schema]) -> dict[str, Any]:
    """Return the keywords of an object with these fields alone."""
    return {"additionalProperties": False, "properties": dict(fields)}


def _restrict(schema: dict[str, Any], fields: Mapping[str, phrases.Schema]) -> None:
    """Turn the schema of a map into that of an object with these fields alone."""
    schema |= _closed_map(fields)
    schema.pop("propertyNames", None)


def _restrict_programs(policy: dict[str, Any], schema: phrases.Schema, programs: Sequence[Mapping[str, Any]]) -> None:
    """Turn the schema of a policy's programs into that of a recipe's, each with its own containers."""
    if not programs:
        del policy["properties"]["programs"]
        return
    made = {}
    for program in programs:
        own = copy.deepcopy(dict(schema))
        resources = own["properties"]["resources"]
        containers = [
            each["name"] for field in ("initContainers", "containers") for each in program["pod"].get(field, ())
        ]
        _restrict(resources, dict.fromkeys(containers, resources["additionalProperties"]))
        made[program["name"]] = own
    _restrict(policy["properties"]["programs"], made)


def _restrict_driver(definitions: dict[str, Any], driver: Mapping[str, Any]) -> None:
    """Turn the schema of the driver into that of a recipe's driver."""
    modules = {module["name"]: module.get("parameters", {}) for module in driver["modules"]}
    of_modules = {
        name: {"type": "object", **_closed_map({key: of_module(schema) for key, schema in parameters.items()})}
        for name, parameters in modules.items()
    }
    _restrict(definitions["StackDriver"]["properties"]["moduleParameters"], of_modules)
    for name in ("StackDriver", "DriverOverride"):
        definitions[name]["properties"]["modules"]["items"] = {"type": "string", "enum": sorted(modules)}
    sources = driver.get("sources", ["prebuilt"])
    if sources[0] == "packages":  # Their names have no default.
        definitions["StackDriver"]["required"] = ["source"]
        definitions["DevicePolicySpec"]["required"] += ["driver"]
    allowed = definitions["Source"]["properties"]
    definitions["Source"]["properties"] = {name: allowed[name] for name in sources}


def for_editors(
    schema: phrases.Schema, recipe_schema: phrases.Schema, specs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the schema of all policies, in which `spec.recipe` chooses that of its recipe; specs are by name.

    The definitions of a recipe's schema are among its own, as not every editor follows an `$id` inside of a schema.
    """
    definitions, choices = dict(schema["$defs"]), []
    for name, spec in sorted(specs.items()):
        made = json.dumps(spliced(schema, recipe_schema, spec)).replace('"#/$defs/', f'"#/$defs/{name}.')
        own = json.loads(made)
        definitions |= {f"{name}.{key}": value for key, value in own["$defs"].items()}
        choices.append({"if": _of_recipe(name), "then": {"properties": {"spec": own["properties"]["spec"]}}})
    return {**schema, "$defs": definitions, **({"allOf": choices} if choices else {})}


def with_earlier(made: phrases.Schema, earlier: phrases.Schema, names: Collection[str]) -> dict[str, Any]:
    """Return the schema of all policies with what an earlier one has for these recipes, which are not in it."""
    wanted = [_of_recipe(name) for name in names]
    kept = [choice for choice in earlier.get("allOf", ()) if choice.get("if") in wanted]
    own = {key: data for key, data in earlier.get("$defs", {}).items() if key.partition(".")[0] in names}
    choices = sorted([*made.get("allOf", ()), *kept], key=json.dumps)
    return {**made, "$defs": {**made["$defs"], **own}, **({"allOf": choices} if choices else {})}


def _of_recipe(name: str) -> dict[str, Any]:
    """Return the schema of a policy whose recipe has this name."""
    return {"properties": {"spec": {"properties": {"recipe": {"const": name}}, "required": ["recipe"]}}}


def programs(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the images that the programs of a recipe have without a declaration."""
    images = {"driver": keywords.INSTALLER_IMAGE, "devicePlugin": keywords.PLUGIN_IMAGE}
    yield from (image for part, image in images.items() if part in spec)
