"""The documents of a revision, or of the working tree, as one side of a comparison.

An inventory is read when its cluster is compared, and given up afterwards: those of a large fleet fill gigabytes.
"""

import contextlib
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler import diagnostics, names, pipeline, schema, wording
from compiler.changes import difference
from compiler.checks.output import foreign as foreign_checks
from compiler.errors import WorldError
from compiler.fleet import assignment, definitions
from compiler.formats import decode, documents
from compiler.inventory import snapshot
from compiler.output import foreign
from compiler.project import document_files, project_file
from compiler.project.history import repository as repositories
from compiler.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The documents of a revision, without the content of its inventories."""

    revision: difference.Revision
    settings: Settings
    written: tuple[documents.Document, ...]
    """The project file and the documents of policies/ and recipes/."""
    fleet: definitions.Fleet
    errors: diagnostics.Findings
    """The errors in these documents."""
    inventories: Mapping[str, tuple[repositories.Source, ...]]
    """The files of each cluster."""

    @property
    def clusters(self) -> Mapping[str, definitions.Cluster]:
        """The clusters by name."""
        return {cluster.name: cluster for cluster in self.fleet.clusters}

    def policies(self, cluster: definitions.Cluster) -> Sequence[definitions.Policy]:
        """Return the policies that hold in a cluster."""
        return assignment.in_cluster(self.fleet.policies, cluster.name)

    def inputs(self, cluster: definitions.Cluster) -> object:
        """Return everything but the inventory that the output of a cluster is made from."""
        stated = [policy.meaning for policy in self.policies(cluster)]
        return self.settings.applied, cluster.spec, cluster.source is not None, stated

    def inventory(
        self, cluster: definitions.Cluster, judge: schema.Judge
    ) -> tuple[snapshot.Inventory, diagnostics.Findings]:
        """Return the inventory of a cluster, and the errors in it."""
        readings = [decode.decode(source.name, source.read()) for source in self.inventories.get(cluster.name, ())]
        unread = [finding for _, findings in readings for finding in findings]
        found = [document for read, _ in readings for document in read]
        inventory, findings = pipeline.read_inventory(cluster, found, judge, self.settings)
        return inventory, errors(self.settings, (*unread, *findings))


def errors(settings: Settings, found: Iterable[diagnostics.Diagnostic]) -> diagnostics.Findings:
    """Return the errors among findings, each once and sorted."""
    judged = settings.with_severities(diagnostics.merged(found))
    return tuple(item for item in judged if item.severity == "error")


def of_working_tree(judge: schema.Judge, settings: Settings) -> Side:
    """Return the documents of the working tree, whose errors are also those on output/. Raises WorldError."""
    output = project_file.output(settings)
    files, findings = document_files.find(settings.folders)
    item = project_file.file()
    inputs = [*([item] if item else ()), *files]
    sources = [repositories.Source(each.name, functools.partial(document_files.read, each)) for each in inputs]
    side = _side(difference.Revision(name="", commit=None), settings, sources, findings, judge)
    on_output = foreign.engine_files(output, frozenset(side.clusters), settings.extra)
    found = foreign_checks.engine_files(str(output), on_output)
    return replace(side, errors=errors(settings, (*side.errors, *found)))


def of_revision(repository: repositories.Repository, name: str, judge: schema.Judge) -> Side:
    """Return the documents of a revision. Raises WorldError; WrongFileError where its project file has mistakes."""
    commit = repository.commit(name)
    top = repository.tree(commit, [names.PROJECT_FILE])
    with _naming(name):
        found = top.project_file()

    def has_folder(folder: str) -> bool:
        return repository.tree(commit, [folder]).is_folder(folder)

    data = project_file.parsed(found.read(), has_folder) if found else {}
    settings = project_file.settings_of(data)
    whole = repository.tree(commit, settings.folders)
    with _naming(name):
        files, findings = whole.documents(settings.folders)
    sources = [*([found] if found else ()), *files]
    return _side(difference.Revision(name=name, commit=commit), settings, sources, findings, judge)


@contextlib.contextmanager
def _naming(revision: str) -> Iterator[None]:
    """Name a revision in an error on its files, which the working tree may not have."""
    try:
        yield
    except WorldError as error:
        raise WorldError(f"In {wording.quoted(revision)}, {error.message}", hint=error.hint) from error


def without_documents(revision: difference.Revision, found: diagnostics.Findings) -> Side:
    """Return a side whose project file has these mistakes, so that its documents cannot be found."""
    fleet = definitions.Fleet(policies=(), clusters=(), inventories={}, sound=False)
    return Side(revision=revision, settings=Settings(), written=(), fleet=fleet, errors=found, inventories={})


def _side(
    revision: difference.Revision,
    settings: Settings,
    sources: Sequence[repositories.Source],
    unread: Sequence[diagnostics.Diagnostic],
    judge: schema.Judge,
) -> Side:
    """Return a side of these files; inventories are not read."""
    inventories: dict[str, tuple[repositories.Source, ...]] = {}
    project: list[documents.Document] = []
    policies: list[documents.Document] = []
    for source in sources:
        if source.name == names.PROJECT_FILE or settings.is_shared_file(source.name):
            found, findings = decode.decode(source.name, source.read())
            (project if source.name == names.PROJECT_FILE else policies).extend(found)
            unread = [*unread, *findings]
        else:
            stem = names.stem(source.name)
            inventories[stem] = (*inventories.get(stem, ()), source)
    known = [(source.name, stem) for stem, own in inventories.items() for source in own]
    fleet, found_errors = pipeline.read(policies, judge, known, tuple(unread), settings)
    clusters = frozenset(cluster.name for cluster in fleet.clusters)
    on_project = project_file.of_clusters(settings, clusters, project[0]) if project else ()
    return Side(
        revision=revision,
        settings=settings,
        written=(*project, *policies),
        fleet=fleet,
        errors=errors(settings, (*found_errors, *on_project)),
        inventories=inventories,
    )
