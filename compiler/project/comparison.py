"""The comparison of two sides, each a revision or the working tree, cluster by cluster.

A cluster whose input is equal on both is never read. An inventory is read when its cluster is compared, and given up
afterwards: those of a large fleet fill gigabytes.
"""

import contextlib
import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import structs

from compiler import __version__, diagnostics, errors, names, pipeline, schema, wording
from compiler.changes import difference, effects, intent, sides
from compiler.checks import risks
from compiler.checks.output import foreign as foreign_checks
from compiler.fleet import assignment, definitions, examples
from compiler.formats import decode, documents
from compiler.inventory import snapshot
from compiler.output import cache, foreign, index_file
from compiler.project import document_files, git, load, package_data, project_file
from compiler.project import repository as repositories
from compiler.read import fleet as reader
from compiler.rendering import templates
from compiler.settings import Settings

_ROOT = Path()
_FORM = 2
"""The form of an entry, for folders that are older than it."""


def of_revisions(
    revision: str, to: str | None, settings: Settings, chosen: Sequence[str] = (), *, is_cached: bool = True
) -> difference.Difference:
    """Return the difference between a revision and another one, or the working tree if `to` is None.

    `settings` are those of the working tree, `chosen` the clusters to compare, all if it is empty; without `is_cached`
    nothing is read from .kae_cache/ or written to it. Raises WorldError.
    """
    with _opened(revision, to, settings, chosen) as (before, after):
        return _between(before, after, chosen, is_cached=is_cached)


def of_edit(settings: Settings, edited: Mapping[str, bytes | None]) -> difference.Difference:
    """Return the difference between HEAD and the working tree with these files as they will be, None for one that goes.

    `settings` are those of the working tree. Raises WorldError.
    """
    judge = schema.Judge(package_data.schemas())
    with repositories.Repository() as repository:
        return _between(_of_revision(repository, "HEAD", judge), _of_working_tree(judge, settings, edited))


def _between(
    before: "_Side", after: "_Side", chosen: Sequence[str] = (), *, is_cached: bool = True
) -> difference.Difference:
    known = _Remembered(is_used=is_cached)
    written = _written(before, after)
    found = _Comparison(before, after, known, written).result(chosen)
    if not chosen:
        known.save()
    return found


Made = tuple[str, sides.Planned | None, sides.Planned | None]
"""A cluster as both sides make it, None where one does not have it."""


def with_sides(
    revision: str, to: str | None, settings: Settings, chosen: Sequence[str] = ()
) -> tuple[difference.Difference, Sequence[Made]]:
    """Return the same difference, and all clusters as both sides make them; none where a side has faults.

    Nothing tells that a cluster does not differ. Raises WorldError.
    """
    with _opened(revision, to, settings, chosen) as (before, after):
        found = _between(before, after, chosen)
        names = sorted({*before.clusters, *after.clusters}) if not found.faults else ()
        every = ((name, [side.made(side.clusters.get(name))[0] for side in (before, after)]) for name in names)
        return found, [(name, was, now) for name, (was, now) in every if not chosen or name in chosen]


@contextlib.contextmanager
def _opened(
    revision: str, to: str | None, settings: Settings, chosen: Sequence[str]
) -> Iterator[tuple["_Side", "_Side"]]:
    judge = schema.Judge(package_data.schemas())
    with repositories.Repository() as repository:
        before = _of_revision(repository, revision, judge)
        after = _of_working_tree(judge, settings) if to is None else _of_revision(repository, to, judge)
        if not (before.errors or after.errors):  # A document with mistakes may be that of the cluster.
            load.require_clusters(chosen, {**before.clusters, **after.clusters}.values())
        yield before, after


_Made = tuple[sides.Planned | None, diagnostics.Findings]
"""A cluster as one side makes it, and the errors in it; nothing for one that a side does not have."""


