"""Rules for what a compile takes away: from output/, and from the nodes that it serves.

A GitOps engine deletes what output/ no longer has. So a removal is an error until a person accepts it by its scope.
"""

from collections.abc import Iterable, Iterator

from compiler import wording
from compiler.changes import deployed, losses
from compiler.changes.comparison import Change, Removal
from compiler.checks import fleet as fleet_checks
from compiler.diagnostics import Diagnostic, Span
from compiler.output import index_file

_NOUNS = {"driver": "driver", "device-plugin": "device plugin"}
_CODES = {"driver": "removes-drivers", "device-plugin": "removes-device-plugins"}


def removals(change: Change) -> Iterator[Removal]:
    """Yield what a compile takes away from a cluster."""
    yield from undeclared(change)
    yield from emptied(change)
    yield from moved_namespace(change)
    yield from dropped_protection(change)
    yield from thawed(change)
    for loss in losses.losses(change.before, change.after, change.planned):
        if _is_removal(change, loss):
            yield removed(change, loss)


def changes(change: Change) -> Iterator[Diagnostic]:
    """Yield what changes for nodes without being a removal, and drivers that stay on hosts without a policy."""
    found = tuple(losses.losses(change.before, change.after, change.planned))
    yield from reassigned(change, found)
    for loss in found:
        if loss.nodes and not _is_removal(change, loss):
            yield left_out(change, loss)
        if loss.removed:
            yield uninstalled(change, loss)
    told = {loss.policy for loss in found if loss.component == "driver" and loss.moved and not loss.nodes}
    for policy in change.before.policies("driver"):
        if any(item.cleans_up for item in change.before.daemon_sets("driver", policy)):
            told.add(policy)  # Its installers leave no driver behind.
    before = (item for item in change.before.index.workloads if item.policy not in told)
    yield from left_drivers(change.folder, change.cluster, before, change.after.index.workloads)


def undeclared(change: Change) -> Iterator[Removal]:
    """A cluster keeps its KAECluster; nobody can accept to fall to the defaults of every setting."""
    if change.before.index.declared and change.planned.cluster.source is None:
        span = Span(file=change.planned.inventory.file)
        yield Removal(
            scope=f"cluster-undeclared:{change.cluster}", finding=fleet_checks.undeclared(change.cluster, span, ())
        )


def emptied(change: Change) -> Iterator[Removal]:
    """A cluster whose nodes are known keeps an inventory with nodes."""
    if change.before.index.has_nodes and not change.planned.inventory.nodes:
        file = change.planned.inventory.file
        scope = f"inventory-empty:{change.cluster}"
        yield Removal(
            scope=scope,
            finding=Diagnostic(
                code="inventory-empty",
                span=Span(file=file) if file else _cluster_span(change, "metadata", "name"),
                message=f"The inventory of cluster '{change.cluster}' has no nodes, but its output was compiled "
                "for some.",
                notes=("Groups of nodes, waves and the pools of kernels are made from the inventory.",),
                hint=f"Restore it from git, or take a new one. {accepting(scope)}",
            ),
        )


def empty_file(finding: Diagnostic, cluster: str) -> Removal:
    """An inventory is a file with a document."""
    scope = f"inventory-empty:{cluster}"
    return Removal(
        scope=scope,
        finding=Diagnostic(
            code="inventory-empty",
            span=finding.span,
            message=f"The inventory of cluster '{cluster}' is an empty file.",
            notes=("A command that failed after its output was redirected leaves such a file.",),
            hint=f"Restore it from git, or take a new one. {accepting(scope)}",
        ),
    )


def moved_namespace(change: Change) -> Iterator[Removal]:
    """The objects of a cluster stay in their namespace."""
    namespace = change.planned.cluster.spec.namespace
    others = sorted(change.before.namespaces() - {namespace})
    if others:
        scope = f"moves-namespace:{change.cluster}"
        yield Removal(
            scope=scope,
            finding=Diagnostic(
                code="moves-namespace",
                span=_cluster_span(change, "spec", "namespace"),
                message=f"The objects of cluster '{change.cluster}' move from namespace {wording.listed(others)} "
                f"to {namespace}.",
                notes=("A GitOps engine deletes them in the one and creates them in the other, in any order.",),
                hint=f"Set spec.namespace: {others[0]} in its KAECluster. {accepting(scope)}",
            ),
        )


