"""Rules for what a compile takes away: from output/, and from the nodes that it serves.

A GitOps engine deletes what output/ no longer has. So a removal is an error until a person accepts it by its scope.
"""

from collections.abc import Iterable, Iterator, Sequence

from compiler import wording
from compiler.changes import deployed, losses, placement
from compiler.changes.acceptance import Acceptable
from compiler.checks import fleet as fleet_checks
from compiler.checks.change import OutputChange
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.output import index_file
from compiler.planning import images, supported

shared_rule("removes-drivers", "removal", "A compile takes a driver from nodes only if a person accepts it.")
shared_rule(
    "removes-device-plugins", "removal", "A compile takes a device plugin from nodes only if a person accepts it."
)
shared_rule("moves-with-cleanup", "error", "A cluster stays in its namespace while its policies have enabledCleanup.")
shared_rule(
    "inventory-empty", "removal", "An inventory is a file with nodes, at least where output/ was compiled for some."
)
shared_rule(
    "output-unreadable", "error", "A recorded object in output/ is readable, at least one side of a merge conflict."
)

_CODES = {"driver": "removes-drivers", "device-plugin": "removes-device-plugins"}
_CLEANUP = "It has driver.enabledCleanup: its installers remove the driver from the hosts as they end."


def removals(change: OutputChange, found: Sequence[losses.Loss]) -> Iterator[Acceptable]:
    """Yield what a compile takes away from a cluster."""
    yield from unreadable(change)
    yield from undeclared(change)
    yield from emptied(change)
    yield from moved_namespace(change)
    yield from dropped_protection(change)
    yield from removed_guard(change)
    yield from thawed(change)
    for loss in found:
        if loss.is_removal(change.removed_percent):
            yield removed(change, loss)


def unreadable(change: OutputChange) -> Iterator[Acceptable]:
    """A recorded object is as the compiler wrote it, or at least readable."""
    for path in change.before.unreadable:
        file = f"{change.folder}/{path}"
        yield Acceptable(cluster=change.cluster, finding=_damaged(file, "missing or damaged"))


def _damaged(file: str, fault: str) -> Diagnostic:
    return Diagnostic(
        code="output-unreadable",
        span=Span(file=file),
        message=f"'{file}' is {fault}, so nobody can tell what this compile takes away.",
        hint=f"Restore it from git, such as by `git checkout HEAD -- {file}`, and compile again.",
    )


def lost(folder: str, cluster: str, *, is_damaged: bool) -> Acceptable:
    """An output that git has is on the disk too, with its index."""
    if is_damaged:
        return Acceptable(cluster=cluster, finding=_damaged(f"{folder}/{index_file.NAME}", "damaged"))
    return Acceptable(
        cluster=cluster,
        finding=Diagnostic(
            code="output-unreadable",
            span=Span(file=folder),
            message=f"'{folder}' is in git but not on the disk, so nobody can tell what this compile takes away.",
            hint=f"Restore it by `git checkout HEAD -- {folder}`, or remove it from git too, by `git rm -r --cached`.",
        ),
    )


def undeclared(change: OutputChange) -> Iterator[Acceptable]:
    """A cluster keeps its KAECluster; nobody can accept to fall to the defaults of every setting."""
    if change.before.index.declared and change.planned.cluster.source is None:
        span = Span(file=change.planned.inventory.file)
        finding = fleet_checks.undeclared(change.cluster, span, ())
        yield Acceptable(cluster=change.cluster, finding=finding)


def emptied(change: OutputChange) -> Iterator[Acceptable]:
    """A cluster whose nodes are known keeps an inventory with nodes."""
    if change.before.index.has_nodes and not change.planned.inventory.nodes:
        file = change.planned.inventory.file
        yield change.acceptable(
            "inventory-empty",
            Span(file=file) if file else change.cluster_span("metadata", "name"),
            f"The inventory of cluster '{change.cluster}' has no nodes, but its output was compiled for some.",
            notes=("Groups of nodes, waves and the pools of kernels are made from the inventory.",),
            hint="Restore it from git, or take a new one.",
        )


def empty_file(finding: Diagnostic, cluster: str) -> Acceptable:
    """An inventory is a file with a document."""
    return Acceptable(
        cluster=cluster,
        finding=Diagnostic(
            code="inventory-empty",
            span=finding.span,
            message=f"The inventory of cluster '{cluster}' is an empty file.",
            notes=("A command that failed after its output was redirected leaves such a file.",),
            hint="Restore it from git, or take a new one.",
        ),
    )


