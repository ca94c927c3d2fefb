"""`kae compile`: compile policies/ and inventory/ into output/, or with --check compare output/ with the documents.

The cache answers the whole call where nothing changed, and otherwise the clusters whose documents and output are
unchanged. Heavy modules are imported only when something has to be compiled.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from compiler import cli, diagnostics, names, wording
from compiler.checks.output import foreign as foreign_checks
from compiler.cli import findings
from compiler.commands import compile_answer
from compiler.output import cache, foreign, scan, tree
from compiler.project import compile_call, package_data, project_file

if TYPE_CHECKING:
    from compiler.changes import acceptance
    from compiler.changes import objects as object_changes
    from compiler.fleet import definitions
    from compiler.output import write
    from compiler.planning import plan
    from compiler.rendering import layout


def run(arguments: argparse.Namespace) -> int:
    """Compile or check, print the result, and return the exit code."""
    call = compile_call.Call(arguments)
    code = _unchanged(call)
    return _compiled(call) if code is None else code


def _unchanged(call: compile_call.Call) -> int | None:
    """Return the exit code of an earlier call if neither documents nor output have changed since."""
    overall = call.cache.overall
    wanted = sorted(call.arguments.cluster or call.cache.clusters)
    if overall is None or overall.key != call.overall or not all(map(call.is_current, wanted)):
        return None
    if not call.arguments.cluster and (
        scan.stale_clusters(call.output, wanted)
        or (foreign.entries(call.output, wanted, call.settings.extra) and call.unmerged)
    ):
        return None
    if foreign.engine_files(call.output, call.cache.clusters, call.settings.extra, skipped=wanted):
        return None
    if call.cache.digests.changed:
        call.save(call.cache)
    rows = [(name, "fine" if call.arguments.check else "unchanged") for name in wanted]
    return compile_answer.end(call, compile_call.recorded(overall), compile_answer.Done(rows, ()))


def _compiled(call: compile_call.Call) -> int:
    """Read the documents that changed, compile their clusters, and return the exit code."""
    from compiler import pipeline  # noqa: PLC0415 - only here is there something to compile
    from compiler.changes import acceptance  # noqa: PLC0415 - only here is there something to compile
    from compiler.checks.output import changes as change_checks  # noqa: PLC0415 - only here there is something to compile

    current = {item.name: names.stem(item.name) for item in call.inventories if call.is_current(names.stem(item.name))}
    fleet, on_documents = _read(call, current)
    outcomes = _outcomes(call, fleet, set(current.values()))
    declared = [cluster.name for cluster in fleet.clusters]
    stale = () if call.arguments.cluster else scan.stale_clusters(call.output, declared, call.unmerged)
    kept = [*project_file.of_outputs(call.settings, stale)]
    stale = tuple(name for name in stale if name not in call.settings.extra)
    removed = [change_checks.removed_cluster(call.settings.output, name) for name in stale]
    on_clusters = pipeline.settle(fleet, {item.name: item.findings for item in outcomes})
    found = diagnostics.merged([*on_documents, *kept, *removed, *on_clusters])
    removals = [*_removed_clusters(call, stale), *(removal for item in outcomes for removal in item.removals)]
    # A check has nothing to ask: the output that it compares with has been accepted.
    refused = [item.told() for item in removals if not item.is_accepted(call.arguments.accept)]
    refused = [] if call.arguments.check else refused
    stops = diagnostics.has_errors(call.settings.with_severities(refused))
    changes = [] if stops else [finding for item in outcomes for finding in item.changes]
    shown = diagnostics.merged([*found, *refused, *changes])
    if not diagnostics.has_errors(call.settings.with_severities(found)):
        findings.tell_unused(call.arguments.accept, acceptance.Removal, removals)
    if findings.concluded(call.arguments, shown):
        findings.show(call.arguments, shown, clusters=[], changes=[], foreign=[], extra=[])
        return cli.WRONG
    gone = _removed_objects(call, stale)
    done = (_check if call.arguments.check else _write)(call, outcomes, stale)
    # Of a cluster whose removal was interrupted, nothing may be left but the index.
    changed = [item for item in (*(item.objects for item in outcomes), *gone) if item]
    done = done._replace(changes=changed)
    # The cache must not answer for an empty inventory, which a check lets pass and a compile asks for each time.
    is_whole = not call.arguments.accept and all(
        item.name in current or names.stem(item.name) in fleet.inventories for item in call.inventories
    )
    if is_whole and (not call.arguments.check or all(state == "fine" for _, state in done.rows)):
        call.remember(outcomes, found)
    return compile_answer.end(call, diagnostics.merged([*shown, *done.foreign]), done)


def _read(call: compile_call.Call, current: Mapping[str, str]) -> tuple["definitions.Fleet", diagnostics.Findings]:
    """Return the fleet without the inventories that are current, and the findings."""
    from compiler.project import load, output_in_git  # noqa: PLC0415 - only where something has to be compiled

    changed = [item for item in call.inputs if item.name not in current]
    # A check has nothing to ask.
    accepted = ["inventory-empty"] if call.arguments.check else call.arguments.accept
    fleet, found = load.fleet_of(changed, call.findings, current, accepted, settings=call.settings)
    load.require_clusters(call.arguments.cluster, fleet.clusters)
    clean = frozenset(current.values())
    # A merge may leave the kustomization.yaml of a cluster that one branch has removed.
    known = load.names_of(fleet) | output_in_git.clusters(call.unmerged)
    on_output = foreign.engine_files(call.output, known, call.settings.extra, skipped=clean)
    return fleet, (*found, *foreign_checks.engine_files(str(call.output), on_output))


def _outcomes(call: compile_call.Call, fleet: "definitions.Fleet", current: set[str]) -> list[compile_call.Outcome]:
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
            outcome = compile_call.Outcome(
                name=cluster.name, key=key, tree=None, digest=record.tree, findings=compile_call.recorded(record)
            )
        else:
            outcome = _outcome(call, fleet, cluster, render if fleet.sound else None)
        outcomes.append(outcome)
    _progress(0, 0, "")
    return outcomes


def _outcome(
    call: compile_call.Call, fleet: "definitions.Fleet", cluster: "definitions.Cluster", render: "layout.Render | None"
) -> compile_call.Outcome:
    """Plan a cluster, and render it if `render` is given and there are no errors."""
    from compiler import pipeline  # noqa: PLC0415 - only where something has to be compiled

    key = call.cluster_key(cluster.name)
    planned, found = pipeline.plan_cluster(fleet, cluster)
    if render is None or diagnostics.has_errors(call.settings.with_severities(found)):
        return compile_call.Outcome(name=cluster.name, key=key, tree=None, digest="", findings=found)
    compiled, rendered = pipeline.render_cluster(planned, render, call.settings.applied)
    removals, changes, objects = _compared(call, fleet, planned, compiled, rendered)
    return compile_call.Outcome(
        name=cluster.name,
        key=key,
        tree=compiled,
        digest=cache.tree_digest(compiled),
        findings=found,
        removals=removals,
        changes=changes,
        objects=objects,
    )


def _compared(
    call: compile_call.Call,
    fleet: "definitions.Fleet",
    planned: "plan.Plan",
    compiled: tree.Tree,
    rendered: Iterable["layout.Object"],
) -> tuple[tuple["acceptance.Removal", ...], diagnostics.Findings, "object_changes.Objects"]:
    """Return what the compile takes away from a cluster, the findings on other changes, and what changes by object."""
    from compiler import pipeline  # noqa: PLC0415 - only where something has to be compiled
    from compiler.changes import objects as object_changes  # noqa: PLC0415
    from compiler.changes.output import comparison, deployed  # noqa: PLC0415
    from compiler.checks.output import removals  # noqa: PLC0415

    by_path = {item.path: item.data for item in rendered}
    seen = scan.look(call.output, compiled.cluster, by_path, call.unmerged)
    sides = deployed.earlier(seen, compiled, by_path)
    after = deployed.Deployed(index=compiled.index(), objects=by_path)
    stood = sides[0] if sides else deployed.unrecorded(seen, compiled, by_path)
    objects = object_changes.changed(compiled.cluster, stood, after, planned.inventory.nodes)
    folder = f"{call.settings.output}/{compiled.cluster}"
    if not sides and compiled.cluster in call.tracked:
        return (removals.lost(folder, compiled.cluster, is_damaged=seen.index is not None),), (), objects
    found = [
        pipeline.check_changes(
            comparison.Change(
                folder=folder,
                before=before,
                after=after,
                planned=planned,
                policies=fleet.policies,
                removed_percent=call.settings.limits.removed_percent,
            )
        )
        for before in sides
    ]
    taken = dict.fromkeys(removal for removed, _ in found for removal in removed)
    return tuple(taken), tuple(dict.fromkeys(finding for _, changes in found for finding in changes)), objects


def _removed_clusters(call: compile_call.Call, stale: Iterable[str]) -> Iterable["acceptance.Removal"]:
    """Yield what goes with the output of clusters that are no longer declared."""
    from compiler.checks.output import removals  # noqa: PLC0415 - only here is there something to compile

    for name in stale:
        recorded = scan.recorded(call.output, name)
        if recorded is not None:
            yield from removals.removed_policies(call.settings.output, name, recorded)


def _removed_objects(call: compile_call.Call, stale: Iterable[str]) -> list["object_changes.Objects"]:
    """Return the objects that go with the output of clusters that are no longer declared."""
    from compiler.changes import objects  # noqa: PLC0415 - only here is there something to compile
    from compiler.changes.output import deployed  # noqa: PLC0415 - only here is there something to compile

    looks = ((name, scan.look(call.output, name, ())) for name in stale)
    found = ((name, deployed.earlier(seen, tree.Tree.of(name, {}), {})) for name, seen in looks)
    return [objects.removed(name, sides[0]) for name, sides in found if sides]


def _progress(number: int, total: int, name: str) -> None:
    """Show the progress through a fleet in one line, on terminals only; the last call clears it."""
    if sys.stderr.isatty() and total != 1:
        sys.stderr.write(f"\r\x1b[Kcompiling {number}/{total} {name}" if total else "\r\x1b[K")
        sys.stderr.flush()


def _write(
    call: compile_call.Call, outcomes: list[compile_call.Outcome], stale: tuple[str, ...]
) -> compile_answer.Done:
    from compiler.output import write  # noqa: PLC0415 - a check does not write

    trees = [item.tree for item in outcomes if item.tree]
    written = write.write_trees(call.output, trees, removed=stale, unmerged=call.unmerged)
    changes = {item.cluster: item for item in written}
    rows = []
    for item in outcomes:
        change = changes.get(item.name)
        rows.append((item.name, _written(change) if change else "unchanged"))
    rows.extend((name, "removed") for name in stale)
    others = [foreign_checks.files(f"{call.output}/{item.cluster}", item.foreign) for item in written]
    return compile_answer.Done(rows, tuple(finding for found in others for finding in found))


def _written(change: "write.Written") -> str:
    if change.written or change.removed:
        return f"{wording.counted(len(change.written), 'file')} written, {len(change.removed)} removed"
    return "index.json rewritten" if change.new_index else "unchanged"


def _check(
    call: compile_call.Call, outcomes: list[compile_call.Outcome], stale: tuple[str, ...]
) -> compile_answer.Done:
    from compiler.output import diff as output_diff  # noqa: PLC0415 - only a check compares

    rows: list[tuple[str, str]] = []
    strangers: list[diagnostics.Diagnostic] = []
    diffs: list[str] = []
    for item in outcomes:
        if item.tree is None:
            rows.append((item.name, "fine"))
            continue
        state = scan.state(call.output, item.tree, call.unmerged)
        folder = call.output / item.name
        strangers.extend(foreign_checks.files(str(folder), state.foreign))
        diffs.extend(output_diff.unified(str(folder), difference) for difference in state.differences)
        rows.append((item.name, state.kind))
    rows.extend((name, "removed") for name in stale)
    return compile_answer.Done(rows, tuple(strangers), "".join(diffs))
