"""The intent of a change: the fields of policies, recipes, clusters and kae.yaml that differ, by path and value."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from compiler import names
from compiler.diagnostics import Span
from compiler.formats import documents, field_difference

Action = Literal["added", "changed", "removed", "renamed"]

Pair = tuple[documents.Document, documents.Document]


class FieldChange(msgspec.Struct, frozen=True, kw_only=True):
    """A field with another value; `old` is None for a field that is added, `new` for one that is removed."""

    path: documents.Path
    """The field in the document after the change; of a removed field, in the one before it."""
    text: str
    """The path for people: spec.driver.rollout.waves[canary].version."""
    old: Any
    new: Any
    span: Span


class DocumentChange(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, a recipe, a cluster or the project file that differs."""

    kind: str
    """KAEPolicy, DevicePolicy, Recipe, KAECluster or kae.yaml."""
    name: str
    """Empty for kae.yaml."""
    action: Action
    span: Span
    """The name in the document after the change; of a removed document, in the one before it."""
    old_name: str
    """The name before the change; `name` unless the document is renamed."""
    fields: tuple[FieldChange, ...] = ()
    """Of a document that is changed or renamed."""

    @property
    def place(self) -> Span:
        """The first field that differs; without one, the name."""
        return self.fields[0].span if self.fields else self.span


def changes(before: Iterable[documents.Document], after: Iterable[documents.Document]) -> tuple[DocumentChange, ...]:
    """Return what differs between the documents of two revisions, sorted by kind and name."""
    removed, added = list(_written(before)), list(_written(after))
    pairs, removed, added = _matched(removed, added, lambda item: (_kind(item), _name(item)))
    renamed, removed, added = _matched(removed, added, lambda item: (_kind(item), _without_name(item)))
    edited, removed, added = _matched(removed, added, _purpose)
    found = [
        *(change for old, new in (*pairs, *renamed, *edited) if (change := _compared(old, new))),
        *(_whole(item, "removed") for item in removed),
        *(_whole(item, "added") for item in added),
    ]
    return tuple(sorted(found, key=lambda item: (item.kind, item.name, item.span)))


def cause(changed: Sequence[DocumentChange], paths: Iterable[documents.Path] = ()) -> Span | None:
    """Return the changed field at or below the first of these paths that has one, else the first change, if any."""
    for path in paths:
        for item in changed:
            for field in item.fields:
                if field.path[: len(path)] == path:
                    return field.span
    return changed[0].place if changed else None


def _written(found: Iterable[documents.Document]) -> Iterator[documents.Document]:
    """Yield the documents that people write and that have a name; programs write inventories."""
    for item in found:
        if _kind(item) == names.PROJECT_FILE or (_kind(item) in names.SHARED_KINDS and _name(item)):
            yield item


def _matched(
    before: Sequence[documents.Document],
    after: Sequence[documents.Document],
    key: Callable[[documents.Document], Any],
) -> tuple[list[Pair], list[documents.Document], list[documents.Document]]:
    """Return the pairs with one key, and what is left of both sides; of several, equal ones and then files agree.

    A document without a key, None, is in no pair.
    """
    pairs: list[Pair] = []
    left, right = list(before), list(after)
    same: tuple[Callable[[documents.Document, documents.Document], bool], ...] = (
        lambda old, new: bool(old.data == new.data),
        lambda old, new: old.file == new.file,
        lambda _, __: True,
    )
    for agrees in same:
        for old in tuple(left):
            for new in right:
                if key(old) is not None and key(old) == key(new) and agrees(old, new):
                    pairs.append((old, new))
                    left = [item for item in left if item is not old]
                    right = [item for item in right if item is not new]
                    break
    return pairs, left, right


def _kind(item: documents.Document) -> str:
    if item.file == names.PROJECT_FILE:
        return names.PROJECT_FILE
    return str(item.data.get("kind", "")) if isinstance(item.data, dict) else ""


def _name(item: documents.Document) -> str:
    metadata = item.data.get("metadata") if isinstance(item.data, dict) else None
    return str(metadata.get("name", "")) if isinstance(metadata, dict) else ""


def _without_name(item: documents.Document) -> Any:
    return (
        {key: value for key, value in item.data.items() if key != "metadata"} if isinstance(item.data, dict) else None
    )


def _purpose(item: documents.Document) -> Any:
    """Return what a document is for, which stays as it gets another name; a file may hold any documents.

    That are the nodes that a policy takes, and the hardware of a recipe with what it brings: the resources that it
    offers, or without any the modules of its driver, as many recipes match all nodes. Of others, such as a KAECluster,
    the name alone tells.
    """
    spec = item.data.get("spec") if isinstance(item.data, dict) else None
    if not isinstance(spec, dict):
        return None
    if _kind(item) in names.POLICY_KINDS:
        return _kind(item), [spec.get(key) for key in ("recipe", "clusters", "nodeSelector", "default")]
    if _kind(item) == "Recipe":
        offered = _listed(spec.get("devicePlugin"), "resources")
        brought = offered or _listed(spec.get("driver"), "modules")
        # A driver without modules is told by all that it has.
        return "Recipe", spec.get("match"), bool(offered), brought or spec.get("driver")
    return None


def _listed(part: Any, field: str) -> Sequence[Any]:
    """Return the names of the items of a list, which may have any form: mistakes are found elsewhere."""
    items = part.get(field) if isinstance(part, dict) else None
    return [one.get("name") for one in items if isinstance(one, dict)] if isinstance(items, list) else []


def _whole(item: documents.Document, action: Action) -> DocumentChange:
    span = item.span("metadata", "name")
    return DocumentChange(kind=_kind(item), name=_name(item), old_name=_name(item), action=action, span=span)


def _compared(old: documents.Document, new: documents.Document) -> DocumentChange | None:
    was, name = _name(old), _name(new)
    found = tuple(_field(old, new, field) for field in field_difference.fields(old.data, new.data, with_order=True))
    if not found:
        return None
    return DocumentChange(
        kind=_kind(new),
        name=name,
        old_name=was,
        action="changed" if was == name else "renamed",
        span=new.span("metadata", "name"),
        fields=tuple(item for item in found if item.path != ("metadata", "name")),
    )


def _field(old: documents.Document, new: documents.Document, field: field_difference.Field) -> FieldChange:
    document, path = (new, field.now) if field.now is not None else (old, field.was or ())
    return FieldChange(path=path, text=field.text, old=field.old, new=field.new, span=document.setting_span(*path))
