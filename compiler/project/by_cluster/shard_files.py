"""The files in which machines leave what they found, so that one of them can give the verdict on all clusters."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec

from compiler import __version__, diagnostic_formats, diagnostics, errors, names, wording
from compiler.project import atomic, document_files, links
from compiler.project.by_cluster import planned, shards
from compiler.settings import Settings

_ONE_RUN = "Name those of one run."
_ONE_COMMIT = "Run all shards, and this command, on one commit."
_Count = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]


class _Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A finding, as `diagnostic_formats.to_record` gives it."""

    code: str
    severity: str
    message: str
    file: str
    line: _Count
    column: _Count
    notes: tuple[str, ...]
    hint: str
    text: str


class Cluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A cluster of a shard, with the state of its output; None where something has errors."""

    name: str
    state: str | None
    inventories: tuple[str, ...]
    on_inventories: tuple[_Record, ...]
    on_policies: tuple[_Record, ...]
    on_nodes: tuple[_Record, ...]

    @classmethod
    def of(cls, done: planned.Planned[Any], state: str | None) -> "Cluster":
        """Return a cluster that the shard has planned."""
        parts = (done.on_inventories, done.on_policies, done.on_nodes)
        return cls(done.name, state, tuple(file for file, _ in done.inventories), *map(records, parts))

    def planned(self) -> planned.Planned[str]:
        """Return the cluster as the shard has planned it, with its state as the answer."""
        return planned.Planned(
            name=self.name,
            inventories=tuple((file, self.name) for file in self.inventories),
            on_inventories=_findings(self.on_inventories),
            on_policies=_findings(self.on_policies),
            on_nodes=_findings(self.on_nodes),
            answer=self.state,
        )


class Found(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename={"is_check": "check", "others": "findings"},
):
    """The findings of one shard, and the state of its clusters: the content of a file."""

    release: str = ""
    """That of the compiler, which `write` adds."""
    shard: str
    documents: str
    """The digest of all documents but inventories."""
    is_check: bool
    files: tuple[str, ...]
    """The files of the inventories that the shard read."""
    clusters: tuple[Cluster, ...]
    removed: tuple[str, ...]
    """The clusters whose output is removed, or would be."""
    others: tuple[_Record, ...]
    """The findings on output, and on what a compile changes there."""

    @property
    def on_output(self) -> diagnostics.Findings:
        """The other findings."""
        return _findings(self.others)


def write(path: Path, found: Found) -> None:
    """Write what a shard found. Raises WorldError."""
    data = msgspec.to_builtins(msgspec.structs.replace(found, release=__version__))
    atomic.write_file(path, [json.dumps(data, indent=1), "\n"])


def read(path: str) -> Found:
    """Return what a shard found. Raises WorldError for a file that no shard of this release has written."""
    content = document_files.read(document_files.Input(path, Path(path)))
    try:
        found = msgspec.json.decode(content, type=Found)
        _require_known(found)
    except ValueError as error:
        message = f"'{wording.file_name(path)}' is not what `kae compile --findings` of this version writes."
        raise errors.RefusedError(message, hint="Name the files of all shards, each by one version of kae.") from error
    return found


def _require_known(found: Found) -> None:
    """Raise ValueError for a file that this release cannot have written."""
    shards.parse(found.shard)
    every, names = [*found.others], [*found.files, *found.removed]
    for each in found.clusters:
        every += [*each.on_inventories, *each.on_policies, *each.on_nodes]
        names += [each.name, each.state or "", *each.inventories]
    names += [record.file for record in every]
    is_known = all(record.code in diagnostics.CODES for record in every)
    if found.release != __version__ or not is_known or not all(map(str.isprintable, names)):
        raise ValueError("another release, or words that no shard writes")


def records(found: Iterable[diagnostics.Diagnostic]) -> tuple[_Record, ...]:
    """Return findings as a file holds them."""
    return tuple(_Record(**diagnostic_formats.to_record(each)) for each in found)


def _findings(found: Iterable[_Record]) -> diagnostics.Findings:
    return tuple(diagnostic_formats.from_record(msgspec.structs.asdict(record)) for record in found)


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
        message = f"'{name}' is in a folder of documents or of output, or is {names.PROJECT_FILE}."
        raise errors.RefusedError(message, hint="Name a file beside them.")
    if os.path.isdir(place) or not os.path.isdir(place.parent):  # noqa: PTH112 - it raises nothing
        raise errors.WorldError(f"no file can be written to '{name}'.", hint="Name a file in a folder that is there.")
    atomic.require_file(Path(path))


def require_whole(found: Sequence[Found], documents: str, files: Iterable[str], clusters: Iterable[str]) -> None:
    """Raise RefusedError unless all shards are there, of these documents, files of inventories, and clusters."""
    given = [shards.parse(each.shard) for each in found]
    counts = {shard.count for shard in given}
    if len(counts) > 1:
        of = wording.listed(str(count) for count in sorted(counts))
        raise errors.RefusedError(f"the files are of {of} shards.", _ONE_RUN)
    if len({each.is_check for each in found}) > 1:
        raise errors.RefusedError("some of the files are of a check, and some of a compile.", _ONE_RUN)
    if twice := sorted({str(shard) for shard in given if given.count(shard) > 1}):
        raise errors.RefusedError(f"several files are of shard {wording.listed(twice)}.", _ONE_RUN)
    (count,) = counts
    every = [shards.Shard(index, count) for index in range(count)]
    if lacking := [str(shard) for shard in every if shard not in given]:
        hint = "Run its `kae compile --shard` again; without its findings nobody knows the verdict."
        raise errors.RefusedError(f"no file is of shard {wording.listed(lacking)}.", hint)
    if any(each.documents != documents for each in found):
        message = "a shard has compiled other policies, clusters or settings than those that are here."
        raise errors.RefusedError(message, _ONE_COMMIT)
    own = {name for each in found for name in each.files}
    if changed := sorted(own.symmetric_difference(files)):
        named = wording.listed(changed, most=3)
        raise errors.RefusedError(f"the inventories are not those that the shards have read: {named}.", _ONE_COMMIT)
    given_clusters = Counter(cluster.name for each in found for cluster in each.clusters)
    given_clusters.subtract(clusters)
    if wrong := sorted(name for name, count in given_clusters.items() if count):
        named = wording.listed(wrong, most=3)
        hint = "Run all shards again; a file was changed, or is not whole."
        raise errors.RefusedError(f"the files are not of every cluster once: {named}.", hint)
