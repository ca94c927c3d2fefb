"""`kae compile`: compile policies/ and inventory/ into output/, or with --check compare output/ with the documents.

The cache answers the whole call where nothing changed, and otherwise the clusters whose documents and output are
unchanged. Heavy modules are imported only when something has to be compiled.
"""

import argparse
import functools
import itertools
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from compiler import cli, diagnostics, wording
from compiler.checks.output import foreign as foreign_checks
from compiler.cli import findings
from compiler.commands import compile_answer
from compiler.output import foreign, scan
from compiler.project import compile_call, package_data, project_file

if TYPE_CHECKING:
    from compiler.fleet import definitions
    from compiler.output import write
    from compiler.project.by_cluster import planned


class _Compiled(NamedTuple):
    """The clusters of a call, and the findings on all documents and outputs."""

    fleet: "definitions.Fleet"
    asked: Sequence["planned.Planned[compile_call.Outcome]"]
    """Also those that turned out to have no inventory and no KAECluster."""
    outcomes: Sequence[compile_call.Outcome]
    """Without clusters with errors."""
    findings: diagnostics.Findings
    """Those on documents and clusters."""
    on_output: diagnostics.Findings


def run(arguments: argparse.Namespace) -> int:
    """Compile or check, print the result, and return the exit code."""
    leaves_findings = arguments.findings_file is not None
    if leaves_findings and arguments.cluster:
        cli.parser().error("--findings is of a shard, or of all clusters.", "Leave --cluster out.")
    call = compile_call.Call(arguments)
    if leaves_findings:
        from compiler.project.by_cluster import shard_files  # noqa: PLC0415 - only a shard writes it

        shard_files.require_place(arguments.findings_file, call.settings, call.output)
        shard_files.forget(Path(arguments.findings_file))
    code = None if leaves_findings else _unchanged(call)  # The cache keeps the findings of all clusters together.
    return _compiled(call) if code is None else code


def _unchanged(call: compile_call.Call) -> int | None:
    """Return the exit code of an earlier call if neither documents nor output have changed since."""
    overall = call.cache.overall
    wanted = sorted(call.arguments.cluster or call.shard.of(call.cache.clusters))
    if overall is None or overall.key != call.overall or not all(map(call.is_current, wanted)):
        return None
    if not call.arguments.cluster and (
        call.shard.of(scan.stale_clusters(call.output, wanted))
        or (foreign.entries(call.output, wanted, call.settings.extra) and call.unmerged)
    ):
        return None
    if foreign.engine_files(call.output, call.cache.clusters, call.settings.extra, skipped=wanted):
        return None
    if call.cache.digests.changed:
        call.save(call.cache)
    rows = [(name, "fine" if call.arguments.check else "unchanged") for name in wanted]
    done = compile_answer.Done(rows, (), strangers=compile_answer.strangers(call, rows))
    return compile_answer.end(call, compile_call.recorded(overall), done)


def _compiled(call: compile_call.Call) -> int:
    """Read the documents that changed, compile their clusters, and return the exit code."""
    from compiler.commands import compile_cluster  # noqa: PLC0415 - only here is there something to compile

    made = _made(call, frozenset(filter(call.is_current, call.inventories_of)))
    stale, on_stale = _stale(call, made.fleet)
    found = diagnostics.merged([*made.findings, *made.on_output, *on_stale])
    on_changes = _on_changes(call, made, stale, found)
    shown = diagnostics.merged([*found, *on_changes])
    if findings.concluded(call.arguments, shown):
        _leave_findings(call, made, [*on_stale, *on_changes], [])
        findings.show(call.arguments, shown, clusters=[], changes=[], foreign=[], extra=[])
        return cli.WRONG
    gone = compile_cluster.removed_objects(call, stale)
    done = (_check if call.arguments.check else _write)(call, made.outcomes, stale)
    done = done._replace(
        changes=[*(item.objects for item in made.outcomes if item.objects), *gone],
        strangers=compile_answer.strangers(call, done.rows),
    )
    _remember(call, made, found, done)
    _leave_findings(call, made, [*on_stale, *on_changes, *done.foreign, *done.strangers], done.rows)
    return compile_answer.end(call, [*shown, *done.foreign], done)


def _on_changes(
    call: compile_call.Call, made: _Compiled, stale: Collection[str], found: diagnostics.Findings
) -> list[diagnostics.Diagnostic]:
    """Return the removals that nobody accepts; if none of them stops the call, also the findings on other changes."""
    from compiler.changes import acceptance  # noqa: PLC0415 - only where something has to be compiled
    from compiler.commands import compile_cluster  # noqa: PLC0415

    removals = [
        *compile_cluster.removed_policies(call, stale),
        *(removal for item in made.outcomes for removal in item.removals),
    ]
    if not call.settings.has_errors(found):
        findings.tell_unused(call.arguments.accept, acceptance.Removal, removals)
    # A check has nothing to ask: the output that it compares with has been accepted.
    asked = () if call.arguments.check else removals
    refused = [item.told() for item in asked if not item.is_accepted(call.arguments.accept)]
    if call.settings.has_errors(refused):
        return refused
    return [*refused, *(finding for item in made.outcomes for finding in item.changes)]


def _remember(call: compile_call.Call, made: _Compiled, found: diagnostics.Findings, done: compile_answer.Done) -> None:
    """Save the results for the next call if output/ is as they say."""
    # The cache must not answer for an empty inventory, which a check lets pass and a compile asks for each time.
    accepted = {file for each in made.asked for file, _ in each.inventories}
    is_whole = not call.arguments.accept and all(item.name in accepted for item in call.inventories)
    if is_whole and (not call.arguments.check or all(state == "fine" for _, state in done.rows)):
        call.remember(made.outcomes, found)


