"""`kae compile`: compile policies/ and inventory/ into output/, or with --check compare output/ with the documents.

The cache answers the whole call where nothing changed, and otherwise the clusters whose documents and output are
unchanged. Heavy modules are imported only when something has to be compiled.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compiler import cli, diagnostic_formats, diagnostics, errors, names, settings, wording
from compiler.commands import findings
from compiler.output import cache, scan, tree
from compiler.project import document_files, package_data, project_file

if TYPE_CHECKING:
    from compiler.changes import comparison
    from compiler.fleet import definitions
    from compiler.output import write
    from compiler.planning import plan
    from compiler.rendering import layout

Findings = tuple[diagnostics.Diagnostic, ...]


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
    findings: Findings
    """Those on its documents and nodes."""
    removals: tuple["comparison.Removal", ...] = ()
    changes: Findings = ()
    """Findings on the earlier output; the cache keeps neither, as they are shown once."""


class _Call:
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
        self.overall = cache.key(base, self.sums, sorted(arguments.cluster), _records(self.findings))
        folders = tuple(f"{document_files.name_of(folder)}/" for folder in self.settings.inventories)
        self.inventories = tuple(item for item in self.inputs if item.name.startswith(folders))
        self.shared = cache.key(base, {n: s for n, s in self.sums.items() if not n.startswith(folders)})

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

    def remember(self, outcomes: Iterable[Outcome], found: Findings) -> None:
        """Save the results for the next call, unless a document was edited in the meantime."""
        if self._sums() != self.sums:
            return
        kept = dict(self.cache.clusters) if self.arguments.cluster else {}
        for item in outcomes:
            kept[item.name] = cache.Record(key=item.key, diagnostics=_records(item.findings), tree=item.digest)
        overall = cache.Record(key=self.overall, diagnostics=_records(found))
        self.save(cache.Cache(digests=self.cache.digests, overall=overall, clusters=kept, settings=self.file_data))

    def save(self, state: cache.Cache) -> None:
        """Write the cache, unless the call forbids it."""
        if not self.arguments.no_cache:
            cache.save(Path(), state)


def _records(found: Iterable[diagnostics.Diagnostic]) -> tuple[Mapping[str, object], ...]:
    return tuple(diagnostic_formats.to_record(finding) for finding in found)


def _recorded(record: cache.Record) -> Findings:
    return tuple(diagnostic_formats.from_record(finding) for finding in record.diagnostics)


def _output(stated: settings.Settings) -> Path:
    """Return the folder to write to. Raises WorldError for one whose files the next call would read as documents."""
    folder = Path(stated.output)
    inputs = [Path(name).resolve() for name in (stated.policies, *stated.inventories)]
    if not stated.output or any(folder.resolve().is_relative_to(path) for path in inputs):
        raise errors.WorldError(
            f"output cannot be written to '{stated.output}'.",
            hint="Name a folder outside of the documents' folders.",
        )
    return folder


def run(arguments: argparse.Namespace) -> int:
    """Compile or check, print the result, and return the exit code."""
    call = _Call(arguments)
    code = _unchanged(call)
    return _compiled(call) if code is None else code


def _unchanged(call: _Call) -> int | None:
    """Return the exit code of an earlier call if neither documents nor output have changed since."""
    overall = call.cache.overall
    wanted = sorted(call.arguments.cluster or call.cache.clusters)
    if overall is None or overall.key != call.overall or not all(map(call.is_current, wanted)):
        return None
    if not call.arguments.cluster and scan.stale_clusters(call.output, wanted):
        return None
    if call.cache.digests.changed:
        call.save(call.cache)
    rows = [(name, "fine" if call.arguments.check else "unchanged") for name in wanted]
    return _end(call, _recorded(overall), _Done(rows, ()))


def _compiled(call: _Call) -> int:
    """Read the documents that changed, compile their clusters, and return the exit code."""
    from compiler.checks import output as output_checks  # noqa: PLC0415 - only here is there something to compile

    current = {item.name: names.stem(item.name) for item in call.inventories if call.is_current(names.stem(item.name))}
    fleet, on_documents = _read(call, current)
    outcomes = _outcomes(call, fleet, set(current.values()))
    declared = [cluster.name for cluster in fleet.clusters]
    stale = () if call.arguments.cluster else scan.stale_clusters(call.output, declared)
    removed = [output_checks.removed_cluster(call.settings.output, name) for name in stale]
    on_clusters = [finding for item in outcomes for finding in item.findings]
    found = diagnostics.merged([*on_documents, *removed, *on_clusters])
    removals = [*_removed_clusters(call, stale), *(removal for item in outcomes for removal in item.removals)]
    # A check has nothing to ask: the output that it compares with has been accepted.
    refused = [item.finding for item in removals if not item.is_accepted(call.arguments.accept)]
    refused = [] if call.arguments.check else refused
    stops = diagnostics.has_errors(call.settings.weighed(refused))
    changes = [] if stops else [finding for item in outcomes for finding in item.changes]
    shown = diagnostics.merged([*found, *refused, *changes])
    if findings.concluded(call.arguments, shown):
        findings.show(call.arguments, shown, clusters=[])
        return cli.WRONG
    done = (_check if call.arguments.check else _write)(call, outcomes, stale)
    if not call.arguments.check or all(state == "fine" for _, state in done.rows):
        call.remember(outcomes, found)
    return _end(call, diagnostics.merged([*shown, *done.foreign]), done)


def _read(call: _Call, current: Mapping[str, str]) -> tuple["definitions.Fleet", Findings]:
    """Return the fleet without the inventories that are current, and the findings."""
    from compiler.project import load  # noqa: PLC0415 - only where something has to be compiled

    changed = [item for item in call.inputs if item.name not in current]
    accepted = call.arguments.accept
    fleet, found = load.fleet_of(changed, call.findings, current, accepted, stated=call.settings)
    load.require_clusters(call.arguments.cluster, fleet.clusters)
    return fleet, found


def _outcomes(call: _Call, fleet: "definitions.Fleet", current: set[str]) -> list[Outcome]:
    """Return the result for each selected cluster; nothing is rendered unless the documents are sound."""
    from compiler.rendering import templates  # noqa: PLC0415 - only where something has to be compiled

    render = templates.renderer(package_data.templates(), package_data.bytecode())
    selected = fleet.selected(call.arguments.cluster)
    outcomes = []
    for number, cluster in enumerate(selected, 1):
        _progress(number, len(selected), cluster.name)
        key = call.cluster_key(cluster.name)
        if cluster.name in current:
            record = call.cache.clusters[cluster.name]
            outcome = Outcome(name=cluster.name, key=key, tree=None, digest=record.tree, findings=_recorded(record))
        else:
            outcome = _outcome(call, fleet, cluster, render if fleet.sound else None)
        outcomes.append(outcome)
    _progress(0, 0, "")
    return outcomes


def _outcome(
    call: _Call, fleet: "definitions.Fleet", cluster: "definitions.Cluster", render: "layout.Render | None"
) -> Outcome:
    """Plan a cluster, and render it if `render` is given and there are no errors."""
    from compiler import pipeline  # noqa: PLC0415 - only where something has to be compiled

    key = call.cluster_key(cluster.name)
    planned, found = pipeline.plan_cluster(fleet, cluster)
    if render is None or diagnostics.has_errors(call.settings.weighed(found)):
        return Outcome(name=cluster.name, key=key, tree=None, digest="", findings=found)
    compiled, objects = pipeline.render_cluster(planned, render)
    removals, changes = _compared(call, fleet, planned, compiled, objects)
    return Outcome(
        name=cluster.name,
        key=key,
        tree=compiled,
        digest=cache.tree_digest(compiled),
        findings=found,
        removals=removals,
        changes=changes,
    )


def _compared(
    call: _Call,
    fleet: "definitions.Fleet",
    planned: "plan.Plan",
    compiled: tree.Tree,
    objects: Iterable["layout.Object"],
) -> tuple[tuple["comparison.Removal", ...], Findings]:
    """Return what the compile takes away from a cluster, and the findings on other changes for its nodes."""
    from compiler import pipeline  # noqa: PLC0415 - only where something has to be compiled
    from compiler.changes import comparison, deployed  # noqa: PLC0415

    by_path = {item.path: item.data for item in objects}
    seen = scan.look(call.output, compiled.cluster, by_path)
    before = deployed.earlier(seen, compiled, by_path)
    if before is None:
        return (), ()
    return pipeline.check_changes(
        comparison.Change(
            folder=f"{call.settings.output}/{compiled.cluster}",
            before=before,
            after=deployed.Deployed(index=compiled.index(), objects=by_path),
            planned=planned,
            policies=fleet.policies,
            removed_percent=call.settings.limits.removed_percent,
        )
    )


def _removed_clusters(call: _Call, stale: Iterable[str]) -> Iterable["comparison.Removal"]:
    """Yield what goes with the output of clusters that are no longer declared."""
    from compiler.checks import output as output_checks  # noqa: PLC0415 - only here is there something to compile

    for name in stale:
        recorded = scan.recorded(call.output, name)
        if recorded is not None:
            yield from output_checks.removed_policies(call.settings.output, name, recorded)


def _progress(number: int, total: int, name: str) -> None:
    """Show the progress through a fleet in one line, on terminals only; the last call clears it."""
    if sys.stderr.isatty() and total != 1:
        sys.stderr.write(f"\r\x1b[Kcompiling {number}/{total} {name}" if total else "\r\x1b[K")
        sys.stderr.flush()


class _Done(NamedTuple):
    """The result for output/: the state of each cluster, the foreign files, and the diff of a check."""

    rows: list[tuple[str, str]]
    foreign: Findings
    diff: str = ""


def _write(call: _Call, outcomes: list[Outcome], stale: tuple[str, ...]) -> _Done:
    from compiler.output import write  # noqa: PLC0415 - a check does not write

    trees = [item.tree for item in outcomes if item.tree]
    written = write.write_trees(call.output, trees, removed=stale)
    changes = {item.cluster: item for item in written}
    rows = []
    for item in outcomes:
        change = changes.get(item.name)
        rows.append((item.name, _written(change) if change else "unchanged"))
    rows.extend((name, "removed") for name in stale)
    return _Done(rows, tuple(finding for item in written for finding in item.foreign))


def _written(change: "write.Written") -> str:
    if change.written or change.removed:
        return f"{wording.counted(len(change.written), 'file')} written, {len(change.removed)} removed"
    return "index.json rewritten" if change.new_index else "unchanged"


def _check(call: _Call, outcomes: list[Outcome], stale: tuple[str, ...]) -> _Done:
    from compiler.output import diff as output_diff  # noqa: PLC0415 - only a check compares

    rows: list[tuple[str, str]] = []
    foreign: list[diagnostics.Diagnostic] = []
    diffs: list[str] = []
    for item in outcomes:
        if item.tree is None:
            rows.append((item.name, "fine"))
            continue
        state = scan.state(call.output, item.tree)
        folder = call.output / item.name
        foreign.extend(scan.foreign_files(folder, state.foreign))
        diffs.extend(output_diff.unified(str(folder), difference) for difference in state.differences)
        rows.append((item.name, state.kind))
    rows.extend((name, "removed") for name in stale)
    return _Done(rows, tuple(foreign), "".join(diffs))


_STATES = {
    "old": "output is not what the documents compile to",
    "incomplete": "a compile was interrupted and left output incomplete",
    "edited": "output was edited by hand",
    "removed": "output exists, but the cluster is no longer declared",
}


def _end(call: _Call, found: Findings, done: _Done) -> int:
    """Print the result and return the exit code; the states follow the diff, as `patch` and `git apply` skip them."""
    check = call.arguments.check
    clusters = [{"name": name, "state": state} for name, state in done.rows]
    lines = "".join(f"{name}: {_STATES.get(state, state) if check else state}\n" for name, state in done.rows)
    findings.show(call.arguments, found, done.diff + lines, clusters=clusters)
    if findings.concluded(call.arguments, found):
        return cli.WRONG
    return cli.DIFFERS if check and any(state != "fine" for _, state in done.rows) else cli.FINE