class _Side(msgspec.Struct, frozen=True, kw_only=True):
    """The documents of a revision, without the content of its inventories."""

    revision: difference.Revision
    settings: Settings
    written: tuple[documents.Document, ...] = ()
    """The project file and the documents of policies/ and recipes/."""
    fleet: definitions.Fleet
    errors: diagnostics.Findings
    """The errors in these documents."""
    inventories: Mapping[str, tuple[repositories.Source, ...]] = {}
    """The files of each cluster."""
    judge: schema.Judge

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

    def made(self, cluster: definitions.Cluster | None, known: snapshot.Inventory | None = None) -> _Made:
        """Return a cluster, or the errors in it; `known` is its inventory if it is read already."""
        if cluster is None:
            return None, ()
        wrong: diagnostics.Findings = ()
        if known is None:
            own = self.inventories.get(cluster.name, ())
            read, unread = _decoded(own, pipeline.at_once(cluster.spec, self.judge))
            known, on_nodes = pipeline.read_inventory(cluster, read, self.judge, self.settings)
            wrong = _errors(self.settings, (*unread, *on_nodes))
        planned, found = pipeline.plan_policies(self.fleet, cluster, known)
        wrong = (*wrong, *_errors(self.settings, found))
        if wrong:
            return None, wrong
        return sides.of_plan(planned, pipeline.manifests_of(planned, self.settings.applied)), ()


def _of_working_tree(
    judge: schema.Judge, settings: Settings, edited: Mapping[str, bytes | None] = MappingProxyType({})
) -> _Side:
    """Return the documents of the working tree, whose errors are also those on output/. Raises WorldError."""
    output = project_file.output(settings)
    files, findings = document_files.find(settings.folders)
    item = project_file.file()
    inputs = [*([item] if item else ()), *files]
    if other := edited.keys() - {each.name for each in inputs}:
        raise errors.RefusedError(f"'{min(other)}' has another name in the project.", hint="Remove the link to it.")
    sources = [
        repositories.Source(each.name, functools.partial(document_files.read, each, edited))
        for each in inputs
        if edited.get(each.name, b"") is not None
    ]
    side = _side(difference.Revision(name="", commit=None), settings, sources, findings, judge)
    on_output = foreign.engine_files(output, frozenset(side.clusters), settings.extra)
    found = foreign_checks.engine_files(str(output), on_output)
    return msgspec.structs.replace(side, errors=_errors(settings, (*side.errors, *found)))


def _of_revision(repository: repositories.Repository, name: str, judge: schema.Judge) -> _Side:
    """Return the documents of a revision; none where its project file has mistakes. Raises WorldError."""
    commit = repository.commit(name)
    revision = difference.Revision(name=name, commit=commit)
    with _naming(name):
        found = repository.tree(commit, [names.PROJECT_FILE]).project_file()

    def has_folder(folder: str) -> bool:
        return repository.tree(commit, [folder]).is_folder(folder)

    try:
        data = project_file.parsed(found.read(), has_folder) if found else {}
    except errors.WrongFileError as wrong:
        fleet = definitions.Fleet(policies=(), clusters=(), inventories={}, sound=False)
        return _Side(revision=revision, settings=Settings(), fleet=fleet, errors=wrong.findings, judge=judge)
    settings = project_file.settings_of(data)
    whole = repository.tree(commit, settings.folders)
    with _naming(name):
        files, findings = whole.documents(settings.folders)
    return _side(revision, settings, [*([found] if found else ()), *files], findings, judge)


@contextlib.contextmanager
def _naming(revision: str) -> Iterator[None]:
    """Name a revision in an error on its files, which the working tree may not have."""
    try:
        yield
    except errors.WorldError as error:
        raise errors.WorldError(f"In {wording.quoted(revision)}, {error.message}", hint=error.hint) from error


def _side(
    revision: difference.Revision,
    settings: Settings,
    sources: Sequence[repositories.Source],
    unread: Sequence[diagnostics.Diagnostic],
    judge: schema.Judge,
) -> _Side:
    """Return a side of these files; inventories are not read."""
    others = [source for source in sources if source.name != names.PROJECT_FILE]
    project, wrong = _decoded(source for source in sources if source.name == names.PROJECT_FILE)
    policies, more = _decoded(source for source in others if settings.is_shared_file(source.name))
    inventories = document_files.by_cluster(each for each in others if not settings.is_shared_file(each.name))
    known = [(source.name, cluster) for cluster, own in inventories.items() for source in own]
    fleet, found = pipeline.read(policies, judge, known, (*unread, *wrong, *more), settings)
    if project:
        clusters = frozenset(cluster.name for cluster in fleet.clusters)
        found = (*found, *project_file.of_clusters(settings, clusters, project[0]))
    return _Side(
        revision=revision,
        settings=settings,
        written=(*project, *policies),
        fleet=fleet,
        errors=_errors(settings, found),
        inventories=inventories,
        judge=judge,
    )


