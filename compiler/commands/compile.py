"""`kae compile`: policies/ and inventory/ to output/, or with --check whether output/ is what they compile to.

What earlier runs found out is taken from the cache: the whole answer where nothing changed, else the clusters
whose documents and output are as they were. Nothing heavy is imported until something has to be compiled.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compiler import cli, diagnostic_formats, diagnostics, errors, names
from compiler.checks import output as output_checks
from compiler.commands import findings
from compiler.output import cache, scan, tree
from compiler.project import discovery, document_files, package_data

if TYPE_CHECKING:
    from compiler.fleet import definitions


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a cluster: its tree, or None where the cache vouches for its output."""

    name: str
    key: str
    tree: tree.Tree | None
    diagnostics: tuple[diagnostics.Diagnostic, ...]
    digest: str
    """The digest of its output."""


class _Run:
    """One call: its arguments, its input files, and what is remembered of earlier calls."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.output = _output(arguments)
        self.inputs, self.notes = discovery.inputs(arguments.inventory)
        root = Path()
        self.cache = cache.Cache(digests=cache.Digests(root)) if arguments.no_cache else cache.load(root)
        digests = self.cache.digests
        self.sums = self._sums()
        code = (package_data.HERE, package_data.folder("templates"), package_data.folder("schemas"))
        self.base = cache.key(cache.fingerprint(digests, code), arguments.output, arguments.inventory)
        self.overall = cache.key(self.base, self.sums, sorted(arguments.cluster), [n.code for n in self.notes])
        folders = tuple(f"{document_files.name_of(folder)}/" for folder in arguments.inventory or [names.INVENTORY])
        self.inventories = tuple(item for item in self.inputs if item.name.startswith(folders))
        self.shared = cache.key(self.base, {n: s for n, s in self.sums.items() if not n.startswith(folders)})

    def _sums(self) -> dict[str, str]:
        return {item.name: document_files.digest(item, self.cache.digests.of) for item in self.inputs}

    def cluster_key(self, name: str) -> str:
        """What a cluster's output follows from: all documents but the inventories of other clusters."""
        own = {item.name: self.sums[item.name] for item in self.inventories if names.stem(item.name) == name}
        return cache.key(self.shared, own)

    def is_current(self, name: str) -> bool:
        """Whether the cache vouches for a cluster's documents and for its output on disk."""
        record = self.cache.clusters.get(name)
        return (
            record is not None
            and record.key == self.cluster_key(name)
            and cache.verify(self.cache.digests, self.output / name, record)
        )

    def remember(self, outcomes: Iterable[Outcome], found: tuple[diagnostics.Diagnostic, ...]) -> None:
        """Keep what was found out for the next call, unless a document was edited meanwhile."""
        if self._sums() != self.sums:
            return
        kept = dict(self.cache.clusters) if self.arguments.cluster else {}
        for item in outcomes:
            records = tuple(diagnostic_formats.to_record(note) for note in item.diagnostics)
            kept[item.name] = cache.Record(key=item.key, diagnostics=records, tree=item.digest)
        overall = cache.Record(
            key=self.overall, diagnostics=tuple(diagnostic_formats.to_record(note) for note in found)
        )
        self.save(cache.Cache(digests=self.cache.digests, overall=overall, clusters=kept))

    def save(self, state: cache.Cache) -> None:
        """Write the cache, unless the call shall leave none."""
        if not self.arguments.no_cache:
            cache.save(Path(), state)


def _output(arguments: argparse.Namespace) -> Path:
    """The folder to write to; raises WorldError for one whose files would be read as documents the next time."""
    folder = Path(arguments.output)
    inputs = [Path(name).resolve() for name in (names.POLICIES, *(arguments.inventory or [names.INVENTORY]))]
    if not arguments.output or any(folder.resolve().is_relative_to(place) for place in inputs):
        raise errors.WorldError(
            f"output cannot be written to '{arguments.output}'.",
            hint="Name a folder outside of the documents' folders.",
        )
    return folder


