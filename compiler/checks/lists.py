"""Lists in documents: their items with their paths, and names that are there twice."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from compiler import repeats, wording
from compiler.diagnostics import Diagnostic, shared_rule
from compiler.formats import documents

shared_rule("duplicate-name", "error", "The names in a list are unique.")
shared_rule("recipe-reference", "error", "A recipe names images, kinds, payloads, volumes and files that it has.")


def items(path: documents.Path, data: Mapping[str, Any], field: str) -> Iterator[tuple[documents.Path, Any]]:
    """Yield the items of a list in the mapping at a path, each with its own path; none where there is no list."""
    for index, item in enumerate(data.get(field, ())):
        yield (*path, field, index), item


def containers(path: documents.Path, pod: Mapping[str, Any]) -> Iterator[tuple[documents.Path, Any]]:
    """Yield the containers of the pod at a path, those that start first first, each with its own path."""
    for field in ("initContainers", "containers"):
        yield from items(path, pod, field)


def unknown(
    source: documents.Document, path: documents.Path, name: str, known: Collection[str], noun: str
) -> Iterator[Diagnostic]:
    """Yield that a name at a path is none of the known ones, which the noun describes."""
    if name not in known:
        listed = f"The known ones are {wording.listed(known)}." if known else "The recipe has none."
        hint = wording.did_you_mean(name, known) or listed
        yield Diagnostic(
            code="recipe-reference", span=source.span(*path), message=f"'{name}' is not {noun}.", hint=hint
        )


def twice(
    source: documents.Document, named: Iterable[tuple[documents.Path, str]], message: str
) -> Iterator[Diagnostic]:
    """The names in a list are unique; `named` are their paths and they, and the message has {} for one."""
    for _, (path, name) in repeats.of(named, key=lambda pair: pair[1]):
        yield Diagnostic(
            code="duplicate-name",
            span=source.span(*path),
            message=message.format(name),
            hint="Keep one of the two.",
        )