def _decoded(sources: Iterable[repositories.Source], quick: decode.Quick | None = None) -> documents.Reading:
    return decode.every(((source.name, source.read) for source in sources), quick)


def _errors(settings: Settings, found: Iterable[diagnostics.Diagnostic]) -> diagnostics.Findings:
    judged = settings.with_severities(diagnostics.merged(found))
    return tuple(item for item in judged if item.severity == "error")


class _Remembered:
    """The examples of inventories, by the id of an inventory's content in git, as an earlier comparison made them.

    They are read at the first question; those of this comparison are saved at its end.
    """

    def __init__(self, *, is_used: bool) -> None:
        """`is_used` is False where nothing is to be read or written."""
        self._is_used = is_used
        self._asked: dict[str, Any] = {}

    def examples(self, source: repositories.Source, keys: frozenset[str]) -> examples.Examples | None:
        """Return the examples of an inventory for these labels; None where it has none."""
        key = cache.key(__version__, _FORM, source.blob or "", sorted(keys))
        entry = self._known.get(key)
        if entry is None and (found := examples.examples(source.read(), keys)):
            entry = [found.text.decode(), found.members]
        if entry is None:
            return None
        self._asked[key] = entry
        text, members = entry
        return examples.Examples(text.encode(), members)

    @functools.cached_property
    def _known(self) -> Mapping[str, Any]:
        return cache.examples(_ROOT) if self._is_used else {}

    def save(self) -> None:
        """Keep the examples of this comparison for the next one."""
        if self._is_used and self._asked and self._asked.keys() != self._known.keys():
            cache.save_examples(_ROOT, self._asked)


def _written(before: _Side, after: _Side) -> Mapping[str, frozenset[str]]:
    """Return the files of objects that differ between the outputs of both sides, by cluster; index.json is none.

    Of outputs in two folders, and of one that was not there, nothing is known. Raises WorldError.
    """
    output, commit = before.settings.output, before.revision.commit
    found: dict[str, set[str]] = {}
    if output == after.settings.output and commit is not None:
        for path in git.changed(output, commit, after.revision.commit):
            cluster, _, file = path.partition("/")
            if "/" in file and file.endswith(".yaml"):
                found.setdefault(cluster, set()).add(file)
    with git.Objects() as objects:
        indexes = ((name, f"{commit}:./{os.path.relpath(output)}/{name}/{index_file.NAME}") for name in found)
        return {name: frozenset(found[name]) for name, index in indexes if objects.content(index) is not None}


def _moved(before: _Side, after: _Side) -> Mapping[str, difference.Former]:
    """Return the former folders of outputs that are in another one, by cluster. Raises WorldError."""
    commit, to = before.revision.commit, after.revision.commit
    old, new = before.settings.output, after.settings.output
    if commit is None:
        return {}
    joining = {name for name in after.clusters if name not in before.clusters}
    coming = joining if old == new else {*after.clusters}
    gone = git.left(new, coming, {*after.clusters} - coming, commit, to)
    found = {name: difference.Former(folder=folder) for name, folder in gone.items()}
    for name, folder in git.copies(old, coming - joining - found.keys(), commit, to).items():
        found[name] = difference.Former(folder=folder, is_there=True)
    return found


