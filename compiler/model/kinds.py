"""Models with a field for each kind of KAE devices, made from the table of kinds."""

from collections.abc import Callable
from typing import Any

from pydantic import Field, create_model

from compiler import kae
from compiler.model.base import Model

Described = tuple[str, Any, str]
"""The name of a field, its default, and its meaning."""


def model(name: str, meaning: str, annotation: Any, field: Callable[[kae.Kind], Described]) -> Any:
    """Return a model of this name whose fields, all of one type, `field` describes by kind, in the table's order."""
    described = map(field, kae.KINDS)
    fields: dict[str, Any] = {own: (annotation, Field(default, description=text)) for own, default, text in described}
    return create_model(name, __base__=Model, __doc__=meaning, __module__=__name__, **fields)
