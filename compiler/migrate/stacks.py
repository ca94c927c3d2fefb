"""Translate an object of another operator to a Recipe and a DevicePolicy, and any source to documents."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from compiler import diagnostics, schema
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


def translated(read: Sequence[documents.Document], names: drafts.Names, judge: schema.Judge) -> Translation:
    """Return the files that mean the same as a source, none where there are errors, and the findings."""
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
    found = list(taken.rest())
    if not diagnostics.has_errors(found):
        found += [
            each.origins.reworded(fault)
            for each in imported
            for fault in judge.faults(each.document, each.document.data["kind"].lower())
        ]
    return (() if diagnostics.has_errors(found) else tuple(_made(each.document.data) for each in imported)), found


def _made(data: Mapping[str, Any]) -> Made:
    kind = data["kind"]
    name = data["metadata"]["name"] if kind == "Recipe" else None
    text = f"{operator_values.ARGOCD}\n# yaml-language-server: $schema={_SCHEMAS[kind]}\n{canonical.dump_yaml(data)}"
    return Made((kind,), name, text)
