"""Translate an object of another operator to a Recipe and a DevicePolicy, and any source to documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from compiler import diagnostics, schema
from compiler.checks import policy as policy_checks
from compiler.checks import recipe as recipe_checks
from compiler.formats import documents
from compiler.migrate import device_plugins, kernel_modules, operator_values, translation
from compiler.migrate.translation import Draft, Names, Source
from compiler.read import fleet as reader

_Drafted = Callable[[Source, Names], tuple[Draft, ...]]

_STACKS: Mapping[str, tuple[_Drafted, translation.Reasons]] = MappingProxyType(
    {
        "Module": (kernel_modules.of_module, kernel_modules.MODULE),
        "Onload": (kernel_modules.of_onload, kernel_modules.ONLOAD),
        "SpecialResource": (kernel_modules.of_special_resource, kernel_modules.SPECIAL_RESOURCE),
        **dict.fromkeys(device_plugins.KINDS, (device_plugins.of_plugin, device_plugins.REASONS)),
    }
)


class Made(msgspec.Struct, frozen=True):
    """The text of a file that an import makes."""

    kinds: tuple[str, ...]
    recipe: str | None
    """The name of the recipe that it holds; None for documents of policies/."""
    text: str


Translation = tuple[tuple[Made, ...], list[diagnostics.Diagnostic]]


def translated(
    read: Sequence[documents.Document],
    names: Names,
    judge: schema.Judge,
    shipped: Mapping[str, documents.Document],
) -> Translation:
    """Return the files that mean the same as a source, none where there are errors, and the findings.

    `shipped` are the recipes that an import may make policies of, without making them.
    """
    source = translation.of(read)
    if isinstance(source, diagnostics.Diagnostic):
        return (), [source]
    if source.kind not in _STACKS:
        objects, found = operator_values.translated(read, names, judge)
        kinds = tuple(str(data["kind"]) for data in objects)
        return ((Made(kinds, None, translation.text(objects)),) if objects else ()), found
    if names.namespace is not None:
        source.lose("The namespace of the call", source.document.span(), translation.NAMESPACE)
    drafted, reasons = _STACKS[source.kind]
    made = drafted(source, names)
    source.drop_rest(reasons if source.identity else kernel_modules.VALUES)
    found = source.found
    for draft in made:
        if draft.kind == "DevicePolicy":
            draft.put(("spec", "rollout", "waves"), translation.RESERVED)
    if not diagnostics.has_errors(found):
        found += _faults(made, judge, shipped)
    return (() if diagnostics.has_errors(found) else tuple(_made(draft.document.data) for draft in made)), found


def _faults(
    made: Iterable[Draft], judge: schema.Judge, shipped: Mapping[str, documents.Document]
) -> Iterator[diagnostics.Diagnostic]:
    """Yield the errors of a recipe and of its policy, with the names and positions of their source."""
    known = dict(shipped)
    for draft in made:
        document = draft.document
        if draft.kind == "Recipe":
            name = document.data["metadata"]["name"]
            known[name] = structs.replace(document, file=f"recipes/{name}/recipe.yaml")
            found = judge.judge(known[name])[1] or list(
                recipe_checks.findings(known[name], judge.schema_of("Recipe"), judge.complete)
            )
        else:
            found = _of_policy(document, known.get(document.data["spec"]["recipe"]), judge)
        errors = [draft.reworded(fault) for fault in found if fault.severity == "error"]
        yield from errors
        if errors:
            return


def _of_policy(
    document: documents.Document, recipe: documents.Document | None, judge: schema.Judge
) -> list[diagnostics.Diagnostic]:
    """Return the mistakes of a policy, those of its values only where its recipe is known."""
    if recipe is None:
        return judge.judge(document)[1]
    name = recipe.data["metadata"]["name"]
    found = judge.knowing({name: recipe.data["spec"]}).judge(document)[1]
    found = found or list(recipe_checks.of_policy(document, recipe, judge.schema_of("Recipe"), judge.complete))
    return found or list(policy_checks.findings(reader.policy_of(document, judge.complete, {name: recipe})))


def _made(data: Mapping[str, Any]) -> Made:
    recipe = data["metadata"]["name"] if data["kind"] == "Recipe" else None
    return Made((data["kind"],), recipe, translation.text([data]))
