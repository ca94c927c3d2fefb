"""Translate an object of another operator to a Recipe and a DevicePolicy, and any source to documents."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from compiler import diagnostics, schema
from compiler.checks import policy as policy_checks
from compiler.checks.recipes import recipe as recipe_checks
from compiler.checks.recipes import values
from compiler.fleet import definitions, parse
from compiler.formats import canonical, documents
from compiler.migrate import (
    drafts,
    kernel_modules,
    onload,
    operator_source,
    operator_values,
    reading,
    special_resource,
)

_Drafted = Callable[[reading.Reading, drafts.Names], tuple[drafts.Draft, ...]]

_STACKS: Mapping[str, tuple[_Drafted, reading.Reasons]] = MappingProxyType(
    {
        "Module": (kernel_modules.drafted, kernel_modules.REASONS),
        "Onload": (onload.drafted, onload.REASONS),
        "SpecialResource": (special_resource.drafted, special_resource.REASONS),
    }
)


_SCHEMAS: Mapping[str, str] = MappingProxyType(
    {"DevicePolicy": "../recipes/.schemas/devicepolicy.json", "Recipe": "../.schemas/recipe.json"}
)


@dataclass(frozen=True, slots=True)
class Made:
    """The text of a file that an import makes."""

    kinds: tuple[str, ...]
    recipe: str | None
    """The name of the recipe that it holds; None for documents of policies/."""
    text: str


Translation = tuple[tuple[Made, ...], list[diagnostics.Diagnostic]]


def translated(
    read: Sequence[documents.Document],
    names: drafts.Names,
    judge: schema.Judge,
    shipped: Mapping[str, documents.Document],
) -> Translation:
    """Return the files that mean the same as a source, none where there are errors, and the findings.

    `shipped` are the recipes that an import may make policies of, without making them.
    """
    source = operator_source.of(read)
    if isinstance(source, diagnostics.Diagnostic):
        return (), [source]
    if source.kind not in _STACKS:
        objects, found = operator_values.translated(read, names, judge)
        kinds = tuple(str(data["kind"]) for data in objects)
        return ((Made(kinds, None, operator_values.text(objects)),) if objects else ()), found
    drafted, reasons = _STACKS[source.kind]
    taken = reading.Reading(source, reasons if source.identity else special_resource.VALUES)
    imported = [draft.imported(source.document) for draft in drafted(taken, names)]
    found = [*_unused(source, names), *taken.rest()]
    if not diagnostics.has_errors(found):
        found += _faults(imported, judge, shipped)
    return (() if diagnostics.has_errors(found) else tuple(_made(each.document.data) for each in imported)), found


def _unused(source: operator_source.Source, names: drafts.Names) -> Iterator[diagnostics.Diagnostic]:
    """The names of a call are those of documents that the import makes."""
    if names.namespace is not None:
        yield diagnostics.Diagnostic(
            code="import-dropped",
            span=source.document.span(),
            message="The namespace of the call is not carried over.",
            notes=(reading.NAMESPACE,),
        )


def _faults(
    imported: Iterable[drafts.Imported], judge: schema.Judge, shipped: Mapping[str, documents.Document]
) -> Iterator[diagnostics.Diagnostic]:
    """Yield the errors of a recipe and of its policy, with the names and positions of their source."""
    known = dict(shipped)
    for each in imported:
        data = each.document.data
        if data["kind"] == "Recipe":
            name = data["metadata"]["name"]
            known[name] = documents.Document(f"recipes/{name}/recipe.yaml", data, each.origins)
            found = _of_recipe(definitions.Recipe(name=name, source=known[name]), judge)
        else:
            found = _of_policy(each.document, known.get(data["spec"]["recipe"]), judge)
        errors = [each.origins.reworded(fault) for fault in found if fault.severity == "error"]
        yield from errors
        if errors:
            return


def _of_recipe(recipe: definitions.Recipe, judge: schema.Judge) -> list[diagnostics.Diagnostic]:
    return judge.judge(recipe.source)[1] or list(recipe_checks.findings(recipe, judge.schema_of("Recipe")))


def _of_policy(
    document: documents.Document, source: documents.Document | None, judge: schema.Judge
) -> list[diagnostics.Diagnostic]:
    """Return the mistakes of a policy, those of its values only where its recipe is known."""
    if source is None:
        return judge.judge(document)[1]
    recipe = definitions.Recipe(name=source.data["metadata"]["name"], source=source)
    found = judge.knowing({recipe.name: source.data["spec"]}).judge(document)[1]
    found = found or list(values.findings(document, recipe))
    return found or list(policy_checks.findings(parse.device_policy_of(document, recipe)))


def _made(data: Mapping[str, Any]) -> Made:
    kind = data["kind"]
    name = data["metadata"]["name"] if kind == "Recipe" else None
    text = f"{operator_values.ARGOCD}\n# yaml-language-server: $schema={_SCHEMAS[kind]}\n{canonical.dump_yaml(data)}"
    return Made((kind,), name, text)
