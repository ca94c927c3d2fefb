"""Rules for what changes for nodes without being a removal, and for drivers that stay on hosts without a policy."""

from collections.abc import Iterable, Iterator, Sequence

from compiler import wording
from compiler.changes import losses
from compiler.checks.change import OutputChange
from compiler.diagnostics import Diagnostic, Span, rule
from compiler.output import index_file


def changes(change: OutputChange, found: Sequence[losses.Loss]) -> Iterator[Diagnostic]:
    """Yield what changes for nodes without being a removal, and drivers that stay on hosts without a policy."""
    yield from reassigned(change, found)
    for loss in found:
        if loss.nodes and not loss.is_removal(change.removed_percent):
            yield left_out(change, loss)
        if loss.removed:
            yield uninstalled(change, loss)
        if loss.pools and not loss.last:
            yield removed_pools(change, loss)
    yield from left_waves(change)
    yield from disabled_kinds(change)
    yield from removed_nfd(change)
    moved = (loss for loss in found if loss.component == "driver" and loss.moved and not loss.nodes)
    told = {index_file.Owner(loss.recipe, loss.policy) for loss in moved}
    told |= change.before.cleaning  # Their installers leave no driver behind.
    before = (item for item in change.before.index.workloads if item.owner not in told)
    yield from left_drivers(change.folder, change.cluster, before, change.after.index.workloads)


@rule("nodes-left-out", "warning")
def left_out(change: OutputChange, loss: losses.Loss) -> Diagnostic:
    """A node keeps its driver and its device plugin."""
    return Diagnostic(
        code="nodes-left-out",
        span=change.policy_span(loss.policy),
        message=f"The {losses.NOUNS[loss.component]} of policy '{loss.policy}' leaves {wording.nodes(loss.nodes)} "
        f"of cluster '{change.cluster}'.",
        notes=(f"It serves {loss.served - len(loss.nodes)} of {loss.served} nodes from now on.",),
        hint="`kae explain` tells why.",
    )


def uninstalled(change: OutputChange, loss: losses.Loss) -> Diagnostic:
    """A driver that hosts have stays Present."""
    return Diagnostic(
        code="nodes-left-out",
        span=change.policy_span(loss.policy),
        message=f"The driver of policy '{loss.policy}' is removed from {wording.nodes(loss.removed)} "
        f"of cluster '{change.cluster}'.",
        notes=("driver.state is Absent there, so the installer unloads the modules and deletes the files.",),
        hint="Set driver.state: Present to keep it.",
    )


@rule("pool-removed", "warning")
def removed_pools(change: OutputChange, loss: losses.Loss) -> Diagnostic:
    """The pools of a policy stay."""
    count = len(loss.pools)
    return Diagnostic(
        code="pool-removed",
        span=change.policy_span(loss.policy),
        message=f"The {wording.inflected('DaemonSet', count)} of {wording.inflected('pool', count)} "
        f"{wording.listed(loss.pools, most=5)} of policy '{loss.policy}' {'leaves' if count == 1 else 'leave'} cluster "
        f"'{change.cluster}'.",
        notes=("A pool that follows from the inventory goes with its last node.",),
        hint="If such nodes are still there, take a new inventory first.",
    )


@rule("node-leaves-wave", "warning")
def left_waves(change: OutputChange) -> Iterator[Diagnostic]:
    """A node leaves a wave by an edit of the policy, or as an earlier wave widens."""
    known = {node.name for node in change.planned.inventory.nodes}
    waves = (
        (division.policy.name, group.name)
        for division in change.planned.divisions
        for group in division.groups
        if group.sort == "wave"
    )
    for policy, wave in waves:
        nodes = sorted(change.before.members(policy, wave) - change.after.members(policy, wave) - known)
        if nodes:
            yield Diagnostic(
                code="node-leaves-wave",
                span=change.policy_span(policy),
                message=f"{wording.nodes(nodes)} of cluster '{change.cluster}' "
                f"{'leaves' if len(nodes) == 1 else 'leave'} wave '{wave}' of policy '{policy}'.",
                notes=("The inventory does not have them any more; a node that is still there gets another version.",),
                hint="If they are still there, take a new inventory first.",
            )


