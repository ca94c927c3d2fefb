"""One call of `kae compile`: its input files, the results for its clusters, and the cache of earlier calls."""

import argparse
import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compiler import diagnostic_formats, diagnostics, errors, names
from compiler.output import cache, scan, tree
from compiler.packing import Packed
from compiler.project import document_files, links, package_data, project_file
from compiler.project.by_cluster import shards
from compiler.settings import Settings

if TYPE_CHECKING:
    from compiler.changes import acceptance
    from compiler.output import write
    from compiler.views import object_changes


class Outcome(NamedTuple):
    """The result for a cluster, small enough to be kept for every cluster of a fleet."""

    name: str
    key: str
    """The digest of its input."""
    digest: str = ""
    """The digest of its output."""
    findings: diagnostics.Findings = ()
    """Those on its policies and nodes."""
    compiled: tree.Tree | Packed[tree.Tree] | None = None
    """None where its output is current, where a check compared it already, or where something has errors."""
    state: str = "fine"
    """The state of its output, and below its differences: a check alone compares."""
    foreign: tuple[str, ...] = ()
    """Files that are not the compiler's."""
    diff: Packed[str] | None = None
    removals: tuple["acceptance.Acceptable", ...] = ()
    changes: diagnostics.Findings = ()
    """Findings on the earlier output; the cache keeps neither, as they are shown once."""
    objects: "object_changes.Said | None" = None
    """What changes by object; None where nothing does."""


class Call:
    """One call: its arguments, its input files, and the cache of earlier calls."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        root = Path()
        self.cache = cache.Cache(digests=cache.Digests(root)) if arguments.no_cache else cache.load(root)
        fingerprint = "" if arguments.no_cache else cache.fingerprint(self.cache.digests, package_data.parts())
        self.file = project_file.file()
        self.file_data = self._file_data(fingerprint)
        self.settings = project_file.remember(arguments, self.file_data[1] if self.file_data else {})
        self.output = _output(self.settings)
        self.shard: shards.Shard = arguments.shard
        self.inputs, self.findings = document_files.of_project(self.settings)
        every = [item for item in self.inputs if not self.settings.is_shared_file(item.name)]
        self.inventories = [item for item in every if self.takes(names.stem(item.name))]
        """The files of the inventories that the call reads: those of its clusters."""
        self.inventories_of = document_files.by_cluster(self.inventories)
        self._shared = shared_files(self.settings, self.inputs)
        self.sums = self._sums()
        base = cache.key(fingerprint, self.settings.output, self.settings.applied, self.settings.inventories)
        self.documents = documents_key(self._shared, self.cache.digests)
        """The digest of all documents but inventories."""
        self._base = cache.key(base, self.documents)
        part = sorted(arguments.cluster), str(self.shard), [item.name for item in every]
        self.overall = cache.key(base, self.sums, *part, records(self.findings))

    @functools.cached_property
    def tracked(self) -> frozenset[str]:
        """The clusters whose output git has; none without git or outside of a repository."""
        from compiler.project import git  # noqa: PLC0415 - only where something has to be compiled

        return git.tracked(self.settings.output)

    @functools.cached_property
    def unmerged(self) -> frozenset[str]:
        """The compiler's paths below output/ that git has in conflict; none without git or outside of a repository."""
        from compiler.project import git  # noqa: PLC0415 - only where something has to be compiled

        return git.unmerged(self.settings.output, self.settings.extra)

    @functools.cached_property
    def told(self) -> scan.Told:
        """The paths below output/ that are the compiler's by what git tells."""
        return scan.Told(self.unmerged, self._forgotten())

    def _forgotten(self) -> frozenset[str]:
        """Return the paths below output/ of files that no index records, and that are the compiler's as they are.

        `git checkout .`, `git stash` and `git reset` take back the index that recorded a new file, and leave the file:
        git does not track it, and a compile wrote it so. `git checkout -- PATH` may take back a file alone.
        """
        from compiler.project import git  # noqa: PLC0415 - only where something has to be compiled

        written = cache.written(Path()).get(self.settings.output, {})
        untracked = git.untracked(self.settings.output) if written else ()
        left = (path for path in untracked if path in written and scan.holds(self.output / path, written[path]))
        return git.restored(self.settings.output).union(left)

    def remember_written(self, results: Iterable["write.Written"]) -> None:
        """Keep the digests of the files that were written, and drop those of the files that were removed.

        They are no results, which --no-cache is about: without them, nobody knows a new file for the compiler's.
        """
        known = {**cache.written(Path())}
        own = dict(known.get(self.settings.output, {}))
        for result in results:
            for path in result.removed:
                own.pop(f"{result.cluster}/{path}", None)
            own.update((f"{result.cluster}/{path}", digest) for path, digest in result.digests.items())
        if own != known.get(self.settings.output, {}):
            cache.save_written(Path(), {**known, self.settings.output: own})

    def takes(self, cluster: str) -> bool:
        """Return whether a cluster is one of those that the call compiles."""
        chosen = self.arguments.cluster
        return cluster in chosen if chosen else self.shard.takes(cluster)

    def _file_data(self, fingerprint: str) -> tuple[str, project_file.Data] | None:
        """Return the key and the data of the project file; what the cache knows is not read again."""
        if self.file is None:
            return None
        key = cache.key(fingerprint, document_files.digest(self.file, self.cache.digests.of))
        known = self.cache.settings
        if known and known[0] == key and project_file.holds(known[1]):
            return known
        return key, project_file.data()

    def _sums(self) -> dict[str, str]:
        if self.arguments.no_cache:
            return {}  # Nobody asks for the digests of large files.
        return _digests((*self._shared, *self.inventories), self.cache.digests)

    def cluster_key(self, name: str) -> str:
        """Return the digest of a cluster's input: all documents except the inventories of other clusters."""
        own = {item.name: self.sums.get(item.name) for item in self.inventories_of.get(name, ())}
        return cache.key(self._base, own)

    def is_current(self, name: str) -> bool:
        """Return whether a cluster's documents and its output on disk are as the cache records them."""
        record = self.cache.clusters.get(name)
        return (
            record is not None
            and record.key == self.cluster_key(name)
            and cache.verify(self.cache.digests, self.output / name, record)
        )

    def remember(self, outcomes: Iterable[Outcome], found: diagnostics.Findings) -> None:
        """Save the results for the next call, unless it forbids that or a document was edited in the meantime."""
        if self.arguments.no_cache or self._sums() != self.sums:
            return
        kept = {name: record for name, record in self.cache.clusters.items() if not self.takes(name)}
        for item in outcomes:
            kept[item.name] = cache.Record(key=item.key, diagnostics=records(item.findings), tree=item.digest)
        overall = cache.Record(key=self.overall, diagnostics=records(found))
        self.save(cache.Cache(digests=self.cache.digests, overall=overall, clusters=kept, settings=self.file_data))

    def save(self, state: cache.Cache) -> None:
        """Write the cache."""
        cache.save(Path(), state)


