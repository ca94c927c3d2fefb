"""The data of a document that its schema accepts, with the defaults of all fields that it leaves out."""

from collections.abc import Mapping
from typing import Any

from compiler.schema import phrases


def completed(schema: phrases.Schema, value: Any) -> Any:
    """Return a document's data with its defaults; a field without one stays absent."""
    return _completed(schema, value, schema)


def _completed(schema: phrases.Schema, value: Any, root: phrases.Schema) -> Any:
    schema = phrases.resolved(schema, root)
    if isinstance(value, Mapping):
        fields: Mapping[str, Any] = schema.get("properties", {})
        others = schema.get("additionalProperties")
        other: phrases.Schema = others if isinstance(others, Mapping) else {}
        found = {key: _completed(fields.get(key, other), inner, root) for key, inner in value.items()}
        for name, field in fields.items():
            if name not in found and "default" in field:
                found[name] = _completed(field, field["default"], root)
        return found
    if isinstance(value, list) and "items" in schema:
        return [_completed(schema["items"], item, root) for item in value]
    return value
