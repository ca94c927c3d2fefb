"""The files in which machines leave what they found, so that one of them can give the verdict on all clusters."""

import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pydantic

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


def write(path: Path, found: Found) -> None:
    """Write what a shard found. Raises WorldError."""
    data = {
        "release": __version__,
        "shard": str(found.shard),
        "documents": found.documents,
        "check": found.is_check,
        "files": sorted(found.files),
        "clusters": list(map(_cluster, found.clusters)),
        "removed": list(found.removed),
        "findings": _records(found.others),
    }
    atomic.write_file(path, [json.dumps(data, indent=1), "\n"])


def forget(path: Path) -> None:
    """Remove what an earlier call left, so that a shard that does not end leaves nothing. Raises WorldError."""
    try:
        if path.is_file() and not path.is_symlink():
            path.unlink()
    except OSError as error:
        raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be removed: {error.strerror}.") from error


def _cluster(found: planned.Planned[str]) -> dict[str, Any]:
    return {
        "name": found.name,
        "state": found.answer,
        "inventories": [file for file, _ in found.inventories],
        "onInventories": _records(found.on_inventories),
        "onPolicies": _records(found.on_policies),
        "onNodes": _records(found.on_nodes),
    }


def _records(found: Iterable[diagnostics.Diagnostic]) -> list[dict[str, Any]]:
    return list(map(diagnostic_formats.to_record, found))


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


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it cannot be printed")
    return text


def _own_release(text: str) -> str:
    if text != __version__:
        raise ValueError("another release")
    return text


def _code(text: str) -> str:
    if text not in diagnostics.CODES:
        raise ValueError("no code")
    return text


_Name = Annotated[str, pydantic.AfterValidator(_printable)]
_Position = Annotated[int, pydantic.Field(ge=0, lt=2**31)]


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)


class _Record(_Model):
    code: Annotated[str, pydantic.AfterValidator(_code)]
    severity: str
    message: str
    file: _Name
    line: _Position
    column: _Position
    notes: list[str]
    hint: str
    text: str


class _Cluster(_Model):
    name: _Name
    state: _Name | None
    inventories: list[_Name]
    onInventories: list[_Record]  # noqa: N815 - as in the file
    onPolicies: list[_Record]  # noqa: N815
    onNodes: list[_Record]  # noqa: N815


class _File(_Model):
    release: Annotated[str, pydantic.AfterValidator(_own_release)]
    shard: str
    documents: str
    check: bool
    files: list[_Name]
    clusters: list[_Cluster]
    removed: list[_Name]
    findings: list[_Record]


def read(path: str) -> Found:
    """Return what a shard found. Raises WorldError for a file that no shard of this release has written."""
    content = document_files.read(document_files.Input(path, Path(path)))
    try:
        return _parsed(_File.model_validate_json(content))
    except ValueError as error:
        raise errors.RefusedError(
            f"'{wording.file_name(path)}' is not what `kae compile --findings` of this version writes.",
            hint="Name the files of all shards, each by one version of kae.",
        ) from error


def _parsed(data: _File) -> Found:
    return Found(
        shard=shards.parse(data.shard),
        documents=data.documents,
        is_check=data.check,
        files=frozenset(data.files),
        clusters=list(map(_planned, data.clusters)),
        removed=data.removed,
        others=_findings(data.findings),
    )


def _planned(data: _Cluster) -> planned.Planned[str]:
    return planned.Planned(
        name=data.name,
        inventories=tuple((file, data.name) for file in data.inventories),
        on_inventories=_findings(data.onInventories),
        on_policies=_findings(data.onPolicies),
        on_nodes=_findings(data.onNodes),
        answer=data.state,
    )


def _findings(records: Iterable[_Record]) -> diagnostics.Findings:
    return tuple(diagnostic_formats.from_record(record.model_dump()) for record in records)


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
