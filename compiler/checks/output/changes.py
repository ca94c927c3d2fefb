"""Rules for what a compile does to output/, and to the nodes that it serves.

A GitOps engine deletes what output/ no longer has, unless it is told not to. So a removal is an error until a person
accepts it by its scope.
What else changes for nodes is told, and which drivers stay on hosts without a policy.
"""

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from compiler import repeats, wording
from compiler.changes import deletions, hardware, losses, objects
from compiler.changes.acceptance import Acceptable
from compiler.checks import fleet as fleet_checks
from compiler.checks.change import Change, OutputChange
from compiler.checks.output import causes
from compiler.diagnostics import Diagnostic, Span, rule, shared_rule
from compiler.output import index_file
from compiler.planning import images, supported

shared_rule("removes-drivers", "removal", "A compile takes a driver from nodes only if a person accepts it.")
shared_rule(
    "removes-device-plugins", "removal", "A compile takes a device plugin from nodes only if a person accepts it."
)
shared_rule("removes-programs", "removal", "A compile takes a vendor's program from nodes only if a person accepts it.")
shared_rule("moves-with-cleanup", "error", "A cluster stays in its namespace while its policies have enabledCleanup.")
shared_rule(
    "inventory-empty", "removal", "An inventory is a file with nodes, at least where output/ was compiled for some."
)
shared_rule(
    "output-unreadable", "error", "A recorded object in output/ is readable, at least one side of a merge conflict."
)

_TAKEN: Mapping[index_file.Component, tuple[str, str]] = {
    "driver": ("driver", "removes-drivers"),
    "device-plugin": ("device plugin", "removes-device-plugins"),
}
"""The noun of a component, and the code of its removal; others are programs."""


def _taken(component: index_file.Component) -> tuple[str, str]:
    return _TAKEN.get(component, (f"program '{component}'", "removes-programs"))


def removals(change: OutputChange, found: Sequence[losses.Loss]) -> Iterator[Acceptable]:
    """Yield what a compile takes away from a cluster."""
    yield from unreadable(change)
    yield from undeclared(change)
    yield from emptied(change)
    yield from moved_namespace(change)
    yield from dropped_protection(change)
    yield from removed_guard(change)
    asked = [loss for loss in found if loss.is_removal(change.removed_percent)]
    yield from thawed(change, asked)
    yield from narrowed(change)
    for loss in asked:
        yield removed(change, loss)


def unreadable(change: OutputChange) -> Iterator[Acceptable]:
    """A recorded object is as the compiler wrote it, or at least readable."""
    for path in change.before.unreadable:
        yield _damaged(change.cluster, f"{change.folder}/{path}", "missing or damaged")


def _damaged(cluster: str, file: str, fault: str) -> Acceptable:
    return Change(cluster=cluster).acceptable(
        Span(file=file),
        f"'{file}' is {fault}, so nobody can tell what this compile takes away.",
        code="output-unreadable",
        hint=f"Restore it from git, such as by `git checkout HEAD -- {file}`, and compile again.",
    )


def damaged_index(folder: str, cluster: str) -> Acceptable:
    """The index of an output is as the compiler wrote it."""
    return _damaged(cluster, f"{folder}/{index_file.NAME}", "damaged")


def lost(cluster: str, gone: str, folder: str) -> Acceptable:
    """An output that git has is on the disk too; `gone` is the path that is not, and `folder` what to restore."""
    return Change(cluster=cluster).acceptable(
        Span(file=gone),
        f"'{gone}' is in git but not on the disk, so nobody can tell what this compile takes away.",
        code="output-unreadable",
        notes=("A compile itself removes what the documents no longer make.",),
        # Git's index has it; the last commit may not.
        hint=f"Restore it by `git checkout -- {_pathspec(folder)}`, and compile again.",
    )


def _pathspec(path: str) -> str:
    """Return a path as a shell passes it to git, which takes it literally."""
    if re.fullmatch(r"[\w./-]+", path, re.ASCII):
        return path
    return shlex.quote(f":(literal){path}")


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
            Span(file=file) if file else change.cluster_span("metadata", "name"),
            f"The inventory of cluster '{change.cluster}' has no nodes, but its output was compiled for some.",
            code="inventory-empty",
            notes=("Groups of nodes, waves and the pools of kernels are made from the inventory.",),
            hint="Restore it from git, or take a new one.",
        )


