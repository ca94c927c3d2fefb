"""A project's documents, read from disk into a fleet."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import diagnostics, documents, files, load, pipeline, project, resources, schema


def read(inventories: Sequence[str]) -> tuple[pipeline.Fleet, list[diagnostics.Diagnostic]]:
    """Everything that the project's documents say."""
    found, notes = project.inputs(inventories)
    result, more = pipeline.read(documents_of(found, notes), schema.Judge(resources.schemas()))
    return result, [*notes, *more]


def documents_of(found: Iterable[files.Input], notes: list[diagnostics.Diagnostic]) -> Iterator[documents.Document]:
    """The documents of these files one by one; what cannot be read is added to `notes`."""
    for item in found:
        read_, faults = load.decode(item.name, files.read(item))
        notes.extend(faults)
        yield from read_