def run(arguments: argparse.Namespace) -> int:
    """Compiles, or checks, and says what came of it."""
    this = _Run(arguments)
    code = _unchanged(this)
    return _compiled(this) if code is None else code


def _unchanged(this: _Run) -> int | None:
    """The answer of an earlier call where neither documents nor output have changed since."""
    overall = this.cache.overall
    wanted = sorted(this.arguments.cluster or this.cache.clusters)
    if overall is None or overall.key != this.overall or not all(map(this.is_current, wanted)):
        return None
    if not this.arguments.cluster and scan.stale_clusters(this.output, wanted):
        return None
    if this.cache.digests.changed:
        this.save(this.cache)
    found = tuple(diagnostic_formats.from_record(record) for record in overall.diagnostics)
    return _end(this, found, [(name, "fine" if this.arguments.check else "unchanged") for name in wanted])


def _compiled(this: _Run) -> int:
    """The answer for documents that have to be read, at least some of them."""
    current = {item.name: names.stem(item.name) for item in this.inventories if this.is_current(names.stem(item.name))}
    fleet, notes = _read(this, current)
    discovery.require_clusters(this.arguments.cluster, [cluster.name for cluster in fleet.clusters])
    outcomes = _outcomes(this, fleet, set(current.values()), sound=not diagnostics.has_errors(notes))
    declared = [cluster.name for cluster in fleet.clusters]
    stale = () if this.arguments.cluster else scan.stale_clusters(this.output, declared)
    notes.extend(_removed(this, stale))
    found = diagnostics.merged([*notes, *(note for item in outcomes for note in item.diagnostics)])
    # What output/ held before is told once, and not remembered.
    left = [note for item in outcomes if item.tree for note in _left(this, item.tree)]
    shown = diagnostics.merged([*found, *left])
    if findings.concluded(this.arguments, shown):
        findings.show(this.arguments, shown, clusters=[])
        return cli.WRONG
    done = (_check if this.arguments.check else _write)(this, outcomes, stale)
    if not this.arguments.check or all(state == "fine" for _, state in done.rows):
        this.remember(outcomes, found)
    return _end(this, diagnostics.merged([*shown, *done.foreign]), done.rows, done.diff)


def _read(this: _Run, current: Mapping[str, str]) -> tuple["definitions.Fleet", list[diagnostics.Diagnostic]]:
    """The fleet, without the inventories that the cache vouches for."""
    from compiler import schema  # noqa: PLC0415 - only here is there something to compile
    from compiler.project import load  # noqa: PLC0415

    notes = list(this.notes)
    wanted = [item for item in this.inputs if item.name not in current]
    return load.of(wanted, notes, schema.Judge(package_data.schemas()), current), notes


def _outcomes(this: _Run, fleet: "definitions.Fleet", current: set[str], *, sound: bool) -> list[Outcome]:
    """What became of each cluster that was asked for; only what `sound` documents say can be rendered."""
    from compiler import pipeline  # noqa: PLC0415
    from compiler.rendering import layout, templates  # noqa: PLC0415 - only here is there something to compile

    rendered = templates.renderer(package_data.templates(), package_data.bytecode())
    chosen = fleet.selected(this.arguments.cluster)
    outcomes = []
    for number, cluster in enumerate(chosen, 1):
        _progress(number, len(chosen), cluster.name)
        key = this.cluster_key(cluster.name)
        if cluster.name in current:
            record = this.cache.clusters[cluster.name]
            notes = tuple(diagnostic_formats.from_record(found) for found in record.diagnostics)
            outcome = Outcome(name=cluster.name, key=key, tree=None, diagnostics=notes, digest=record.tree)
        else:
            view, notes = pipeline.plan_cluster(fleet, cluster)
            made = None
            if sound and not diagnostics.has_errors(notes):
                plan = pipeline.cluster_plan(view)
                made = layout.tree(plan, layout.objects(plan, rendered))
            digest = cache.tree_digest(made) if made else ""
            outcome = Outcome(name=cluster.name, key=key, tree=made, diagnostics=notes, digest=digest)
        outcomes.append(outcome)
    _progress(0, 0, "")
    return outcomes


