"""Lists in documents: their items with their paths, and names that are there twice."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from compiler import repeats
from compiler.diagnostics import Diagnostic, shared_rule
from compiler.formats import documents

shared_rule("duplicate-name", "error", "The names in a list are unique.")


def items(path: documents.Path, data: Mapping[str, Any], field: str) -> Iterator[tuple[documents.Path, Any]]:
    """Yield the items of a list in the mapping at a path, each with its own path; none where there is no list."""
    for index, item in enumerate(data.get(field, ())):
        yield (*path, field, index), item


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