class _Comparison:
    """Two sides and their documents' changes."""

    def __init__(self, before: _Side, after: _Side, known: _Remembered, written: Mapping[str, frozenset[str]]) -> None:
        self._known = known
        self._before = before
        self._after = after
        self._written = written
        self._moved = _moved(before, after)
        self._basis = difference.Basis(
            output=after.settings.output,
            changed=intent.changes(before.written, after.written),
            render=templates.renderer(package_data.templates(), package_data.code()),
            # A commit that raises the limit is judged by the one that it finds.
            step_percent=min(side.settings.limits.step_percent for side in (before, after)),
        )

    def result(self, chosen: Sequence[str]) -> difference.Difference:
        """Return the difference of the chosen clusters."""
        found: list[difference.ClusterDifference] = []
        faults = _faults(None, self._before.errors, self._after.errors)
        every = sorted({*self._before.clusters, *self._after.clusters})
        for name in () if faults else every:
            if not chosen or name in chosen:
                differs, wrong = self._cluster(name)
                found.extend([differs] if differs else ())
                faults.extend(wrong)
        return difference.Difference(
            before=self._before.revision,
            after=self._after.revision,
            intent=self._basis.changed,
            clusters=tuple(found),
            faults=tuple(faults),
            is_first=bool(self._after.clusters) and not self._before.written,
            described=tuple(self._described(chosen)) if faults else (),
        )

    def _described(self, chosen: Sequence[str]) -> Iterator[effects.Effect]:
        """Yield what a side gives its nodes if the documents of the other one alone have errors."""
        sound = [side for side in (self._before, self._after) if not side.errors]
        for side in sound if len(sound) == 1 else ():
            for name, cluster in side.clusters.items():
                made, _ = side.made(cluster if not chosen or name in chosen else None)
                yield from effects.effects(None, made, frozenset(), ())

    def _cluster(self, name: str) -> tuple[difference.ClusterDifference | None, list[difference.Fault]]:
        old, new = self._before.clusters.get(name), self._after.clusters.get(name)
        if old is None or new is None or not self._has_one_inventory(name):
            return self._compared(name, self._before.made(old), self._after.made(new))
        if self._before.inputs(old) == self._after.inputs(new) and name not in {*self._written, *self._moved}:
            return None, []
        known = self._by_examples(old, new)
        if known is None:
            was, wrong = self._before.made(old)
            # The inventory depends on the labels that the watcher ignores and keeps, where it is a list of Nodes.
            earlier, later = old.spec.watcher, new.spec.watcher
            is_shared = (earlier.ignoreLabels, earlier.inventory) == (later.ignoreLabels, later.inventory)
            inventory = was.planned.inventory if was and is_shared else None
            return self._compared(name, (was, wrong), self._after.made(new, inventory))
        found, inventory = known
        return self._compared(name, self._before.made(old, inventory), self._after.made(new, inventory), found)

    def _compared(
        self, name: str, before: _Made, after: _Made, known: examples.Examples | None = None
    ) -> tuple[difference.ClusterDifference | None, list[difference.Fault]]:
        if faults := _faults(name, before[1], after[1]):
            return None, faults
        written, moved = self._written.get(name, frozenset()), self._moved.get(name)
        basis = structs.replace(self._basis, known=known, written=written, moved=moved)
        return risks.compared(before[0], after[0], basis), []

    def _by_examples(
        self, old: definitions.Cluster, new: definitions.Cluster
    ) -> tuple[examples.Examples, snapshot.Inventory] | None:
        """Return the inventory that both sides have by examples; None where names of nodes decide, or it is wrong."""
        policies = [*self._before.policies(old), *self._after.policies(new)]
        sources = self._after.inventories.get(new.name, ())
        keys = examples.keys(policies, reader.recipes_of(policies), new.name)
        (source,) = self._before.inventories[old.name] if len(sources) == 1 else (None,)
        found = self._known.examples(source, keys) if keys and source else None
        if found is None:
            return None
        read, wrong = decode.decode(sources[0].name, found.text)
        inventory, findings = pipeline.read_inventory(new, read, self._after.judge, self._after.settings)
        return None if wrong or findings else (found, inventory)

    def _has_one_inventory(self, cluster: str) -> bool:
        """Return whether both sides have the same files of nodes for a cluster."""
        old, new = self._before.inventories.get(cluster, ()), self._after.inventories.get(cluster, ())
        if [source.name for source in old] != [source.name for source in new]:
            return False
        return all(one.blob == other.digest(one.blob or "") for one, other in zip(old, new, strict=True))


def _faults(cluster: str | None, before: diagnostics.Findings, after: diagnostics.Findings) -> list[difference.Fault]:
    both: tuple[tuple[difference.SideName, diagnostics.Findings], ...] = (("from", before), ("to", after))
    return [difference.Fault(side=side, cluster=cluster, findings=found) for side, found in both if found]
