"""The files in which machines leave what they found, so that one of them can give the verdict on all clusters."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from compiler import __version__, diagnostic_formats, diagnostics, errors, names, wording
from compiler.project import atomic, document_files, links
from compiler.project.by_cluster import planned, shards
from compiler.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The findings of one shard, and the state of its clusters."""

    shard: shards.Shard
    documents: str
    """The digest of all documents but inventories."""
    is_check: bool
    files: frozenset[str]
    """The files of the inventories that the shard read."""
    clusters: Sequence[planned.Planned[str]]
    """The clusters, whose answers are the states of their output; None where something has errors."""
    removed: Sequence[str]
    """The clusters whose output is removed, or would be."""
    others: diagnostics.Findings
    """The findings on output, and on what a compile changes there."""


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding, as `diagnostic_formats.to_record` gives it."""

    code: str
    severity: str
    message: str
    file: str
    line: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    column: Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
    notes: tuple[str, ...]
    hint: str
    text: str


class _Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    name: str
    state: str | None
    inventories: tuple[str, ...]
    on_inventories: tuple[_Record, ...]
    on_policies: tuple[_Record, ...]
    on_nodes: tuple[_Record, ...]

    def planned(self) -> planned.Planned[str]:
        """Return the cluster as the shard has planned it."""
        return planned.Planned(
            name=self.name,
            inventories=tuple((file, self.name) for file in self.inventories),
            on_inventories=_findings(self.on_inventories),
            on_policies=_findings(self.on_policies),
            on_nodes=_findings(self.on_nodes),
            answer=self.state,
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a file."""

    release: str
    shard: str
    documents: str
    check: bool
    files: tuple[str, ...]
    clusters: tuple[_Cluster, ...]
    removed: tuple[str, ...]
    findings: tuple[_Record, ...]


def write(path: Path, found: Found) -> None:
    """Write what a shard found. Raises WorldError."""
    clusters = [
        _Cluster(
            name=each.name,
            state=each.answer,
            inventories=tuple(file for file, _ in each.inventories),
            on_inventories=_records(each.on_inventories),
            on_policies=_records(each.on_policies),
            on_nodes=_records(each.on_nodes),
        )
        for each in found.clusters
    ]
    file = _File(
        release=__version__,
        shard=str(found.shard),
        documents=found.documents,
        check=found.is_check,
        files=tuple(sorted(found.files)),
        clusters=tuple(clusters),
        removed=tuple(found.removed),
        findings=_records(found.others),
    )
    atomic.write_file(path, [json.dumps(msgspec.to_builtins(file), indent=1), "\n"])


def read(path: str) -> Found:
    """Return what a shard found. Raises WorldError for a file that no shard of this release has written."""
    content = document_files.read(document_files.Input(path, Path(path)))
    try:
        return _found(msgspec.json.decode(content, type=_File))
    except ValueError as error:
        raise errors.RefusedError(
            f"'{wording.file_name(path)}' is not what `kae compile --findings` of this version writes.",
            hint="Name the files of all shards, each by one version of kae.",
        ) from error


def _found(file: _File) -> Found:
    """Return what a shard found. Raises ValueError for a file that this release cannot have written."""
    records, names = [*file.findings], [*file.files, *file.removed]
    for each in file.clusters:
        records += [*each.on_inventories, *each.on_policies, *each.on_nodes]
        names += [each.name, each.state or "", *each.inventories]
    names += [record.file for record in records]
    is_known = all(record.code in diagnostics.CODES for record in records)
    if file.release != __version__ or not is_known or not all(map(str.isprintable, names)):
        raise ValueError("another release, or words that no shard writes")
    return Found(
        shard=shards.parse(file.shard),
        documents=file.documents,
        is_check=file.check,
        files=frozenset(file.files),
        clusters=[cluster.planned() for cluster in file.clusters],
        removed=file.removed,
        others=_findings(file.findings),
    )


def _records(found: Iterable[diagnostics.Diagnostic]) -> tuple[_Record, ...]:
    return tuple(_Record(**diagnostic_formats.to_record(each)) for each in found)


def _findings(records: Iterable[_Record]) -> diagnostics.Findings:
    return tuple(diagnostic_formats.from_record(msgspec.structs.asdict(record)) for record in records)


def forget(path: Path) -> None:
    """Remove what an earlier call left, so that a shard that does not end leaves nothing. Raises WorldError."""
    try:
        if path.is_file() and not path.is_symlink():
            path.unlink()
    except OSError as error:
        raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be removed: {error.strerror}.") from error


def require_place(path: str, settings: Settings, output: Path) -> None:
    """Raise RefusedError for findings that would replace what a project is, and WorldError for those without a place.

    A file among the documents would be read as one, and one in output/ be applied by a GitOps engine.
    """
    name, place = wording.file_name(path), links.real(path)
    taken: list[str | Path] = [*settings.folders, output, names.PROJECT_FILE]
    if any(place.is_relative_to(links.real(each)) for each in taken):
        raise errors.RefusedError(
            f"'{name}' is in a folder of documents or of output, or is {names.PROJECT_FILE}.",
            hint="Name a file beside them.",
        )
    if os.path.isdir(place) or not os.path.isdir(place.parent):  # noqa: PTH112 - it raises nothing
        raise errors.WorldError(f"no file can be written to '{name}'.", hint="Name a file in a folder that is there.")
    atomic.require_file(Path(path))


def require_whole(found: Sequence[Found], documents: str, files: Iterable[str], clusters: Iterable[str]) -> None:
    """Raise RefusedError unless all shards are there, of these documents, files of inventories, and clusters."""
    counts = {each.shard.count for each in found}
    if len(counts) > 1:
        of = wording.listed(str(count) for count in sorted(counts))
        raise errors.RefusedError(f"the files are of {of} shards.", hint="Name those of one run.")
    if len({each.is_check for each in found}) > 1:
        raise errors.RefusedError(
            "some of the files are of a check, and some of a compile.", hint="Name those of one run."
        )
    given = [each.shard.index for each in found]
    (count,) = counts
    if twice := sorted({str(shards.Shard(index, count)) for index in given if given.count(index) > 1}):
        raise errors.RefusedError(f"several files are of shard {wording.listed(twice)}.", hint="Name those of one run.")
    if lacking := [str(shards.Shard(index, count)) for index in range(count) if index not in given]:
        raise errors.RefusedError(
            f"no file is of shard {wording.listed(lacking)}.",
            hint="Run its `kae compile --shard` again; without its findings nobody knows the verdict.",
        )
    if any(each.documents != documents for each in found):
        raise errors.RefusedError(
            "a shard has compiled other policies, clusters or settings than those that are here.",
            hint="Run all shards, and this command, on one commit.",
        )
    own = {name for each in found for name in each.files}
    if changed := sorted(own.symmetric_difference(files)):
        raise errors.RefusedError(
            f"the inventories are not those that the shards have read: {wording.listed(changed, most=3)}.",
            hint="Run all shards, and this command, on one commit.",
        )
    given_clusters = Counter(cluster.name for each in found for cluster in each.clusters)
    given_clusters.subtract(clusters)
    if wrong := sorted(name for name, count in given_clusters.items() if count):
        raise errors.RefusedError(
            f"the files are not of every cluster once: {wording.listed(wrong, most=3)}.",
            hint="Run all shards again; a file was changed, or is not whole.",
        )
