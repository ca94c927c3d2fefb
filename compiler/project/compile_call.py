"""One call of `kae compile`: its input files, the results for its clusters, and the cache of earlier calls."""

import argparse
import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from compiler import diagnostic_formats, diagnostics, errors, names
from compiler.output import cache, tree
from compiler.project import document_files, links, package_data, project_file
from compiler.settings import Settings

if TYPE_CHECKING:
    from compiler.changes import acceptance, objects


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result for a cluster."""

    name: str
    key: str
    """The digest of its input."""
    tree: tree.Tree | None
    """None where its output is current, or its documents have errors."""
    digest: str
    """The digest of its output."""
    findings: diagnostics.Findings
    """Those on its documents and nodes."""
    removals: tuple["acceptance.Removal", ...] = ()
    changes: diagnostics.Findings = ()
    """Findings on the earlier output; the cache keeps neither, as they are shown once."""
    objects: "objects.Objects | None" = None
    """What changes by object; None where nothing was compiled."""


class Call:
    """One call: its arguments, its input files, and the cache of earlier calls."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        root = Path()
        self.cache = cache.Cache(digests=cache.Digests(root)) if arguments.no_cache else cache.load(root)
        code = (package_data.HERE, package_data.folder("templates"), package_data.folder("schemas"))
        fingerprint = cache.fingerprint(self.cache.digests, code)
        self.file = project_file.file()
        self.file_data = self._file_data(fingerprint)
        self.settings = project_file.remember(arguments, self.file_data[1] if self.file_data else {})
        self.output = _output(self.settings)
        self.inputs, self.findings = document_files.of_project(self.settings)
        self.sums = self._sums()
        base = cache.key(fingerprint, self.settings.output, self.settings.inventories)
        self.overall = cache.key(base, self.sums, sorted(arguments.cluster), records(self.findings))
        folders = tuple(f"{document_files.name_of(folder)}/" for folder in self.settings.inventories)
        self.inventories = tuple(item for item in self.inputs if item.name.startswith(folders))
        self.shared = cache.key(base, {n: s for n, s in self.sums.items() if not n.startswith(folders)})

    @functools.cached_property
    def tracked(self) -> frozenset[str]:
        """The clusters whose output git has; none without git or outside of a repository."""
        from compiler.project import output_in_git  # noqa: PLC0415 - only where something has to be compiled

        return output_in_git.tracked(self.settings.output)

    @functools.cached_property
    def unmerged(self) -> frozenset[str]:
        """The compiler's paths below output/ that git has in conflict; none without git or outside of a repository."""
        from compiler.project import output_in_git  # noqa: PLC0415 - only where something has to be compiled

        return output_in_git.unmerged(self.settings.output, self.settings.extra)

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
        files = (*([self.file] if self.file else ()), *self.inputs)
        return {item.name: document_files.digest(item, self.cache.digests.of) for item in files}

    def cluster_key(self, name: str) -> str:
        """Return the digest of a cluster's input: all documents except the inventories of other clusters."""
        own = {item.name: self.sums[item.name] for item in self.inventories if names.stem(item.name) == name}
        return cache.key(self.shared, own)

    def is_current(self, name: str) -> bool:
        """Return whether a cluster's documents and its output on disk are as the cache records them."""
        record = self.cache.clusters.get(name)
        return (
            record is not None
            and record.key == self.cluster_key(name)
            and cache.verify(self.cache.digests, self.output / name, record)
        )

    def remember(self, outcomes: Iterable[Outcome], found: diagnostics.Findings) -> None:
        """Save the results for the next call, unless a document was edited in the meantime."""
        if self._sums() != self.sums:
            return
        kept = dict(self.cache.clusters) if self.arguments.cluster else {}
        for item in outcomes:
            kept[item.name] = cache.Record(key=item.key, diagnostics=records(item.findings), tree=item.digest)
        overall = cache.Record(key=self.overall, diagnostics=records(found))
        self.save(cache.Cache(digests=self.cache.digests, overall=overall, clusters=kept, settings=self.file_data))

    def save(self, state: cache.Cache) -> None:
        """Write the cache, unless the call forbids it."""
        if not self.arguments.no_cache:
            cache.save(Path(), state)


def records(found: Iterable[diagnostics.Diagnostic]) -> tuple[Mapping[str, object], ...]:
    """Return findings as the cache keeps them."""
    return tuple(diagnostic_formats.to_record(finding) for finding in found)


def recorded(record: cache.Record) -> diagnostics.Findings:
    """Return the findings that the cache keeps."""
    return tuple(diagnostic_formats.from_record(finding) for finding in record.diagnostics)


def _output(settings: Settings) -> Path:
    """Return the folder to write to. Raises WorldError for one that holds documents, or is in their folders."""
    folder = project_file.output(settings)
    inputs = [links.real(name) for name in (settings.policies, *settings.inventories)]
    target = links.real(folder)
    if not settings.output or any(target.is_relative_to(path) or path.is_relative_to(target) for path in inputs):
        raise errors.WorldError(
            f"output cannot be written to '{settings.output}'.",
            hint="Name a folder outside of the documents' folders.",
        )
    return folder