@rule("moves-namespace", "removal")
def moved_namespace(change: OutputChange) -> Iterator[Acceptable]:
    """The objects of a cluster stay in their namespace."""
    namespace = change.planned.cluster.spec.namespace
    before = (data["metadata"].get("namespace") for data in change.before.objects.values())
    others = sorted({name for name in before if isinstance(name, str)} - {namespace})
    if not others:
        return
    span = change.cluster_span("spec", "namespace")
    hint = f"Set spec.namespace: {others[0]} in its KAECluster."
    moved = f"The objects of cluster '{change.cluster}' move from namespace {wording.listed(others)} to {namespace}"
    yield change.acceptable(
        "moves-namespace",
        span,
        f"{moved}.",
        notes=("A GitOps engine deletes them in the one and creates them in the other, in any order.",),
        hint=hint,
    )
    cleaning = sorted(policy for _, policy in change.before.cleaning)
    if cleaning:  # Nobody can accept that a cleanup removes a driver in use.
        yield change.acceptable(
            "moves-with-cleanup",
            span,
            f"{moved} while driver.enabledCleanup is set by {wording.listed(cleaning)}.",
            notes=("The installers that end would remove the driver under those that start on the same hosts.",),
            hint=f"{hint} To move it, set enabledCleanup: false first, and wait until the cluster has it.",
        )


@rule("drops-protection", "removal")
def dropped_protection(change: OutputChange) -> Iterator[Acceptable]:
    """An object that a GitOps engine must not delete stays marked so."""
    engine = change.planned.cluster.spec.gitops.engine
    paths = [
        path
        for path, data in sorted(change.after.objects.items())
        if (earlier := change.before.objects.get(path))
        and deployed.protector(earlier) not in (None, deployed.protector(data))
        # The rights of the driver are protected for the policies with enabledCleanup. While the engine stays, they lose
        # it with the last of these, and that policy is asked for by itself.
        and not (path.startswith(("driver/", "guard/")) and deployed.protector(earlier) == engine)
    ]
    if paths:
        names = (f"{data['kind']} {data['metadata']['name']}" for data in map(change.after.objects.get, paths) if data)
        yield change.acceptable(
            "drops-protection",
            Span(file=f"{change.folder}/{paths[0]}"),
            f"{wording.counted(len(paths), 'object')} of cluster '{change.cluster}' "
            f"{'loses' if len(paths) == 1 else 'lose'} the protection from pruning: "
            f"{wording.listed(names, most=3)}.",
            notes=("Without it, a GitOps engine deletes them, and all that is in them, when they leave output/.",),
            hint="Restore the KAECluster and its gitops.engine.",
        )


@rule("removes-guard", "removal")
def removed_guard(change: OutputChange) -> Iterator[Acceptable]:
    """The evictions of drivers stay confined to their node."""
    # After an interrupted compile, the files that are there.
    before, after = (
        side.index.files if side.index.complete else side.objects for side in (change.before, change.after)
    )
    was_guarded, is_guarded = (any(path.startswith("guard/") for path in paths) for paths in (before, after))
    names = (path.partition("/")[2] for path in after)
    evicts = any(name.startswith("clusterrole-") and name.endswith("-driver.yaml") for name in names)
    if was_guarded and not is_guarded and evicts:
        version = change.planned.cluster.spec.kubernetesVersion
        yield change.acceptable(
            "removes-guard",
            change.cluster_span("spec", "kubernetesVersion"),
            f"The guard of cluster '{change.cluster}' goes, which confines a driver's evictions to its own node.",
            notes=(
                f"Its KAECluster states Kubernetes {version}, and the guard needs 1.{supported.GUARD_KUBERNETES}.",
                "Without it, whoever has the token of a driver may evict any pod of the cluster.",
            ),
            hint="Correct spec.kubernetesVersion.",
        )


@rule("thaws-nodes", "removal")
def thawed(change: OutputChange) -> Iterator[Acceptable]:
    """A node leaves a frozen group only when a person edits the group's entry."""
    policies = {division.policy.name for division in change.planned.divisions}
    now = change.after.index.frozen or ()
    # An index without the record was written before there was one: the entries count as unedited.
    recorded = now if change.before.index.frozen is None else change.before.index.frozen
    for policy, group in dict.fromkeys((item.policy, item.group) for item in recorded):
        # There are two if the compile of an edited entry was interrupted.
        entries = {item.entry for item in recorded if (item.policy, item.group) == (policy, group)}
        heirs = {item.policy for item in now if item.group == group and {item.entry} == entries}
        thaws = dict(_thaws(change, policy, group, heirs)) if policy not in policies or policy in heirs else {}
        if thaws:
            yield change.acceptable(
                "thaws-nodes",
                change.policy_span(policy),
                f"{wording.nodes(list(thaws))} of cluster '{change.cluster}' "
                f"{'leaves' if len(thaws) == 1 else 'leave'} the frozen group '{group}' of policy '{policy}'.",
                notes=[
                    f"{reason}: {wording.listed((node for node, why in thaws.items() if why == reason), most=5)}."
                    for reason in dict.fromkeys(thaws.values())
                ],
                hint="Restore the labels or the inventory, or name the nodes in the group's entry.",
                policy=policy,
            )


