"""The schema of DevicePolicies for editors: that of each recipe of a project, chosen by `spec.recipe`."""

import json
from collections.abc import Mapping
from typing import Any

from compiler.schema import phrases, recipe_schema


def of_project(
    policies: phrases.Schema, recipes: phrases.Schema, specs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the schema of all policies, given the schemas of both kinds and the specs of the recipes by name.

    The definitions of a recipe's schema are among its own, as not every editor follows an `$id` inside of a schema.
    """
    definitions, choices = dict(policies["$defs"]), []
    for name, spec in sorted(specs.items()):
        made = json.dumps(recipe_schema.spliced(policies, recipes, spec)).replace('"#/$defs/', f'"#/$defs/{name}.')
        own = json.loads(made)
        definitions |= {f"{name}.{key}": value for key, value in own["$defs"].items()}
        of_recipe = {"properties": {"spec": {"properties": {"recipe": {"const": name}}, "required": ["recipe"]}}}
        choices.append({"if": of_recipe, "then": {"properties": {"spec": own["properties"]["spec"]}}})
    return {**policies, "$defs": definitions, **({"allOf": choices} if choices else {})}