def shared_files(settings: Settings, inputs: Iterable[document_files.Input]) -> list[document_files.Input]:
    """Return kae.yaml, if there is one, and those of the files that all clusters share."""
    file = project_file.file()
    return [*([file] if file else ()), *(item for item in inputs if settings.is_shared_file(item.name))]


def documents_key(shared: Iterable[document_files.Input], digests: cache.Digests) -> str:
    """Return the digest of the documents that all clusters share. Raises WorldError."""
    return cache.key(_digests(shared, digests))


def _digests(files: Iterable[document_files.Input], digests: cache.Digests) -> dict[str, str]:
    return {item.name: document_files.digest(item, digests.of) for item in files}


def records(found: Iterable[diagnostics.Diagnostic]) -> tuple[Mapping[str, object], ...]:
    """Return findings as the cache keeps them."""
    return tuple(diagnostic_formats.to_record(finding) for finding in found)


def recorded(record: cache.Record) -> diagnostics.Findings:
    """Return the findings that the cache keeps."""
    return tuple(diagnostic_formats.from_record(finding) for finding in record.diagnostics)


def _output(settings: Settings) -> Path:
    """Return the folder to write to. Raises WorldError for one that holds documents, or is in their folders."""
    folder = project_file.output(settings)
    inputs = [links.real(name) for name in settings.folders]
    target = links.real(folder)
    if not settings.output or any(target.is_relative_to(path) or path.is_relative_to(target) for path in inputs):
        message = f"output cannot be written to '{settings.output}'."
        raise errors.WorldError(message, hint="Name a folder outside of the documents' folders.")
    return folder
