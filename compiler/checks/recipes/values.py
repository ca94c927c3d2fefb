"""Rules for what a DevicePolicy says of its recipe, judged without any nodes."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from compiler import repeats, wording
from compiler.checks.recipes import offers, resources
from compiler.diagnostics import Diagnostic, rule, shared_rule
from compiler.formats import documents
from compiler.read import device_policy, fleet
from compiler.schema import recipe_schema

shared_rule("values-exclusive", "error", "Of parameters that exclude each other, at most one is true.")
shared_rule("module-required", "error", "A policy leaves out none but optional modules.")

_LISTS: tuple[tuple[documents.Path, str], ...] = (
    (("spec", "kernelMappings"), "Mapping"),
    (("spec", "rollout", "waves"), "Wave"),
    (("spec", "rollout", "frozen"), "Frozen group"),
)
_KUBELET = "/var/lib/kubelet"

_MISSING = (
    "Write it to recipes/NAME/recipe.yaml; 'kae recipe list' prints those that are shipped. If it was removed on "
    "purpose, bring it back until driver.state: Absent has cleaned the hosts, and remove the policy first."
)

_Layer = tuple[documents.Path, str, Mapping[str, Any]]
"""A mapping, a wave or a frozen group: its path, its noun, and its data."""


@rule("unknown-recipe", "error")
def unknown_recipe(document: documents.Document, known: Mapping[str, object], shipped: tuple[str, ...]) -> Diagnostic:
    """A DevicePolicy is of a recipe of the project."""
    name = document.data["spec"]["recipe"]
    near = wording.nearest(name, {*known, *shipped})
    parts = [f"Did you mean '{near}'?"] if near and near != name else []
    if name in shipped or (near in shipped and near not in known):
        parts.append(f"'kae recipe add {name if name in shipped else near}' brings it.")
    hint = " ".join(parts) or _MISSING
    message = f"There is no recipe {wording.quoted(name)}."
    return Diagnostic(code="unknown-recipe", span=document.span("spec", "recipe"), message=message, hint=hint)


def findings(
    document: documents.Document, recipe: documents.Document, complete: fleet.Complete
) -> Iterator[Diagnostic]:
    """Yield the mistakes in a DevicePolicy that the schema of its recipe accepts."""
    filled = fleet.filled(recipe, document.data["spec"].get("values", {}), complete)
    yield from exclusive(document, recipe)
    yield from modules(document, recipe)
    yield from no_modules(document, recipe)
    yield from unused(document, recipe, filled)
    yield from resources.conflicts(recipe, filled)
    yield from offers.findings(recipe, filled, document)
    kubelet = document.data["spec"].get("kubeletDir", _KUBELET)
    if kubelet != _KUBELET:
        yield from resources.privileges(recipe, kubelet)


def _layers(document: documents.Document) -> Iterator[_Layer]:
    spec = document.data["spec"]
    for path, noun in _LISTS:
        found = spec.get("kernelMappings", ()) if len(path) == 2 else spec.get("rollout", {}).get(path[-1], ())
        yield from (((*path, index), noun, item) for index, item in enumerate(found))


def exclusive(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """Of parameters that exclude each other, no node has two that are true."""
    layers = list(_layers(document))
    mappings = [layer for layer in layers if layer[1] == "Mapping"]
    groups = [layer for layer in layers if layer[1] != "Mapping"]
    top: _Layer = (("spec",), "", document.data["spec"])
    stated = recipe.data["spec"]
    defaults = device_policy.values(recipe, {})
    for mapping, group in product((None, *mappings), (None, *groups)):
        chosen = [top, *([mapping] if mapping else []), *([group] if group else [])]
        values = defaults | {name: value for _, _, data in chosen for name, value in data.get("values", {}).items()}
        for together in stated.get("exclusive", ()):
            on = [name for name in together if values.get(name) is True]
            if len(on) < 2:
                continue
            places = [
                (*path, "values", name)
                for path, _, data in reversed(chosen)
                for name in on
                if name in data.get("values", {})
            ]
            plain = [name for name in on if not any(name in data.get("values", {}) for _, _, data in chosen)]
            yield Diagnostic(
                code="values-exclusive",
                span=document.span(*places[0]) if places else document.span("metadata", "name"),
                message=f"{wording.listed(map(wording.quoted, on))} are {'both' if len(on) == 2 else 'all'} true.",
                notes=tuple(f"'{name}' is true by default." for name in plain),
                hint="Set one of them to false." if len(on) == 2 else "Set all but one of them to false.",
            )


def modules(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """A choice of modules has all that are not optional, and each once."""
    declared = recipe.data["spec"].get("driver", {}).get("modules", ())
    needed = [module["name"] for module in declared if not module.get("optional", False)]
    places: list[tuple[documents.Path, Mapping[str, Any]]] = [
        (("spec", "driver", "modules"), document.data["spec"].get("driver", {})),
        *(((*path, "driver", "modules"), data.get("driver", {})) for path, _, data in _layers(document)),
    ]
    for path, driver in places:
        chosen: list[str] | None = driver.get("modules")
        for name in needed:
            if chosen is not None and name not in chosen:
                message = f"Module '{name}' is not optional, and driver.modules leaves it out."
                span = document.key_span(*path)
                yield Diagnostic(code="module-required", span=span, message=message, hint="Add it.")
        for _, (index, name) in repeats.of(enumerate(chosen or ()), key=lambda pair: pair[1]):
            message = f"The module '{name}' is there twice."
            span = document.span(*path, index)
            yield Diagnostic(code="duplicate-name", span=span, message=message, hint="Keep one of the two.")


def no_modules(document: documents.Document, recipe: documents.Document) -> Iterator[Diagnostic]:
    """A driver has a module, by which the installer knows that it is loaded; where each mapping chooses some, these."""
    spec = document.data["spec"]
    declared = recipe.data["spec"].get("driver", {}).get("modules", ())
    if not declared or not all(module.get("optional", False) for module in declared):
        return
    chosen: list[tuple[documents.Path, Any]] = [((), spec.get("driver", {}).get("modules"))]
    chosen += [(path, data.get("driver", {}).get("modules")) for path, _, data in _layers(document)]
    mappings: Sequence[Mapping[str, Any]] = spec.get("kernelMappings") or ({},)
    if all("modules" in mapping.get("driver", {}) for mapping in mappings):
        del chosen[0]
    for path, modules in chosen:
        if modules == [] or (modules is None and not path):
            span = document.key_span(*(path or ("spec",)), "driver", "modules") if modules == [] else None
            yield Diagnostic(
                code="module-required",
                span=span or document.span("spec", "recipe"),
                message="All modules of the recipe are optional, and driver.modules names none.",
                hint="Name at least one.",
            )


@rule("override-unused", "error")
def unused(document: documents.Document, recipe: documents.Document, filled: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Mappings, waves and frozen groups set only what the driver uses."""
    of_driver = {name for path, name in recipe_schema.references(recipe.data["spec"]) if path[0] == "driver"}
    driver = filled.get("driver", {})
    payloads = {payload["image"] for payload in driver.get("payloads", ())}
    images = {driver.get("image"), driver.get("version"), *payloads}
    for path, noun, data in _layers(document):
        for field, used in (("values", of_driver), ("images", images)):
            for name in sorted(data.get(field, {}).keys() - used):
                yield Diagnostic(
                    code="override-unused",
                    span=document.key_span(*path, field, name),
                    message=f"{noun} '{data['name']}' sets '{field}.{name}', which the driver does not use.",
                    notes=("Mappings, waves and frozen groups change the driver: a policy has one device plugin.",),
                    hint=f"Set it in spec.{field}.",
                )
