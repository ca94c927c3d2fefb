"""The compile of the clusters that the cache does not answer for, whose modules no other call imports."""

import functools
import itertools
import sys
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from compiler import diagnostics, pipeline, wording
from compiler.changes import acceptance, pods, sides
from compiler.checks.change import OutputChange
from compiler.checks.output import changes as change_checks
from compiler.checks.output import foreign as foreign_checks
from compiler.cli import findings
from compiler.commands import compile as answer
from compiler.fleet import definitions
from compiler.output import cache, diff, index_file, scan, tree
from compiler.packing import Packed
from compiler.planning import plan
from compiler.project import compile_call, load, package_data, project_file
from compiler.project.by_cluster import planned, workers
from compiler.rendering import layout, templates
from compiler.views import object_changes as view

_Run = planned.Run[compile_call.Outcome]


def run(call: compile_call.Call) -> int:
    made, on_output = _made(call, frozenset(filter(call.is_current, call.inventories_of)))
    stale, on_stale = _stale(call, made.fleet)
    on_output = [*on_output, *on_stale]
    found = diagnostics.merged([*made.findings, *on_output])
    on_changes = _on_changes(call, made, stale, found)
    shown = diagnostics.merged([*found, *on_changes])
    if findings.concluded(call.arguments, shown):
        _leave_findings(call, made, [*on_output, *on_changes], [])
    findings.require_fine(call.arguments, shown, clusters=[], changes=[], foreign=[], extra=[])
    gone = _removed_objects(call, stale)
    done = (_check if call.arguments.check else _write)(call, made.answers, stale)
    done = done._replace(
        changes=[*(item.objects for item in made.answers if item.objects), *gone],
        strangers=answer.strangers(call, done.rows),
    )
    _remember(call, made, found, done)
    _leave_findings(call, made, [*on_output, *on_changes, *done.foreign, *done.strangers], done.rows)
    return answer.end(call, [*shown, *done.foreign], done)


def _on_changes(
    call: compile_call.Call, made: _Run, stale: Collection[str], found: diagnostics.Findings
) -> list[diagnostics.Diagnostic]:
    """Return the removals that nobody accepts; if none of them stops the call, also the findings on other changes."""
    taken: list[acceptance.Acceptable] = []
    broken = {item.span.file for item in found if item.severity == "error"}
    unread = {Path(item.name).stem for item in call.inventories if item.name in broken}
    for name in stale:
        # Of a cluster whose inventory is there and cannot be read, nothing goes.
        if name not in unread and (recorded := scan.recorded(call.output, name)) is not None:
            before = _gone(call, name)
            cleaning = {owner.policy for owner in before.cleaning} if before else set[str]()
            taken += change_checks.removed_policies(call.settings.output, name, recorded, cleaning)
    taken += (removal for item in made.answers for removal in item.removals)
    if not call.settings.has_errors(found):
        findings.tell_unused(call.arguments.accept, acceptance.REMOVALS, taken)
    # A check has nothing to ask: the output that it compares with has been accepted.
    asked = () if call.arguments.check else taken
    refused = [item.told() for item in asked if not item.is_accepted(call.arguments.accept)]
    if call.settings.has_errors(refused):
        return refused
    return [*refused, *(finding for item in made.answers for finding in item.changes)]


def _remember(call: compile_call.Call, made: _Run, found: diagnostics.Findings, done: answer.Done) -> None:
    """Save the results for the next call if output/ is as they say."""
    # The cache must not answer for an empty inventory, which a check lets pass and a compile asks for each time.
    accepted = {file for each in made.asked for file, _ in each.inventories}
    is_whole = not call.arguments.accept and all(item.name in accepted for item in call.inventories)
    if is_whole and (not call.arguments.check or all(state == "fine" for _, state in done.rows)):
        call.remember(made.answers, found)


def _leave_findings(
    call: compile_call.Call, made: _Run, others: Sequence[diagnostics.Diagnostic], rows: Sequence[tuple[str, str]]
) -> None:
    """Write the file for `kae merge-findings` if the call names one; `rows` are the states of the clusters."""
    if call.arguments.findings_file is None:
        return
    from compiler.project.by_cluster import shard_files  # noqa: PLC0415 - only a shard writes it

    states = dict(rows)
    asked = {each.name for each in made.asked}
    found = shard_files.Found(
        shard=str(call.shard),
        documents=call.documents,
        is_check=call.arguments.check,
        files=tuple(sorted(item.name for item in call.inventories)),
        clusters=tuple(shard_files.Cluster.of(each, states.get(each.name)) for each in made.asked),
        removed=tuple(name for name, _ in rows if name not in asked),
        others=shard_files.records(others),
    )
    shard_files.write(Path(call.arguments.findings_file), found)