def _progress(number: int, total: int, name: str) -> None:
    """A line that shows how far a fleet is, on terminals only; it leaves no trace."""
    if sys.stderr.isatty() and total != 1:
        sys.stderr.write(f"\r\x1b[Kcompiling {number}/{total} {name}" if total else "\r\x1b[K")
        sys.stderr.flush()


def _removed(this: _Run, stale: Iterable[str]) -> Iterable[diagnostics.Diagnostic]:
    return (output_checks.removed_cluster(this.arguments.output, name) for name in stale)


def _left(this: _Run, wanted: tree.Tree) -> Iterable[diagnostics.Diagnostic]:
    recorded = scan.recorded(this.output, wanted.cluster)
    folder = str(this.output / wanted.cluster)
    return output_checks.left_drivers(folder, wanted.cluster, recorded.workloads if recorded else (), wanted.workloads)


class _Done(NamedTuple):
    """What became of output/: each cluster's state, what is not ours in it, and what a check found to differ."""

    rows: list[tuple[str, str]]
    foreign: tuple[diagnostics.Diagnostic, ...]
    diff: str = ""


def _write(this: _Run, outcomes: list[Outcome], stale: tuple[str, ...]) -> _Done:
    from compiler.output import write  # noqa: PLC0415 - a check has no use for it

    trees = [item.tree for item in outcomes if item.tree]
    written = write.write_trees(this.output, trees, removed=stale)
    changes = {item.cluster: item for item in written}
    rows = []
    for item in outcomes:
        change = changes.get(item.name)
        if change is None or not (change.written or change.removed):
            rows.append((item.name, "unchanged"))
        else:
            count = len(change.written)
            noun = "file" if count == 1 else "files"
            rows.append((item.name, f"{count} {noun} written, {len(change.removed)} removed"))
    rows.extend((name, "removed") for name in stale)
    return _Done(rows, tuple(note for item in written for note in item.foreign))


def _check(this: _Run, outcomes: list[Outcome], stale: tuple[str, ...]) -> _Done:
    from compiler.output import diff as output_diff  # noqa: PLC0415 - only a check compares

    rows: list[tuple[str, str]] = []
    foreign: list[diagnostics.Diagnostic] = []
    diffs: list[str] = []
    for item in outcomes:
        if item.tree is None:
            rows.append((item.name, "fine"))
            continue
        state = scan.state(this.output, item.tree)
        folder = this.output / item.name
        foreign.extend(scan.foreign_files(folder, state.foreign))
        diffs.extend(output_diff.unified(str(folder), difference) for difference in state.differences)
        rows.append((item.name, state.kind))
    rows.extend((name, "removed") for name in stale)
    return _Done(rows, tuple(foreign), "".join(diffs))


_STATES = {
    "old": "output is not what the documents compile to",
    "incomplete": "a compile was interrupted and left output incomplete",
    "edited": "output was edited by hand",
    "removed": "output is there, but the cluster is declared no more",
}


def _end(
    this: _Run,
    found: tuple[diagnostics.Diagnostic, ...],
    rows: Sequence[tuple[str, str]],
    diff: str = "",
) -> int:
    """Show what came of it and give the exit code; a diff has standard output for itself."""
    check = this.arguments.check
    clusters = [{"name": name, "state": state} for name, state in rows]
    lines = "".join(f"{name}: {_STATES.get(state, state) if check else state}\n" for name, state in rows)
    findings.show(this.arguments, found, diff if check else lines, clusters=clusters)
    if check and this.arguments.format != "json":  # which says it itself
        sys.stderr.write(lines)
    if findings.concluded(this.arguments, found):
        return cli.WRONG
    return cli.DIFFERS if check and any(state != "fine" for _, state in rows) else cli.FINE
