"""A project's documents, read from disk into a fleet."""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compiler import diagnostics, pipeline, schema
from compiler.fleet import definitions
from compiler.formats import decode, documents
from compiler.project import discovery, document_files, package_data


def read(inventories: Sequence[str]) -> tuple[definitions.Fleet, list[diagnostics.Diagnostic]]:
    """Everything that the project's documents say."""
    found, notes = discovery.inputs(inventories)
    return of(found, notes, schema.Judge(package_data.schemas())), notes


def of(
    found: Iterable[document_files.Input],
    notes: list[diagnostics.Diagnostic],
    judge: schema.Judge,
    known: Mapping[str, str] | None = None,
) -> definitions.Fleet:
    """The fleet of these files; what is to be said of them is added to `notes`. `known` is for `pipeline.read`."""
    result, more = pipeline.read(documents_of(found, notes), judge, known)
    notes.extend(more)
    # What cannot be read at all is missed as much as what was refused.
    return dataclasses.replace(result, sound=not diagnostics.has_errors(notes))


def documents_of(
    found: Iterable[document_files.Input], notes: list[diagnostics.Diagnostic]
) -> Iterator[documents.Document]:
    """The documents of these files one by one; what cannot be read is added to `notes`."""
    for item in found:
        read_, faults = decode.decode(item.name, document_files.read(item))
        notes.extend(faults)
        yield from read_
