"""The files in which machines leave what they found, so that one of them can give the verdict on all clusters."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compiler import diagnostic_formats, diagnostics, errors, wording
from compiler.project import atomic, document_files
from compiler.project.by_cluster import planned, shards

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one shard found."""

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
        "version": _VERSION,
        "shard": str(found.shard),
        "documents": found.documents,
        "check": found.is_check,
        "files": sorted(found.files),
        "clusters": list(map(_cluster, found.clusters)),
        "removed": list(found.removed),
        "findings": _records(found.others),
    }
    atomic.write_file(path, [json.dumps(data, indent=1), "\n"])


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


def read(path: str) -> Found:
    """Return what a shard found. Raises WorldError for a file that no shard has written."""
    content = document_files.read(document_files.Input(path, Path(path)))
    try:
        return _parsed(json.loads(content))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise errors.RefusedError(
            f"'{wording.file_name(path)}' is not what `kae compile --findings` of this version writes.",
            hint="Name the files of all shards, each by one version of kae.",
        ) from error


def _parsed(data: Mapping[str, Any]) -> Found:
    if data["version"] != _VERSION:
        raise ValueError("another version")
    return Found(
        shard=shards.parse(data["shard"]),
        documents=str(data["documents"]),
        is_check=bool(data["check"]),
        files=frozenset(map(str, data["files"])),
        clusters=[_planned(cluster) for cluster in data["clusters"]],
        removed=list(map(str, data["removed"])),
        others=_findings(data["findings"]),
    )


def _planned(data: Mapping[str, Any]) -> planned.Planned[str]:
    name = str(data["name"])
    return planned.Planned(
        name=name,
        inventories=tuple((str(file), name) for file in data["inventories"]),
        on_inventories=_findings(data["onInventories"]),
        on_policies=_findings(data["onPolicies"]),
        on_nodes=_findings(data["onNodes"]),
        answer=data["state"],
    )


def _findings(records: Iterable[Mapping[str, Any]]) -> diagnostics.Findings:
    return tuple(map(diagnostic_formats.from_record, records))


def require_whole(found: Sequence[Found], documents: str, files: Iterable[str]) -> None:
    """Raise RefusedError unless all shards are there, of these documents and these files of inventories."""
    counts = {each.shard.count for each in found}
    if len(counts) > 1:
        of = wording.listed(str(count) for count in sorted(counts))
        raise errors.RefusedError(f"the files are of {of} shards.", hint="Name those of one run.")
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
