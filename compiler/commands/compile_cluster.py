"""The part of `kae compile` that is done for each cluster, in a worker process perhaps."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from compiler import diagnostics, pipeline
from compiler.changes import acceptance
from compiler.changes import objects as object_changes
from compiler.changes.output import comparison, deployed
from compiler.checks.output import removals
from compiler.fleet import definitions
from compiler.output import cache, diff, scan, tree
from compiler.packing import Packed
from compiler.planning import plan
from compiler.project import compile_call
from compiler.rendering import layout
from compiler.views import object_changes as view


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The removals of a compile from a cluster, the findings on its other changes, and the changes by object."""

    removals: tuple[acceptance.Removal, ...]
    changes: diagnostics.Findings
    objects: object_changes.Objects


def outcome(
    call: compile_call.Call,
    policies: tuple[definitions.Policy, ...],
    render: layout.Render,
    planned: plan.Plan,
    found: diagnostics.Findings,
) -> compile_call.Outcome:
    """Return what a planned cluster compiles to, compared with its output. Raises WorldError."""
    compiled, rendered = pipeline.render_cluster(planned, render, call.settings.applied)
    compared = _compared(call, policies, planned, compiled, rendered)
    is_check = call.arguments.check
    return compile_call.Outcome(
        name=compiled.cluster,
        key=call.cluster_key(compiled.cluster),
        digest=cache.tree_digest(compiled),
        findings=found,
        compiled=None if is_check else Packed.of(compiled),
        checked=_checked(call, compiled) if is_check else None,
        removals=compared.removals,
        changes=(*compared.changes, *pipeline.check_objects(planned, rendered)),
        objects=view.said(compared.objects, for_programs=call.arguments.shape != "text"),
    )


def _checked(call: compile_call.Call, compiled: tree.Tree) -> compile_call.Checked:
    state = scan.state(call.output, compiled, call.unmerged)
    folder = f"{call.output}/{compiled.cluster}"
    texts = "".join(diff.unified(folder, difference) for difference in state.differences)
    return compile_call.Checked(state=state.kind, foreign=state.foreign, diff=Packed.of(texts))


def _compared(
    call: compile_call.Call,
    policies: tuple[definitions.Policy, ...],
    planned: plan.Plan,
    compiled: tree.Tree,
    rendered: Iterable[layout.Object],
) -> Compared:
    by_path = {item.path: item.data for item in rendered}
    seen = scan.look(call.output, compiled.cluster, by_path, call.unmerged)
    sides = deployed.earlier(seen, compiled, by_path)
    after = deployed.Deployed(index=compiled.index(), objects=by_path)
    stood = sides[0] if sides else deployed.unrecorded(seen, compiled, by_path)
    objects = object_changes.changed(compiled.cluster, stood, after, planned)
    folder = f"{call.settings.output}/{compiled.cluster}"
    if not sides and compiled.cluster in call.tracked:
        lost = removals.lost(folder, compiled.cluster, is_damaged=seen.index is not None)
        return Compared(removals=(lost,), changes=(), objects=objects)
    found = [
        pipeline.check_changes(
            comparison.Change(
                folder=folder,
                before=before,
                after=after,
                planned=planned,
                policies=policies,
                removed_percent=call.settings.limits.removed_percent,
            )
        )
        for before in sides
    ]
    return Compared(
        removals=tuple(dict.fromkeys(removal for removed, _ in found for removal in removed)),
        changes=tuple(dict.fromkeys(finding for _, changes in found for finding in changes)),
        objects=objects,
    )


def removed_policies(call: compile_call.Call, clusters: Collection[str]) -> Iterable[acceptance.Removal]:
    """Yield what goes with the output of clusters that are no longer declared."""
    for name in clusters:
        recorded = scan.recorded(call.output, name)
        if recorded is not None:
            yield from removals.removed_policies(call.settings.output, name, recorded)


def removed_objects(call: compile_call.Call, clusters: Collection[str]) -> list[view.Said]:
    """Return the objects that go with the output of clusters that are no longer declared."""
    looks = ((name, scan.look(call.output, name, ())) for name in clusters)
    found = ((name, deployed.earlier(seen, tree.Tree.of(name, {}), {})) for name, seen in looks)
    gone = (object_changes.removed(name, sides[0]) for name, sides in found if sides)
    # Of a cluster whose removal was interrupted, nothing may be left but the index.
    said = (view.said(change, for_programs=call.arguments.shape != "text") for change in gone)
    return [change for change in said if change]
