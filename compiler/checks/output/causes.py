"""Why a compile takes a driver or a device plugin from nodes: the place, the fact, and the ways out."""

import itertools
import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from compiler import names, repeats, wording
from compiler.changes import losses
from compiler.checks import fleet as fleet_checks
from compiler.checks import mappings
from compiler.checks.change import OutputChange
from compiler.diagnostics import Span
from compiler.fleet import assignment, definitions, selectors
from compiler.output import index_file
from compiler.planning import kernels, overrides, plan, pools

_READY = "when `kae status` shows every pod ready"


class Cause(NamedTuple):
    """The reason why nodes lose a component."""

    span: Span
    fact: str
    """A sentence without the nodes."""
    undo: str
    """A sentence: how the nodes keep the component."""
    remove: str = ""
    """How the driver goes from the hosts too, if that is meant; empty where nothing but the mistake is likely."""


Found = Sequence[tuple[Cause, Sequence[str]]]
"""Causes with their nodes, that of the most nodes first; at least one."""

_MOST = 3
"""Causes that a finding tells."""


def of_loss(change: OutputChange, loss: losses.Loss) -> Found:
    """Return the causes of a loss.

    Where no node loses anything today, the pools of one kernel have gone with the last node that ran it: then a kernel
    without a mapping, which nodes of the policy run instead, is the cause.
    """
    policy = next((one for one in change.policies if one.name == loss.policy), None)
    if policy is None:
        return ((_gone(change, loss), loss.nodes),)
    whole = _of_policy(change, loss, policy)
    if whole is not None:
        return ((whole, loss.nodes),)
    lost = frozenset(loss.nodes)
    every = (one.decisions for one in change.planned.recipes if one.recipe.name == loss.recipe)
    found = repeats.grouped(
        (_of_decision(change, loss, policy, decision), name)
        for decision in itertools.chain.from_iterable(every)
        if (not lost.isdisjoint(decision.names) if lost else _is_unmapped(policy, decision))
        for name in decision.names
        if not lost or name in lost
    )
    if not found:
        return ((_without_nodes(change, loss, policy), loss.nodes),)
    return sorted(found.items(), key=lambda each: -len(each[1]))


def _gone(change: OutputChange, loss: losses.Loss) -> Cause:
    """Return the cause where no document declares the policy: its file is gone, or holds none."""
    own = [file for file in change.empty if names.stem(file) == loss.policy]
    files = own or (list(change.empty) if len(change.empty) == 1 else [])
    fact = f"No document declares policy '{loss.policy}' any more"
    if files:
        span, fact = Span(file=files[0]), f"{fact}, and {files[0]} holds none."
        # A name that a shell takes otherwise is no part of a command, and ci/compile.sh reads hints.
        command = f", such as by `git checkout HEAD -- {files[0]}`" if shlex.quote(files[0]) == files[0] else ""
        undo = f"Restore the document{command}."
    else:
        span, fact = change.output_span(loss.policy, loss.component), f"{fact}."
        undo = f"Restore its document; `git log --oneline -S 'name: {loss.policy}'` lists its commits."
    return Cause(span, fact, undo, first_absent("delete it"))


def first_absent(then: str) -> str:
    """Return how a driver goes from the hosts before something is done to its policy."""
    return f"compile the policy with driver.state: Absent first, and {then} {_READY}"


def _by_policy(where: str) -> str:
    return f"add a policy with driver.state: Absent for {where}, and delete that one {_READY}"


_FIELDS = {"driver": ("driver", "driver"), "device-plugin": ("devicePlugin", "device plugin")}
"""The field and the noun of a component; others are programs."""


