"""The values of a recipe's parameters: those that a policy gives over the defaults, and the recipe that they make."""

import re
from collections.abc import Mapping
from typing import Any

from compiler.fleet import definitions
from compiler.model.stacks import fields, recipe

_REFERENCE = re.compile(fields.REFERENCE)


def effective(declared: definitions.Recipe, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all parameters that a policy gives or that have a default."""
    properties: Mapping[str, Any] = declared.source.data["spec"].get("parameters", {}).get("properties", {})
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema} | dict(given)


def filled(declared: definitions.Recipe, given: Mapping[str, Any]) -> recipe.RecipeSpec:
    """Return a recipe with the values of a policy in their places; fields whose parameter has no value are absent."""
    data = declared.source.data["spec"]
    values = effective(declared, given)
    return recipe.RecipeSpec.model_validate(
        {name: _filled(part, values) if name in ("driver", "devicePlugin") else part for name, part in data.items()}
    )


def _filled(data: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(data, Mapping):
        pairs = ((key, _filled(value, values)) for key, value in data.items())
        return {key: value for key, value in pairs if value is not _ABSENT}
    if isinstance(data, list):
        return [value for value in (_filled(item, values) for item in data) if value is not _ABSENT]
    reference = _REFERENCE.fullmatch(data) if isinstance(data, str) else None
    return values.get(reference[1], _ABSENT) if reference else data


_ABSENT = object()