def empty_file(finding: Diagnostic, cluster: str) -> Acceptable:
    """An inventory is a file with a document."""
    return Change(cluster=cluster).acceptable(
        finding.span,
        f"The inventory of cluster '{cluster}' is an empty file.",
        code="inventory-empty",
        notes=("A command that failed after its output was redirected leaves such a file.",),
        hint="Restore it from git, or take a new one.",
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
        span,
        f"{moved}.",
        notes=(
            f"{change.deletion.engine} deletes them in the one and creates them in the other, in any order."
            if change.deletion.prunes
            else f"Those in the one leave the output, and {change.deletion.of('them')}.",
        ),
        hint=hint,
    )
    cleaning = sorted(policy for _, policy in change.before.cleaning)
    if cleaning:  # Nobody can accept that a cleanup removes a driver in use.
        yield change.acceptable(
            span,
            f"{moved} while driver.enabledCleanup is set by {wording.listed(cleaning)}.",
            code="moves-with-cleanup",
            notes=("The installers that end would remove the driver under those that start on the same hosts.",),
            hint=f"{hint} To move it, set enabledCleanup: false first, and wait until the cluster has it.",
        )


@rule("drops-protection", "removal")
def dropped_protection(change: OutputChange) -> Iterator[Acceptable]:
    """An object that a GitOps engine must not delete stays marked so."""
    engine = change.planned.cluster.spec.gitops.engine
    of_drivers = {"guard", *(one.recipe.folder or "driver" for one in change.planned.recipes)}
    paths = [
        path
        for path, data in sorted(change.after.objects.items())
        if (earlier := change.before.objects.get(path))
        and objects.protector(earlier) not in (None, objects.protector(data))
        # The rights of the driver are protected for the policies with enabledCleanup. While the engine stays, they lose
        # it with the last of these, and that policy is asked for by itself.
        and not (path.partition("/")[0] in of_drivers and objects.protector(earlier) == engine)
    ]
    if paths:
        names = (f"{data['kind']} {data['metadata']['name']}" for data in map(change.after.objects.get, paths) if data)
        yield change.acceptable(
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
    if change.before.has("guard") and change.after.is_unguarded:
        version = change.planned.cluster.spec.kubernetesVersion
        yield change.acceptable(
            change.cluster_span("spec", "kubernetesVersion"),
            f"The guard of cluster '{change.cluster}' goes, which confines a driver's evictions to its own node.",
            notes=(
                f"Its KAECluster states Kubernetes {version}, and the guard needs 1.{supported.GUARD_KUBERNETES}.",
                "Without it, whoever has the token of a driver may evict any pod of the cluster.",
            ),
            hint="Correct spec.kubernetesVersion.",
        )


@rule("thaws-nodes", "removal")
def thawed(change: OutputChange, asked: Iterable[losses.Loss]) -> Iterator[Acceptable]:
    """A node leaves a frozen group only when a person edits the group's entry.

    Nodes that lose their driver are told by the loss, where a person is `asked` of that.
    """
    told = {(loss.policy, name) for loss in asked if loss.component == "driver" for name in loss.nodes}
    policies = {division.policy.name for division in change.planned.divisions}
    now = change.after.index.frozen or ()
    # An index without the record was written before there was one: the entries count as unedited.
    recorded = now if change.before.index.frozen is None else change.before.index.frozen
    for policy, group in dict.fromkeys((item.policy, item.group) for item in recorded):
        # There are two if the compile of an edited entry was interrupted.
        entries = {item.entry for item in recorded if (item.policy, item.group) == (policy, group)}
        heirs = {item.policy for item in now if item.group == group and {item.entry} == entries}
        thaws = dict(_thaws(change, policy, group, heirs)) if policy not in policies or policy in heirs else {}
        thaws = {name: why for name, why in thaws.items() if (policy, name) not in told}
        if bare := [name for name, why in thaws.items() if why == _BARE]:
            lose = "loses" if len(bare) == 1 else "lose"
            yield change.acceptable(
                change.policy_span(policy),
                f"{wording.nodes(bare)} of cluster '{change.cluster}' {lose} the driver in the frozen group"
                f" '{group}' of policy '{policy}'.",
                notes=(_BARE,),
                hint="Write `state: Present` into the group's entry, unless they are to lose it, too.",
                policy=policy,
            )
        thaws = {name: why for name, why in thaws.items() if why != _BARE}
        if thaws:
            yield change.acceptable(
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


_BARE = "The policy removes its driver, and the group's entry says nothing else."


def _thaws(change: OutputChange, policy: str, group: str, heirs: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the nodes that leave a frozen group with the version of their driver, and what becomes of each.

    `heirs` are the policies that have the entry of the group from now on.
    """
    owner = change.before.pool_owner(policy)
    members = change.before.members(policy, group)
    if owner is None:
        return
    listed = frozenset(name for heir in heirs for name in change.after.members(heir, group))
    known = {node.name: node for node in change.planned.inventory.nodes if node.name in members}
    later = losses.serving(change.planned, "driver", owner.recipe, members)
    pools = {name: now.pool for name, now in later.items() if now.pool and not now.removes}
    # Whether NFD's first labels keep a node in its group is not known yet.
    stay = {name for name in listed if name not in known or name in pools or not known[name].profile.discovered}
    leaving = sorted(members - stay)
    served = change.before.serving("driver", owner, change.planned) if leaving else {}
    for name in leaving:
        if name not in known:
            yield name, "Not in the inventory"
        elif name in served and name not in pools:
            is_bare = name in listed and name in later and later[name].removes
            yield name, _BARE if is_bare else "No driver from now on"
        elif name in served and _versions(served[name].images) != _versions(image for _, image in pools[name].images):
            yield name, f"The driver from now on is {pools[name].image}"
    yield from _thawed_programs(change, owner, frozenset(members - listed))


def _thawed_programs(
    change: OutputChange, owner: index_file.Owner, leaving: frozenset[str]
) -> Iterator[tuple[str, str]]:
    """Yield the nodes that leave a frozen group and get another version of a vendor's program by it."""
    own = [item for item in change.before.index.workloads if item.owner == owner and not item.is_ours and item.pool]
    for program in dict.fromkeys(item.component for item in own):
        served = change.before.serving(program, owner, change.planned)
        for decision in change.planned.decisions if leaving else ():
            made = decision.division.deployment(program, decision.node) if decision.division else None
            if decision.recipe.name != owner.recipe or made is None or not decision.runs(program):
                continue
            # A pod that waits for the driver has an image of its installer, too.
            pulled = (*made.images, *(decision.pool.images if decision.pool else ()))
            later = _versions(image for _, image in pulled)
            for name in leaving.intersection(decision.names, served):
                if not _versions(served[name].images) <= later:
                    yield name, f"Program '{program}' from now on is {made.image}"


def _versions(used: Iterable[str]) -> frozenset[str]:
    """Return what images are by without their registries: a mirror or another registry changes no version."""
    return frozenset(images.unqualified(image).partition(":")[2] for image in used)


@rule("match-narrowed", "removal")
def narrowed(change: OutputChange) -> Iterator[Acceptable]:
    """The match of a recipe takes the hardware of all nodes that it took."""
    index = change.before.index
    known = {owner for component in index.components for owner in index.owners(component)}
    for one in change.planned.recipes:
        was, now = (side.rule(one.recipe.name) for side in (change.before, change.after))
        if was is None or now is None or was["spec"] == now["spec"]:
            continue
        shift = hardware.shift(hardware.of_object(was), hardware.of_object(now))
        doubtful = ((decision, hardware.doubts(decision, shift)[0]) for decision in one.decisions)
        lost = repeats.grouped(
            ((decision.policy.name, nouns), name)
            for decision, nouns in doubtful
            if nouns and decision.policy and (one.recipe.name, decision.policy.name) in known
            for name in decision.names
        )
        for (policy, nouns), nodes in lost.items():
            its = "its" if len(nodes) == 1 else "their"
            yield change.acceptable(
                change.policy_span(policy),
                f"{wording.nodes(sorted(nodes))} of policy '{policy}' in cluster '{change.cluster}' may lose {its} "
                f"{wording.listed(nouns)}: the new match of recipe '{one.recipe.name}' may not take {its} hardware.",
                notes=(hardware.UNKNOWN,),
                hint="Compare the new match with the hardware of these nodes (`lspci -nn`), or undo the change.",
                policy=policy,
            )


def removed(change: OutputChange, loss: losses.Loss) -> Acceptable:
    """A policy keeps its driver and its device plugin on its nodes."""
    found, notes = causes.of_loss(change, loss), list(_what_goes(change, loss))
    return change.acceptable(
        found[0][0].span,
        _lost(change, loss),
        code=_taken(loss.component)[1],
        notes=(*causes.facts(found), *notes, *_thawing(change, loss), *_on_hosts(change, loss)),
        hint=causes.ways_out(found, stays=_stays(change, loss)),
        policy=loss.policy,
    )


def _stays(change: OutputChange, loss: losses.Loss) -> bool:
    """Return whether a driver stays on hosts that lose its installer."""
    is_left = len(loss.nodes) > len(loss.uninstalled) if loss.nodes else not _cleans(change, loss)
    return loss.component == "driver" and is_left


def _cleans(change: OutputChange, loss: losses.Loss) -> bool:
    """Return whether installers that end for good remove the driver, also from hosts that nobody knows."""
    is_cleaning = index_file.Owner(loss.recipe, loss.policy) in change.before.cleaning
    return loss.component == "driver" and loss.last and is_cleaning


def _lost(change: OutputChange, loss: losses.Loss) -> str:
    """Return the sentence that says what becomes of a component."""
    subject, of_cluster = f"The {_taken(loss.component)[0]} of policy '{loss.policy}'", f"of cluster '{change.cluster}'"
    if loss.component != "driver":
        if loss.nodes:
            return f"{subject} goes from {wording.nodes(loss.nodes)} {of_cluster}."
        return f"{subject} goes from cluster '{change.cluster}'; no node of the inventory has it today."
    if not loss.nodes:
        does = "is removed from" if _cleans(change, loss) else "loses its installer, and stays, on"
        return f"{subject} {does} the hosts of cluster '{change.cluster}'; no node of the inventory has it today."
    staying = [name for name in loss.nodes if name not in loss.uninstalled]
    parts = (
        (f"loses its installer, and stays, on {wording.nodes(staying)}", staying),
        (f"is removed from {wording.nodes(loss.uninstalled)}", loss.uninstalled),
    )
    return f"{subject} {' and '.join(text for text, nodes in parts if nodes)} {of_cluster}."


def _what_goes(change: OutputChange, loss: losses.Loss) -> Iterator[str]:
    """Yield what leaves the output, and why a person is asked."""
    if loss.last:
        yield f"Its last DaemonSet leaves the output, and {change.deletion.of('it')}.{_then(change)}"
    elif loss.nodes and not loss.unlabelled:
        yield (
            f"These are {len(loss.nodes)} of the {loss.served} nodes that it serves, and limits.removedPercent "
            f"allows {change.removed_percent:g} %."
        )


def _then(change: OutputChange) -> str:
    return "" if change.deletion.prunes else " What is said of nodes comes true then."


def _thawing(change: OutputChange, loss: losses.Loss) -> Iterator[str]:
    """Yield which nodes leave a frozen group with their driver: `thawed` does not ask of these again."""
    if loss.component == "driver":
        groups = dict.fromkeys(item.group for item in change.before.index.frozen or () if item.policy == loss.policy)
        for group in groups:
            frozen = sorted(change.before.members(loss.policy, group).intersection(loss.nodes))
            if frozen:
                yield f"{wording.nodes(frozen)} of the frozen group '{group}' {_are(frozen)} among them."


def _are(nodes: Sequence[str]) -> str:
    return "is" if len(nodes) == 1 else "are"


def _on_hosts(change: OutputChange, loss: losses.Loss) -> Iterator[str]:
    """Yield what becomes of a driver on hosts that lose its installer."""
    if _stays(change, loss):
        yield _STAYS
    if _cleans(change, loss):
        yield _CLEANS


_CLEANS = (
    "It has driver.enabledCleanup: its installers remove the driver from the hosts as they end. A host whose devices "
    "are in use for too long keeps it; driver.state: Absent waits for each."
)
_RESTORE = "Bring its KAECluster or its inventory back."
_STAYS = (
    "What it has installed stays on the hosts, modules, packages, libraries and /var/lib/kae; nothing updates or "
    "removes it."
)


def removed_policies(
    folder: str, name: str, index: index_file.Index, cleaning: Collection[str]
) -> Iterator[Acceptable]:
    """A cluster with drivers or device plugins in its output is still declared.

    `cleaning` are the policies with enabledCleanup.
    """
    too = causes.from_hosts(causes.first_absent("remove the cluster"))
    for path in index.untold() if index.complete else ():
        yield _damaged(name, f"{folder}/{name}/{path}", "missing or damaged")
    for component in index.components:
        noun, code = _taken(component)
        for _, policy in index.owners(component):
            yield Change(cluster=name).acceptable(
                Span(file=f"{folder}/{name}"),
                f"The {noun} of policy '{policy}' goes with the output of cluster '{name}'.",
                code=code,
                notes=(
                    "No KAECluster and no inventory has this name.",
                    *((_CLEANS if policy in cleaning else _STAYS,) if component == "driver" else ()),
                ),
                hint=" ".join((_RESTORE, *((too,) if component == "driver" else ()))),
                policy=policy,
            )


def changes(change: OutputChange, found: Sequence[losses.Loss]) -> Iterator[Diagnostic]:
    """Yield what changes for nodes without being a removal, and drivers that stay on hosts without a policy."""
    yield from reassigned(change, found)
    for loss in found:
        if loss.nodes and not loss.is_removal(change.removed_percent):
            yield left_out(change, loss)
        if loss.removed:
            yield uninstalled(change, loss)
        if not loss.last:
            yield from removed_pools(change, loss)
    yield from left_waves(change)
    yield from disabled_kinds(change)
    yield from removed_nfd(change)
    yield from left_drivers(change, found)


@rule("nodes-left-out", "change")
def left_out(change: OutputChange, loss: losses.Loss) -> Diagnostic:
    """A node keeps its driver and its device plugin."""
    found = causes.of_loss(change, loss)
    serves = f"It serves {loss.served - len(loss.nodes)} of {loss.served} nodes from now on."
    return Diagnostic(
        span=found[0][0].span,
        message=_lost(change, loss),
        notes=(*causes.facts(found), serves, *_on_hosts(change, loss)),
        hint=causes.ways_out(found, stays=_stays(change, loss)),
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


@rule("pool-removed", "change")
def removed_pools(change: OutputChange, loss: losses.Loss) -> Iterator[Diagnostic]:
    """The policy keeps a pool for each kernel that it had one for.

    Which nodes move to another pool, policy or to none is told elsewhere.
    """
    policy = next((one for one in change.policies if one.name == loss.policy), None)
    gone = loss.vacant if policy is not None and policy.mappings else ()  # Without mappings it serves every kernel.
    found = repeats.grouped((causes.of_vacant(change, policy, pool), pool) for pool in gone if policy is not None)
    for cause, pools in found.items():
        count = len(pools)
        yield Diagnostic(
            span=cause.span,
            message=f"The {wording.inflected('DaemonSet', count)} of {wording.inflected('pool', count)} "
            f"{wording.listed(pools, most=5)} of policy '{loss.policy}' {'leaves' if count == 1 else 'leave'} cluster "
            f"'{change.cluster}'.",
            notes=(
                cause.fact,
                *(() if change.deletion.prunes else (f"Where one leaves the output, {change.deletion.of('it')}.",)),
            ),
            hint=cause.undo,
        )


@rule("node-leaves-wave", "change")
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
                span=change.policy_span(policy),
                message=f"{wording.nodes(nodes)} of cluster '{change.cluster}' "
                f"{'leaves' if len(nodes) == 1 else 'leave'} wave '{wave}' of policy '{policy}'.",
                notes=("The inventory does not have them any more; a node that is still there gets another version.",),
                hint="If they are still there, take a new inventory first.",
            )


@rule("kind-disabled", "change")
def disabled_kinds(change: OutputChange) -> Iterator[Diagnostic]:
    """A device plugin keeps the kinds of devices that it offers."""
    switching = {division.policy.name for division in change.planned.divisions if division.policy.written.switches}
    for owner in change.before.index.owners("device-plugin"):
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
            span=change.policy_span(policy),
            message=f"Policy '{policy}' no longer offers {wording.listed(sorted(before - after))} in cluster "
            f"'{change.cluster}'.",
            notes=("Pods that ask for these resources stay Pending from now on.",),
            hint=f"Enable the {noun} {place}, if this is not meant.",
        )


@rule("nfd-removed", "change")
def removed_nfd(change: OutputChange) -> Iterator[Diagnostic]:
    """The NFD that output/ deploys stays."""
    if change.before.has("nfd") and not change.after.has("nfd"):
        yield Diagnostic(
            span=change.cluster_span("spec", "nfd", "enabled"),
            message=f"NFD leaves cluster '{change.cluster}', and with it whoever keeps the labels of the nodes.",
            notes=("Every DaemonSet of the driver and of the device plugin selects its nodes by these labels.",),
            hint="Run another NFD in the cluster before this is applied.",
        )


@rule("nodes-reassigned", "change")
def reassigned(change: OutputChange, found: Iterable[losses.Loss]) -> Iterator[Diagnostic]:
    """A node stays with its policy."""
    pairs: dict[tuple[str, str], set[str]] = {}
    gone = {loss.policy for loss in found if loss.last}
    for loss in found:
        for heir, nodes in loss.moved.items():
            pairs.setdefault((loss.policy, heir), set()).update(nodes)
    for (policy, heir), moved in pairs.items():
        yield Diagnostic(
            span=change.policy_span(heir),
            message=f"{wording.nodes(sorted(moved))} of policy '{policy}' in cluster '{change.cluster}' "
            f"{'is' if len(moved) == 1 else 'are'} now governed by '{heir}'.",
            notes=tuple(_handover(change, policy)) if policy in gone else (),
            hint=f"Restore the selectors of '{policy}', if this is not meant.",
        )


def _handover(change: OutputChange, policy: str) -> Iterator[str]:
    if not change.deletion.prunes:
        both = "until then the nodes have the pods of both policies"
        yield f"The DaemonSets of the old policy leave the output, and {change.deletion.of('them')}: {both}."
        return
    yield "The DaemonSets of the old policy are deleted, those of the new one start on the same nodes."
    if policy in {policy for _, policy in change.before.cleaning}:
        yield "The old one has driver.enabledCleanup: its installers remove the driver before the new ones install it."


_MOST_LEFT = 20
"""Objects that a note names."""


@rule("cluster-removed", "change")
def removed_cluster(folder: str, name: str, left: Sequence[str]) -> Diagnostic:
    """A cluster with output still has documents.

    What is `left` are the objects that an engine does not delete.
    """
    kept = f"Marked to stay in the cluster: {wording.listed(left, most=_MOST_LEFT)}."
    return Diagnostic(
        span=Span(file=f"{folder}/{name}"),
        message=f"Cluster '{name}' is no longer declared, so its output is removed.",
        notes=(
            deletions.OF_FOLDERS,
            "Where no engine follows it, its objects stay until somebody deletes them.",
            *((kept,) if left else ()),
        ),
        hint="Bring its KAECluster or its inventory back, if this is not meant.",
    )


@rule("driver-left-behind", "change")
def left_drivers(change: OutputChange, found: Sequence[losses.Loss]) -> Iterator[Diagnostic]:
    """A driver is removed before its policy is deleted."""
    for loss in found:
        is_told = loss.nodes and not loss.is_removal(change.removed_percent)  # As `nodes-left-out`.
        if is_told or not _stays(change, loss) or not (loss.nodes or (loss.last and not loss.moved)):
            continue
        cause, _ = causes.of_loss(change, loss)[0]
        where = f"{wording.nodes(loss.nodes)} of" if loss.nodes else "hosts of"
        yield Diagnostic(
            span=cause.span,
            message=f"The driver of policy '{loss.policy}' stays on {where} cluster '{change.cluster}' without an "
            "installer.",
            notes=(_STAYS,),
            hint=causes.ways_out(((cause, loss.nodes),), stays=True),
        )