def dropped_protection(change: Change) -> Iterator[Removal]:
    """An object that a GitOps engine must not delete stays marked so."""
    paths = losses.unprotected(change.before, change.after, change.planned.cluster.spec.gitops.engine)
    if paths:
        scope = f"drops-protection:{change.cluster}"
        names = (f"{data['kind']} {data['metadata']['name']}" for data in map(change.after.objects.get, paths) if data)
        yield Removal(
            scope=scope,
            finding=Diagnostic(
                code="drops-protection",
                span=Span(file=f"{change.folder}/{paths[0]}"),
                message=f"{wording.counted(len(paths), 'object')} of cluster '{change.cluster}' "
                f"{'loses' if len(paths) == 1 else 'lose'} the protection from pruning: "
                f"{wording.listed(names, most=3)}.",
                notes=("Without it, a GitOps engine deletes them, and all that is in them, when they leave output/.",),
                hint=f"Restore the KAECluster and its gitops.engine. {accepting(scope)}",
            ),
        )


def thawed(change: Change) -> Iterator[Removal]:
    """A node leaves a frozen group only when a person edits the group's entry."""
    groups: dict[tuple[str, str], list[losses.Thaw]] = {}
    for thaw in losses.thaws(change.before, change.after, change.planned):
        groups.setdefault((thaw.policy, thaw.group), []).append(thaw)
    for (policy, group), thaws in groups.items():
        scope = f"thaws-nodes:{change.cluster}/{policy}"
        yield Removal(
            scope=scope,
            finding=Diagnostic(
                code="thaws-nodes",
                span=_policy_span(change, policy),
                message=f"{wording.nodes([thaw.node for thaw in thaws])} of cluster '{change.cluster}' "
                f"{'leaves' if len(thaws) == 1 else 'leave'} the frozen group '{group}' of policy '{policy}'.",
                notes=tuple(_reasons(thaws)),
                hint=f"Restore the labels or the inventory, or name the nodes in the group's entry. {accepting(scope)}",
            ),
        )


def _reasons(thaws: Iterable[losses.Thaw]) -> Iterator[str]:
    by_reason: dict[str, list[str]] = {}
    for thaw in thaws:
        reason = f"The driver from now on is {thaw.image}" if thaw.image else "No driver from now on"
        by_reason.setdefault(reason if thaw.known else "Not in the inventory", []).append(thaw.node)
    for reason, nodes in by_reason.items():
        yield f"{reason}: {wording.listed(nodes, most=5)}."


def removed(change: Change, loss: losses.Loss) -> Removal:
    """A policy keeps its driver and its device plugin on its nodes."""
    noun, code = _NOUNS[loss.component], _CODES[loss.component]
    scope = f"{code}:{change.cluster}/{loss.policy}"
    nodes = wording.nodes(loss.nodes)
    if loss.last or loss.unlabelled:
        message = f"The {noun} of policy '{loss.policy}' goes from cluster '{change.cluster}'"
        message += f": {nodes} {'loses' if len(loss.nodes) == 1 else 'lose'} it." if loss.nodes else "."
        note = "Its last DaemonSet leaves the output, and a GitOps engine deletes it."
        if not loss.last:
            note = "The NodeFeatureRule 'kae' leaves the output, so no node keeps the labels that DaemonSets select by."
    else:
        message = f"The {noun} of policy '{loss.policy}' leaves {nodes} of cluster '{change.cluster}'."
        note = (
            f"These are {len(loss.nodes)} of the {loss.served} nodes that it serves, and limits.removedPercent "
            f"allows {change.removed_percent:g} %."
        )
    return Removal(
        scope=scope,
        finding=Diagnostic(
            code=code,
            span=_policy_span(change, loss.policy, loss.component),
            message=message,
            notes=(note,),
            hint=f"Undo the change that takes it away. {accepting(scope)}",
        ),
    )


def left_out(change: Change, loss: losses.Loss) -> Diagnostic:
    """A node keeps its driver and its device plugin."""
    return Diagnostic(
        code="nodes-left-out",
        span=_policy_span(change, loss.policy),
        message=f"The {_NOUNS[loss.component]} of policy '{loss.policy}' leaves {wording.nodes(loss.nodes)} "
        f"of cluster '{change.cluster}'.",
        notes=(f"It serves {loss.served - len(loss.nodes)} of {loss.served} nodes from now on.",),
        hint="`kae explain` tells why.",
    )


def uninstalled(change: Change, loss: losses.Loss) -> Diagnostic:
    """A driver that hosts have stays Present."""
    return Diagnostic(
        code="nodes-left-out",
        span=_policy_span(change, loss.policy),
        message=f"The driver of policy '{loss.policy}' is removed from {wording.nodes(loss.removed)} "
        f"of cluster '{change.cluster}'.",
        notes=("driver.state is Absent there, so the installer unloads the modules and deletes the files.",),
        hint="Set driver.state: Present to keep it.",
    )