def _stale(call: compile_call.Call, fleet: definitions.Fleet) -> tuple[tuple[str, ...], list[diagnostics.Diagnostic]]:
    """Return the clusters of the call that have output and are no longer declared, and the findings on them."""
    if call.arguments.cluster:
        return (), []
    declared = [cluster.name for cluster in fleet.clusters]
    every = call.shard.of(scan.stale_clusters(call.output, declared, call.unmerged))
    stale = tuple(name for name in every if name not in call.settings.extra)
    left = ((name, before.left if (before := _gone(call, name)) else ()) for name in stale)
    removed = (change_checks.removed_cluster(call.settings.output, name, own) for name, own in left)
    return stale, [*project_file.of_outputs(call.settings, every), *removed]


def _made(call: compile_call.Call, clean: Collection[str]) -> tuple[_Run, Sequence[diagnostics.Diagnostic]]:
    """Return the clusters of the call, `clean` ones as the cache says, and the findings on files in output/."""
    # A check has nothing to ask.
    accepted = ["inventory-empty"] if call.arguments.check else call.arguments.accept
    project = load.project(call.settings, (call.inputs, call.findings), accepted)
    load.require_clusters(call.arguments.cluster, project.fleet.clusters)
    # Processes that are started before git is asked would all ask it the same.
    _ = call.tracked, call.told
    chosen = [item for item in project.fleet.clusters if call.takes(item.name)]
    render = templates.renderer(package_data.templates(), package_data.code())
    total, shown = len(chosen), itertools.count(len(clean) + 1)
    run = planned.of_clusters(
        project,
        [item for item in chosen if item.name not in clean],
        functools.partial(_outcome, call, project, render),
        workers.Crew(call.arguments.jobs, lambda name: _progress(next(shown), total, name)),
        [_recorded(call, name) for name in sorted(clean)],
    )
    _progress(0, 0, "")
    skipped = {*clean, *(item.name for item in run.fleet.clusters if not call.shard.takes(item.name))}
    return run, load.on_output(call.settings, run.fleet, skipped, lambda: call.unmerged)


def _recorded(call: compile_call.Call, name: str) -> planned.Planned[compile_call.Outcome]:
    """Return a cluster that is as the cache records it."""
    record = call.cache.clusters[name]
    found = compile_call.recorded(record)
    return planned.Planned(
        name=name,
        inventories=tuple((item.name, name) for item in call.inventories_of[name]),
        on_policies=found,
        answer=compile_call.Outcome(name=name, key=call.cluster_key(name), digest=record.tree, findings=found),
    )


def _progress(number: int, total: int, name: str) -> None:
    """Show the progress through a fleet in one line, on terminals only; the last call clears it."""
    if sys.stderr.isatty() and total != 1:
        sys.stderr.write(f"\r\x1b[Kcompiling {number}/{total} {name}" if total else "\r\x1b[K")
        sys.stderr.flush()


def _write(call: compile_call.Call, outcomes: Sequence[compile_call.Outcome], stale: Collection[str]) -> answer.Done:
    from compiler.output import write  # noqa: PLC0415 - a check does not write

    crew = workers.Crew(call.arguments.jobs)
    trees = [item.compiled for item in outcomes if item.compiled]
    written = write.write_trees(call.output, [*trees, *stale], told=call.told, each=crew.each)
    call.remember_written(written)
    states = {item.name: "unchanged" for item in outcomes}
    for change in written:
        if change.cluster not in states:
            continue
        if change.written or change.removed:
            files = wording.counted(len(change.written), "file")
            states[change.cluster] = f"{files} written, {len(change.removed)} removed"
        elif change.new_index:
            states[change.cluster] = "index.json rewritten"
    rows = [*states.items(), *((name, "removed") for name in stale)]
    return answer.Done(rows, _foreign(call, ((item.cluster, item.foreign) for item in written)))


def _check(call: compile_call.Call, outcomes: Sequence[compile_call.Outcome], stale: Collection[str]) -> answer.Done:
    rows = [*((item.name, item.state) for item in outcomes), *((name, "removed") for name in stale)]
    strangers = _foreign(call, ((item.name, item.foreign) for item in outcomes))
    return answer.Done(rows, strangers, tuple(item.diff for item in outcomes if item.diff))