def _leave_findings(
    call: compile_call.Call, made: _Compiled, others: Sequence[diagnostics.Diagnostic], rows: Sequence[tuple[str, str]]
) -> None:
    """Write the file for `kae merge-findings` if the call names one; `rows` are the states of the clusters."""
    if call.arguments.findings_file is None:
        return
    from compiler.project.by_cluster import shard_files  # noqa: PLC0415 - only a shard writes it

    states = dict(rows)
    asked = {each.name for each in made.asked}
    found = shard_files.Found(
        shard=call.shard,
        documents=call.documents,
        is_check=call.arguments.check,
        files=frozenset(item.name for item in call.inventories),
        clusters=[each.with_answer(states.get(each.name)) for each in made.asked],
        removed=[name for name, _ in rows if name not in asked],
        others=(*made.on_output, *others),
    )
    shard_files.write(Path(call.arguments.findings_file), found)


def _stale(call: compile_call.Call, fleet: "definitions.Fleet") -> tuple[tuple[str, ...], list[diagnostics.Diagnostic]]:
    """Return the clusters of the call that have output and are no longer declared, and the findings on them."""
    if call.arguments.cluster:
        return (), []
    from compiler.checks.output import changes as change_checks  # noqa: PLC0415 - only where something is compiled

    declared = [cluster.name for cluster in fleet.clusters]
    every = call.shard.of(scan.stale_clusters(call.output, declared, call.unmerged))
    stale = tuple(name for name in every if name not in call.settings.extra)
    removed = (change_checks.removed_cluster(call.settings.output, name) for name in stale)
    return stale, [*project_file.of_outputs(call.settings, every), *removed]


def _made(call: compile_call.Call, clean: Collection[str]) -> _Compiled:
    """Return the clusters of the call; those that are `clean` are as the cache says."""
    from compiler.commands import compile_cluster  # noqa: PLC0415 - only where something has to be compiled
    from compiler.project import load  # noqa: PLC0415
    from compiler.project.by_cluster import planned, workers  # noqa: PLC0415
    from compiler.rendering import templates  # noqa: PLC0415

    # A check has nothing to ask.
    accepted = ["inventory-empty"] if call.arguments.check else call.arguments.accept
    project = load.project(call.settings, (call.inputs, call.findings), accepted)
    load.require_clusters(call.arguments.cluster, project.fleet.clusters)
    _ask_git(call)
    chosen = [item for item in project.fleet.clusters if call.takes(item.name)]
    render = templates.renderer(package_data.templates(), package_data.bytecode())
    total, shown = len(chosen), itertools.count(len(clean) + 1)
    run = planned.of_clusters(
        project,
        [item for item in chosen if item.name not in clean],
        functools.partial(compile_cluster.outcome, call, project.fleet.policies, render),
        workers.Crew(call.arguments.jobs, lambda name: _progress(next(shown), total, name)),
        [_recorded(call, name) for name in sorted(clean)],
    )
    _progress(0, 0, "")
    skipped = {*clean, *(item.name for item in run.fleet.clusters if not call.shard.takes(item.name))}
    on_output = load.on_output(call.settings, run.fleet, skipped, lambda: call.unmerged)
    return _Compiled(
        fleet=run.fleet,
        asked=run.asked,
        outcomes=run.answers,
        findings=run.findings,
        on_output=on_output,
    )


def _recorded(call: compile_call.Call, name: str) -> "planned.Planned[compile_call.Outcome]":
    """Return a cluster that is as the cache records it."""
    from compiler.project.by_cluster import planned  # noqa: PLC0415 - only where something has to be compiled

    record = call.cache.clusters[name]
    found = compile_call.recorded(record)
    return planned.Planned(
        name=name,
        inventories=tuple((item.name, name) for item in call.inventories_of[name]),
        on_policies=found,
        answer=compile_call.Outcome(name=name, key=call.cluster_key(name), digest=record.tree, findings=found),
    )


def _ask_git(call: compile_call.Call) -> None:
    """Ask git what each cluster needs to know before processes are started, which would all ask the same."""
    _ = call.tracked, call.unmerged


def _progress(number: int, total: int, name: str) -> None:
    """Show the progress through a fleet in one line, on terminals only; the last call clears it."""
    if sys.stderr.isatty() and total != 1:
        sys.stderr.write(f"\r\x1b[Kcompiling {number}/{total} {name}" if total else "\r\x1b[K")
        sys.stderr.flush()


def _write(
    call: compile_call.Call, outcomes: Sequence[compile_call.Outcome], stale: Collection[str]
) -> compile_answer.Done:
    from compiler.output import write  # noqa: PLC0415 - a check does not write
    from compiler.project.by_cluster import workers  # noqa: PLC0415

    crew = workers.Crew(call.arguments.jobs)
    trees = [item.compiled for item in outcomes if item.compiled]
    written = write.write_trees(call.output, [*trees, *stale], unmerged=call.unmerged, each=crew.each)
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
    call: compile_call.Call, outcomes: Sequence[compile_call.Outcome], stale: Collection[str]
) -> compile_answer.Done:
    rows = [(item.name, item.checked.state if item.checked else "fine") for item in outcomes]
    rows.extend((name, "removed") for name in stale)
    checked = [(item.name, item.checked) for item in outcomes if item.checked]
    others = [foreign_checks.files(f"{call.output}/{name}", each.foreign) for name, each in checked]
    strangers = tuple(finding for found in others for finding in found)
    return compile_answer.Done(rows, strangers, tuple(each.diff for _, each in checked))