def reassigned(change: Change, found: Iterable[losses.Loss]) -> Iterator[Diagnostic]:
    """A node stays with its policy."""
    pairs: dict[tuple[str, str], set[str]] = {}
    gone = {loss.policy for loss in found if loss.last}
    for loss in found:
        for heir, nodes in loss.moved.items():
            pairs.setdefault((loss.policy, heir), set()).update(nodes)
    for (policy, heir), moved in pairs.items():
        is_gone = policy in gone
        yield Diagnostic(
            code="nodes-reassigned",
            span=_policy_span(change, heir),
            message=f"{wording.nodes(sorted(moved))} of policy '{policy}' in cluster '{change.cluster}' "
            f"{'is' if len(moved) == 1 else 'are'} now governed by '{heir}'.",
            notes=("The DaemonSets of the old policy are deleted, those of the new one start on the same nodes.",)
            if is_gone
            else (),
            hint=f"Restore the selectors of '{policy}', if this is not meant.",
        )


def accepting(scope: str) -> str:
    """Return the sentence that tells how to accept a removal."""
    return f"To accept it, run `kae compile --accept {scope}`; where CI compiles, commit with 'Kae-Accept: {scope}'."


def _is_removal(change: Change, loss: losses.Loss) -> bool:
    if loss.last or loss.unlabelled:
        return bool(loss.nodes) or loss.unknown
    return len(loss.nodes) > 1 and len(loss.nodes) * 100 > change.removed_percent * loss.served


def _cluster_span(change: Change, *path: str) -> Span:
    """Return the position of a setting of the KAECluster; without one, the file of the inventory."""
    if change.planned.cluster.source is None:
        return Span(file=change.planned.inventory.file or change.folder)
    return change.planned.cluster.source.setting_span(*path)


def _policy_span(change: Change, name: str, component: str = "driver") -> Span:
    """Return the position of a policy's clusters if it left the cluster, else of its name, else its earlier output."""
    here = {division.policy.name for division in change.planned.divisions}
    for policy in change.policies:
        if policy.name == name:
            return policy.source.span("metadata", "name") if name in here else policy.source.span("spec", "clusters")
    own = (item for item in change.before.index.workloads if (item.policy, item.component) == (name, component))
    return Span(file=f"{change.folder}/{next((item.file for item in own), index_file.NAME)}")


def removed_policies(folder: str, name: str, index: index_file.Index) -> Iterator[Removal]:
    """A cluster with drivers or device plugins in its output is still declared."""
    output = deployed.Deployed(index=index, objects={})
    for component, code in _CODES.items():
        for policy in output.policies(component):
            scope = f"{code}:{name}/{policy}"
            yield Removal(
                scope=scope,
                finding=Diagnostic(
                    code=code,
                    span=Span(file=f"{folder}/{name}"),
                    message=f"The {_NOUNS[component]} of policy '{policy}' goes with the output of cluster '{name}'.",
                    notes=("No KAECluster and no inventory has this name.",),
                    hint=f"Bring its KAECluster or its inventory back. {accepting(scope)}",
                ),
            )


def removed_cluster(folder: str, name: str) -> Diagnostic:
    """A cluster that has output is still declared."""
    return Diagnostic(
        code="cluster-removed",
        span=Span(file=f"{folder}/{name}"),
        message=f"Cluster '{name}' is no longer declared, so its output is removed.",
        notes=("A GitOps engine whose folder is gone reports that, and deletes nothing in the cluster.",),
        hint="Bring its KAECluster or its inventory back, if this is not meant.",
    )


def left_drivers(
    folder: str, cluster: str, recorded: Iterable[index_file.Workload], wanted: Iterable[index_file.Workload]
) -> Iterator[Diagnostic]:
    """A driver that a policy installed is removed before the policy goes."""
    told = {workload.policy for workload in wanted if workload.component == "driver"}
    for workload in recorded:
        if workload.state != "Present" or workload.policy in told:
            continue
        told.add(workload.policy)
        yield Diagnostic(
            code="driver-left-behind",
            span=Span(file=f"{folder}/{workload.file}"),
            message=f"Policy '{workload.policy}' drives no node of cluster '{cluster}' any more, and what it has "
            "installed stays on the hosts.",
            notes=("Modules, packages and libraries stay, and so does /var/lib/kae; nothing updates them.",),
            hint="To have them removed, compile the policy with driver.state: Absent first, and delete it when "
            "`kae status` shows every pod ready.",
        )