def _foreign(call: compile_call.Call, files: Iterable[tuple[str, Iterable[str]]]) -> diagnostics.Findings:
    found = (foreign_checks.files(f"{call.output}/{name}", own) for name, own in files)
    return tuple(finding for own in found for finding in own)


def _outcome(
    call: compile_call.Call,
    project: load.Project,
    render: layout.Render,
    cluster_plan: plan.Plan,
    found: diagnostics.Findings,
) -> compile_call.Outcome:
    """Return what a planned cluster compiles to, compared with its output. Raises WorldError."""
    compiled, rendered = pipeline.render_cluster(cluster_plan, render, call.settings.applied)
    removed, changes, objects = _compared(call, project, cluster_plan, compiled, rendered)
    made: dict[str, Any]
    if call.arguments.check:
        state = scan.state(call.output, compiled, call.told)
        folder = f"{call.output}/{compiled.cluster}"
        texts = "".join(diff.unified(folder, difference) for difference in state.differences)
        made = {"state": state.kind, "foreign": state.foreign, "diff": Packed.of(texts)}
    else:
        # What waits for other clusters, or comes from another process, should be small.
        made = {"compiled": Packed.of(compiled) if len(call.inventories_of) > 1 else compiled}
    return compile_call.Outcome(
        name=compiled.cluster,
        key=call.cluster_key(compiled.cluster),
        digest=cache.tree_digest(compiled),
        findings=found,
        removals=removed,
        changes=(*changes, *pipeline.check_objects(cluster_plan, rendered)),
        objects=view.said(objects, for_programs=call.arguments.shape != "text"),
        **made,
    )


def _compared(
    call: compile_call.Call,
    project: load.Project,
    cluster_plan: plan.Plan,
    compiled: tree.Tree,
    rendered: Iterable[layout.Object],
) -> tuple[tuple[acceptance.Acceptable, ...], diagnostics.Findings, pods.Compiled]:
    """Return the removals of a compile from a cluster, the findings on its other changes, and the changes by object."""
    by_path = {item.path: item.data for item in rendered}
    seen = scan.look(call.output, compiled.cluster, by_path, call.told)
    earlier = sides.earlier(seen, compiled, by_path)
    after = sides.of_output(compiled.index, by_path)
    stood = earlier[0] if earlier else sides.unrecorded(seen, compiled, by_path)
    objects = pods.compiled(stood, after, cluster_plan)
    folder = f"{call.settings.output}/{compiled.cluster}"
    if not earlier and compiled.cluster in call.tracked:
        if seen.index is not None:
            return (change_checks.damaged_index(folder, compiled.cluster),), (), objects
        return (_lost(call, folder, compiled.cluster),), (), objects
    found = [
        pipeline.check_changes(
            OutputChange(
                cluster=compiled.cluster,
                folder=folder,
                before=before,
                after=after,
                planned=cluster_plan,
                policies=project.fleet.policies,
                empty=project.empty_policies,
                removed_percent=call.settings.limits.removed_percent,
            )
        )
        for before in earlier
    ]
    removed = tuple(dict.fromkeys(removal for removed, _ in found for removal in removed))
    return removed, tuple(dict.fromkeys(finding for _, changes in found for finding in changes)), objects


def _lost(call: compile_call.Call, folder: str, cluster: str) -> acceptance.Acceptable:
    """Return the removal that the output of a cluster is not on the disk; where there is none at all, that is one."""
    if scan.is_missing(call.output):
        return change_checks.lost(cluster, call.settings.output, call.settings.output)
    gone = folder if scan.is_missing(call.output / cluster) else f"{folder}/{index_file.NAME}"
    return change_checks.lost(cluster, gone, folder)


def _removed_objects(call: compile_call.Call, clusters: Collection[str]) -> list[view.Said]:
    """Return the objects that go with the output of clusters that are no longer declared."""
    found = ((name, _gone(call, name)) for name in clusters)
    gone = (pods.removed(name, before) for name, before in found if before)
    # Of a cluster whose removal was interrupted, nothing may be left but the index.
    said = (view.said(change, for_programs=call.arguments.shape != "text") for change in gone)
    return [change for change in said if change]


def _gone(call: compile_call.Call, cluster: str) -> sides.Output | None:
    """Return the output, as it stands, of a cluster that is no longer declared; None where nothing is recorded."""
    found = sides.earlier(scan.look(call.output, cluster, ()), tree.Tree.of(cluster, {}), {})
    return found[0] if found else None