def _thaws(change: OutputChange, policy: str, group: str, heirs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the nodes that leave a frozen group with the version of their driver, and what becomes of each.

    `heirs` are the policies that have the entry of the group from now on.
    """
    owner = change.before.driver_owner(policy)
    rules = change.before.pool_rules(owner)
    if owner is None or rules is None:
        return
    members = rules.members(owner, group)
    listed = frozenset(name for heir in heirs for name in change.after.members(heir, group))
    known = {node.name: node for node in change.planned.inventory.nodes if node.name in members}
    served = change.before.serving(
        "driver", owner, placement.alike(known.values(), change.before.of_owner("driver", owner))
    )
    pools = {
        name: decision.pool
        for decision in change.planned.decisions
        if decision.recipe.name == owner.recipe and decision.pool and decision.pool.driver.state != "Absent"
        for name in members.intersection(decision.names)
    }
    for name in sorted(members):
        pool = pools.get(name)
        if name not in known:
            if name not in listed:
                yield name, "Not in the inventory"
        # Whether NFD's first labels keep a node in its group is not known yet.
        elif name in listed and (pool is not None or not known[name].profile.discovered):
            continue
        elif name in served and pool is None:
            yield name, "No driver from now on"
        elif name in served and pool and _versions(served[name].images) != _versions(image for _, image in pool.images):
            yield name, f"The driver from now on is {pool.image}"


def _versions(used: Iterable[str]) -> frozenset[str]:
    """Return what images are by without their registries: a mirror or another registry changes no version."""
    return frozenset(images.unqualified(image).partition(":")[2] for image in used)


def removed(change: OutputChange, loss: losses.Loss) -> Acceptable:
    """A policy keeps its driver and its device plugin on its nodes."""
    noun, code = losses.NOUNS[loss.component], _CODES[loss.component]
    nodes = wording.nodes(loss.nodes)
    if loss.last or loss.unlabelled or not loss.nodes:
        message = f"The {noun} of policy '{loss.policy}' goes from cluster '{change.cluster}'"
        lost = f": {nodes} {'loses' if len(loss.nodes) == 1 else 'lose'} it."
        message += lost if loss.nodes else "; no node of the inventory has it today."
        note = "Its last DaemonSet leaves the output, and a GitOps engine deletes it."
        if loss.pools and not loss.last:
            note = f"The DaemonSets of {wording.listed(loss.pools, most=5)} leave the output with the inventory."
        elif not loss.last:
            note = (
                f"The NodeFeatureRule '{loss.recipe}' leaves the output, so no node keeps the labels that DaemonSets "
                "select by."
            )
    else:
        message = f"The {noun} of policy '{loss.policy}' leaves {nodes} of cluster '{change.cluster}'."
        note = (
            f"These are {len(loss.nodes)} of the {loss.served} nodes that it serves, and limits.removedPercent "
            f"allows {change.removed_percent:g} %."
        )
    return change.acceptable(
        code,
        change.policy_span(loss.policy, loss.component),
        message,
        notes=(note, *((_CLEANUP,) if _is_cleaned(change, loss) else ())),
        hint="Undo the change that takes it away.",
        policy=loss.policy,
    )


def _is_cleaned(change: OutputChange, loss: losses.Loss) -> bool:
    return loss.component == "driver" and loss.last and (loss.recipe, loss.policy) in change.before.cleaning


def removed_policies(folder: str, name: str, index: index_file.Index) -> Iterator[Acceptable]:
    """A cluster with drivers or device plugins in its output is still declared."""
    output = deployed.Deployed(index=index, objects={})
    for path in index.untold() if index.complete else ():
        yield Acceptable(cluster=name, finding=_damaged(f"{folder}/{name}/{path}", "missing or damaged"))
    for component, code in _CODES.items():
        for _, policy in output.owners(component):
            yield Acceptable(
                cluster=name,
                policy=policy,
                finding=Diagnostic(
                    code=code,
                    span=Span(file=f"{folder}/{name}"),
                    message=f"The {losses.NOUNS[component]} of policy '{policy}' goes with the output of cluster "
                    f"'{name}'.",
                    notes=("No KAECluster and no inventory has this name.",),
                    hint="Bring its KAECluster or its inventory back.",
                ),
            )