def _of_policy(change: OutputChange, loss: losses.Loss, policy: definitions.Policy) -> Cause | None:
    """Return the cause that is the same for all nodes of a policy; None where each node has its own."""
    source, cluster, recipe = policy.source, change.cluster, f"recipe '{loss.recipe}'"
    if policy.recipe.name != loss.recipe:
        fact = f"Policy '{policy.name}' is now for recipe '{policy.recipe.name}'; it was for '{loss.recipe}'."
        undo = "Restore the recipe of the policy, or give the new one another name."
        return Cause(source.setting_span("spec", "recipe"), fact, undo, first_absent("change its recipe"))
    if all(division.policy.name != policy.name for division in change.planned.divisions):
        fact = f"Policy '{policy.name}' is no longer for cluster '{cluster}'."
        undo = f"Have spec.clusters name '{cluster}' again."
        return Cause(source.span("spec", "clusters"), fact, undo, _by_policy(f"cluster '{cluster}'"))
    field, noun = _FIELDS.get(loss.component, (f"programs.{loss.component}", f"program '{loss.component}'"))
    if not policy.brings(loss.component):
        if not policy.has(loss.component):
            given = policy.recipe_source
            span = given.span("spec") if given else change.policy_span(policy.name)
            fact, undo = f"{recipe.capitalize()} has no {noun} any more.", f"Restore spec.{field} of {recipe}."
            return Cause(span, fact, undo, first_absent("change the recipe"))
        fact = f"{field}.enabled is false: the {noun} counts as pre-installed."
        then = first_absent(f"set {field}.enabled: false")
        return Cause(
            source.setting_span("spec", *field.split("."), "enabled"), fact, f"Set {field}.enabled: true.", then
        )
    if loss.unlabelled:
        return _unlabelled(change, loss, policy)
    return None


def _unlabelled(change: OutputChange, loss: losses.Loss, policy: definitions.Policy) -> Cause:
    fact = (
        f"The NodeFeatureRule '{loss.recipe}' leaves the output, so no node keeps the labels that DaemonSets select by."
    )
    nfd = change.planned.cluster.spec.nfd
    remove = _by_policy(f"cluster '{change.cluster}'")
    if nfd.enabled or nfd.nodefeaturerules:
        given = policy.recipe_source
        span = given.span("spec", "match") if given else change.policy_span(policy.name)
        return Cause(span, fact, f"Restore spec.match of recipe '{loss.recipe}'.", remove)
    undo = "Set nfd.nodefeaturerules: true in its KAECluster, unless the rules are applied elsewhere."
    return Cause(change.cluster_span("spec", "nfd", "enabled"), fact, undo)


def _without_nodes(change: OutputChange, loss: losses.Loss, policy: definitions.Policy) -> Cause:
    """Return the cause where no known node loses anything: the pools of the inventory, or of an edited mapping, go."""
    span = policy.source.setting_span(*mappings.path_of(policy))
    earlier, later = (
        {item.pool for item in side.index.of_owner(loss.component, index_file.Owner(loss.recipe, loss.policy))}
        for side in (change.before, change.after)
    )
    gone = sorted(filter(None, earlier - later))
    known = [pool for pool in gone if pools.follows_inventory(policy, pool)]
    if loss.unknown or known:
        went = wording.listed(known or gone or (loss.policy,), most=5)
        fact = f"The DaemonSets of {went} leave the output with the nodes of the inventory."
        return Cause(span, fact, "Restore the inventory, or list the kernels in `kernels` of the mapping.")
    division = next(one for one in change.planned.divisions if one.policy.name == policy.name)
    if loss.component not in _FIELDS and (division.parts or not gone):
        fact = f"By its conditions, policy '{policy.name}' has program '{loss.component}' on no node any more."
        return Cause(change.policy_span(policy.name), fact, "Undo the edit of its values, or of the recipe.")
    went = f"{wording.inflected('pool', len(gone) or 1)} {wording.listed(gone or (loss.policy,), most=5)}"
    fact = (
        f"An edit takes the {went} away. The mappings of policy '{policy.name}' have pools by the kernels of the "
        "inventory, where no node has one of them."
    )
    return Cause(span, fact, "Undo the edit, or list the kernels in `kernels` of a mapping.")


