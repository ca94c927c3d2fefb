"""The reader of Recipes: the hardware of a recipe, and what it brings once a policy has given its values."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from compiler import kae, keywords, recipes
from compiler.fleet import definitions
from compiler.formats import documents
from compiler.read import parts
from runtime import shapes

_REFERENCE = re.compile(keywords.REFERENCE)
_ABSENT = object()


def values(document: documents.Document, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all parameters that a policy gives or that have a default."""
    properties: Mapping[str, Any] = document.data["spec"].get("parameters", {}).get("properties", {})
    return {name: schema["default"] for name, schema in properties.items() if "default" in schema} | dict(given)


def filled(document: documents.Document, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec of a recipe with the values of a policy in their places; a field without a value is absent."""
    known = values(document, given)
    return {
        name: _filled(part, known) if name in ("driver", "devicePlugin") else part
        for name, part in document.data["spec"].items()
    }


def _filled(data: Any, known: Mapping[str, Any]) -> Any:
    if isinstance(data, Mapping):
        pairs = ((key, _filled(value, known)) for key, value in data.items())
        return {key: value for key, value in pairs if value is not _ABSENT}
    if isinstance(data, list):
        return [value for value in (_filled(item, known) for item in data) if value is not _ABSENT]
    reference = _REFERENCE.fullmatch(data) if isinstance(data, str) else None
    return known.get(reference[1], _ABSENT) if reference else data


def recipe_of(document: documents.Document) -> recipes.Recipe:
    """Return the recipe in a document that its schema accepts, as plans and manifests see it."""
    name, match = document.data["metadata"]["name"], document.data["spec"]["match"]
    labels = {key: tuple(allowed) for key, allowed in match.get("labels", {}).items()}
    if "features" in match:
        labels = {f"{recipes.DOMAIN}/{name}.present": ("true",)}
    return recipes.Recipe(
        name=name,
        words=recipes.Words(
            software=name,
            devices=f"devices of recipe '{name}'",
            device=f"a device of recipe '{name}'",
            installer=f"A driver installer of '{name}'",
            suffix=f" of recipe '{name}'",
        ),
        home=shapes.Home(
            state=f"/var/lib/kae/recipes/{name}",
            run=f"/run/kae/recipes/{name}",
            prefix=f"kae-{name}",
            # A recipe's name has no dot, and a policy's paths have no tilde, so no tree of another recipe begins so.
            tree=f".kae.{name}~",
            # No module's name has a hyphen, so no options file of another recipe begins so.
            options=f"kae-{name}-",
        ),
        kinds=tuple(_kind(name, kind) for kind in match.get("pci", ())),
        labels=tuple(sorted(labels.items())),
        features=tuple(
            (feature["feature"], tuple(_conditions(feature["matchExpressions"])))
            for feature in match.get("features", ())
        ),
    )


def _kind(recipe: str, data: parts.Data) -> recipes.Kind:
    return recipes.Kind(
        recipe=recipe,
        name=data["kind"],
        vendor=data["vendor"],
        devices=tuple(data.get("devices", ())),
        virtual=tuple(data.get("virtual", ())),
        classes=tuple(data.get("classes", ())),
    )


def _conditions(expressions: Mapping[str, parts.Data]) -> Iterator[recipes.Condition]:
    for attribute, term in sorted(expressions.items()):
        yield recipes.Condition(attribute=attribute, operator=term["op"], values=tuple(term.get("value", ())))


def images(spec: parts.Data) -> dict[str, definitions.ImageParts]:
    """Return every image of a recipe; those of the programs are KAE's unless the recipe has some of these names."""
    of_programs = {"driver": kae.INSTALLER, "devicePlugin": kae.PLUGIN}
    defaults = {name: kae.program(name) for part, name in of_programs.items() if part in spec}
    return {**defaults, **spec.get("images", {})}