@rule("kind-disabled", "warning")
def disabled_kinds(change: OutputChange) -> Iterator[Diagnostic]:
    """A device plugin keeps the kinds of devices that it offers."""
    switching = {division.policy.name for division in change.planned.divisions if division.policy.written.switches}
    for owner in change.before.owners("device-plugin"):
        policy, now = owner.policy, change.after.of_owner("device-plugin", owner)
        before, after = (
            {kind for item in daemon_sets for kind in item.kinds}
            for daemon_sets in (change.before.of_owner("device-plugin", owner), now)
        )
        if not now or before <= after:
            continue
        place = "under spec.operator" if policy in switching else "in its values or in the recipe"
        noun = "kinds" if policy in switching else "resources"
        yield Diagnostic(
            code="kind-disabled",
            span=change.policy_span(policy),
            message=f"Policy '{policy}' no longer offers {wording.listed(sorted(before - after))} in cluster "
            f"'{change.cluster}'.",
            notes=("Pods that ask for these resources stay Pending from now on.",),
            hint=f"Enable the {noun} {place}, if this is not meant.",
        )


@rule("nfd-removed", "warning")
def removed_nfd(change: OutputChange) -> Iterator[Diagnostic]:
    """The NFD that output/ deploys stays."""
    has_nfd = [any(path.startswith("nfd/") for path in side.index.files) for side in (change.before, change.after)]
    if has_nfd == [True, False]:
        yield Diagnostic(
            code="nfd-removed",
            span=change.cluster_span("spec", "nfd", "enabled"),
            message=f"NFD leaves cluster '{change.cluster}', and with it whoever keeps the labels of the nodes.",
            notes=("Every DaemonSet of the driver and of the device plugin selects its nodes by these labels.",),
            hint="Run another NFD in the cluster before this is applied.",
        )


@rule("nodes-reassigned", "warning")
def reassigned(change: OutputChange, found: Iterable[losses.Loss]) -> Iterator[Diagnostic]:
    """A node stays with its policy."""
    pairs: dict[tuple[str, str], set[str]] = {}
    gone = {loss.policy for loss in found if loss.last}
    for loss in found:
        for heir, nodes in loss.moved.items():
            pairs.setdefault((loss.policy, heir), set()).update(nodes)
    for (policy, heir), moved in pairs.items():
        yield Diagnostic(
            code="nodes-reassigned",
            span=change.policy_span(heir),
            message=f"{wording.nodes(sorted(moved))} of policy '{policy}' in cluster '{change.cluster}' "
            f"{'is' if len(moved) == 1 else 'are'} now governed by '{heir}'.",
            notes=tuple(_handover(change, policy)) if policy in gone else (),
            hint=f"Restore the selectors of '{policy}', if this is not meant.",
        )


def _handover(change: OutputChange, policy: str) -> Iterator[str]:
    yield "The DaemonSets of the old policy are deleted, those of the new one start on the same nodes."
    if policy in {policy for _, policy in change.before.cleaning}:
        yield "The old one has driver.enabledCleanup: its installers remove the driver before the new ones install it."


@rule("cluster-removed", "warning")
def removed_cluster(folder: str, name: str) -> Diagnostic:
    """A cluster with output still has documents."""
    return Diagnostic(
        code="cluster-removed",
        span=Span(file=f"{folder}/{name}"),
        message=f"Cluster '{name}' is no longer declared, so its output is removed.",
        notes=("A GitOps engine whose folder is gone reports that, and deletes nothing in the cluster.",),
        hint="Bring its KAECluster or its inventory back, if this is not meant.",
    )


@rule("driver-left-behind", "warning")
def left_drivers(
    folder: str, cluster: str, recorded: Iterable[index_file.Workload], wanted: Iterable[index_file.Workload]
) -> Iterator[Diagnostic]:
    """A driver is removed before its policy is deleted."""
    told = {workload.owner for workload in wanted if workload.component == "driver"}
    for workload in recorded:
        if workload.state != "Present" or workload.owner in told:
            continue
        told.add(workload.owner)
        yield Diagnostic(
            code="driver-left-behind",
            span=Span(file=f"{folder}/{workload.file}"),
            message=f"Policy '{workload.policy}' drives no node of cluster '{cluster}' any more, and what it has "
            "installed stays on the hosts.",
            notes=("Modules, packages and libraries stay, and so does /var/lib/kae; nothing updates them.",),
            hint="To have them removed, compile the policy with driver.state: Absent first, and delete it when "
            "`kae status` shows every pod ready.",
        )