def of_vacant(change: OutputChange, policy: definitions.Policy, pool: str) -> Cause:
    """Return the cause where a pool without a known node goes, and with it the last pool of its kernel."""
    mapping, span = pools.mapping_of(policy, pool), policy.source.setting_span(*mappings.path_of(policy))
    if mapping is None:
        said = pools.one_kernel(pool)
        name = said.mapping if said else pool
        fact = f"Policy '{policy.name}' has no mapping '{name}' any more."
        return Cause(span, fact, f"Restore mapping '{name}' if hosts run its kernels.")
    if pools.follows_inventory(policy, pool):
        fact = f"Mapping '{mapping.name}' has a pool for each kernel that nodes of the inventory run."
        undo = "If such nodes are still there, take a new inventory first."
        return Cause(change.policy_span(policy.name), fact, undo)
    span = policy.source.span(*mapping.path, "name")
    if pools.listed(mapping) and overrides.is_per_kernel(policy, mapping):
        fact = f"Mapping '{mapping.name}' names its kernel no longer."
        return Cause(span, fact, f"Name it in mapping '{mapping.name}' again if hosts run it.")
    fact = f"Mapping '{mapping.name}' has one pool for all kernels now, as its images are not named after them."
    return Cause(span, fact, "Name them after the kernel again, unless one image serves every kernel.")


def _of_decision(change: OutputChange, loss: losses.Loss, policy: definitions.Policy, decision: plan.Decision) -> Cause:
    """Return the cause for nodes of one decision."""
    if decision.policy is None or decision.policy.name != policy.name:
        return _left(change, loss, policy, decision)
    node, landing = decision.node, decision.landing(loss.component)
    if landing.obstacle == "hardware":
        return _unserved(change, policy, decision)
    if landing.obstacle == "kernel":
        return _unmapped(change, policy, kernels.machine(node.profile))
    span, undo = change.policy_span(policy.name), f"`kae explain {node.name}` tells more."
    if landing.obstacle == "taints":
        span = policy.source.setting_span("spec", "daemonSets", "tolerations")
        undo = "Add a toleration to daemonSets.tolerations."
    return Cause(span, f"{landing.reason[:1].upper()}{landing.reason[1:]}.", undo, _by_policy("such nodes"))


def _is_unmapped(policy: definitions.Policy, decision: plan.Decision) -> bool:
    """Return whether the nodes of a decision are those of a policy without a mapping for their kernel."""
    is_own = decision.policy is not None and decision.policy.name == policy.name
    return is_own and decision.driver.obstacle == "kernel"


def _left(change: OutputChange, loss: losses.Loss, policy: definitions.Policy, decision: plan.Decision) -> Cause:
    """Return the cause where the policy no longer takes nodes: its selector, or that of the policy that takes them."""
    heir, nodes, parts = decision.policy, change.planned.inventory.nodes, list[str]()
    is_own = policy.selector is not None and not selectors.term_matches(policy.term, decision.node.label)
    span = fleet_checks.selector_span(policy if is_own or heir is None else heir)
    undo = f"Correct the nodeSelector of policy '{policy.name}', or the labels of the nodes."
    if is_own and any(selectors.term_matches(policy.term, node.label) for node in nodes):
        parts.append(f"The nodeSelector of policy '{policy.name}' no longer matches.")
    elif is_own:
        parts.append(selectors.why_unmatched(policy.term, nodes))
    elif heir is not None:
        undo = f"Narrow the nodeSelector of policy '{heir.name}'."
    remove = _by_policy("such nodes")
    if heir is not None:
        reason = decision.landing(loss.component).reason
        is_absent = decision.pool is not None and decision.pool.driver.state == "Absent"
        if is_absent and loss.component == "driver":
            reason, remove = "its driver.state is Absent", ""
        parts.append(f"Policy '{heir.name}' takes such nodes: {reason}.")
    return Cause(span, " ".join(parts) or "No policy takes such nodes any more.", undo, remove)


def _unserved(change: OutputChange, policy: definitions.Policy, decision: plan.Decision) -> Cause:
    """Return the cause where the nodes have no hardware that the policy serves."""
    remove = _by_policy("such nodes")
    has = [kind.name for kind in assignment.kinds(policy.recipe.kinds, decision.node)]
    if policy.written.switches and has:
        served = wording.listed(kind.name for kind in policy.kinds)
        fact = f"Policy '{policy.name}' serves {served} alone, and such nodes have {wording.listed(has)}."
        span = policy.source.setting_span("spec", "operator")
        return Cause(span, fact, "Enable their kinds of devices under spec.operator.", remove)
    given = policy.recipe_source
    span = given.span("spec", "match") if given else change.policy_span(policy.name)
    fact = f"Such nodes do not have the labels of {policy.recipe.words.devices}."
    return Cause(span, fact, f"Restore spec.match of recipe '{policy.recipe.name}'.", remove)


def _unmapped(change: OutputChange, policy: definitions.Policy, machine: kernels.Machine) -> Cause:
    """Return the cause where no mapping has a driver for a kernel."""
    absent = "driver: {state: Absent}" if policy.written.names_images else "state: Absent"
    remove = f"add a mapping for the kernel with {absent}, and remove that one {_READY}"
    mapping, shown = kernels.first(policy.mappings, machine), kernels.said(policy.mappings, machine)
    if mapping is not None:
        span = policy.source.setting_span(*mapping.path, "kernels")
        fact = f"Mapping '{mapping.name}' lists no image for the kernel {machine.kernel}."
        return Cause(span, fact, f"Add {machine.kernel} to `kernels` of mapping '{mapping.name}'.", remove)
    fact, undo = f"No mapping covers the kernel {shown}", f"Add a mapping for the kernel {shown}"
    near = _near(change, policy, machine.kernel)
    if near is not None:
        span = policy.source.span(*near.path, "literal")
        fact += f"; did mapping '{near.name}' mean it by {near.literal}?"
        return Cause(span, fact, f"{undo}, or correct the literal of mapping '{near.name}'.", remove)
    return Cause(policy.source.setting_span(*mappings.path_of(policy)), f"{fact}.", f"{undo}.", remove)


def _near(change: OutputChange, policy: definitions.Policy, kernel: str) -> definitions.KernelMapping | None:
    """Return the mapping whose literal may be a misspelt kernel: it is near, and no node of the policy runs it."""
    divisions = (division for division in change.planned.divisions if division.policy.name == policy.name)
    run = {kernels.cleaned(node.profile.kernel_version) for division in divisions for node in division.nodes}
    literals = {
        mapping.literal: mapping
        for mapping in policy.mappings
        if mapping.literal is not None and kernels.cleaned(mapping.literal) not in run
    }
    near = wording.nearest(kernel, literals)
    return literals[near] if near is not None and near.partition("-")[0] == kernel.partition("-")[0] else None


def facts(found: Found) -> Iterator[str]:
    """Yield the sentences that say why, each with its nodes where there are several."""
    for cause, nodes in found[:_MOST]:
        yield cause.fact if len(found) == 1 else f"{wording.nodes(nodes)}: {cause.fact}"


def from_hosts(how: str) -> str:
    """Return the sentence that says how a driver which stays is removed too."""
    return f"To have the driver removed from the hosts too, {how}."


def ways_out(found: Found, *, stays: bool) -> str:
    """Return the sentences that say how the nodes keep the component, and how a driver that stays is removed too."""
    removal = found[0][0].remove if stays else ""
    undo = dict.fromkeys(cause.undo for cause, _ in found[:_MOST])
    return " ".join((*undo, *((from_hosts(removal),) if removal else ())))
