"""The Jobs of `kae smoke`: for each resource of a plan, a pod that opens a device and starts a queue."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from compiler import names, wording
from compiler.fleet import definitions, pods, selectors
from compiler.planning import plan, pools
from compiler.rendering import ir
from runtime import device_plugin_config

_USER = 65532
"""The user of containers that need none of root's rights."""


class NodeTerm(msgspec.Struct, frozen=True, kw_only=True):
    """NodeSelectorTerm v1 core that names a node."""

    matchFields: selectors.Term  # noqa: N815 - as Kubernetes spells it


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the template."""

    name: str
    namespace: str
    image: str
    pull_policy: str
    pull_secrets: tuple[pods.Reference, ...]
    terms: tuple[ir.Term | NodeTerm, ...]
    """The nodes on which it may run."""
    tolerations: tuple[pods.Toleration, ...]
    limits: Mapping[str, int]
    is_root: bool
    """True where the device nodes are root's alone."""
    user: int | None
    """None where the platform chooses it."""
    device_group: int | None


class Smoke(msgspec.Struct, frozen=True, kw_only=True):
    """The Jobs of a cluster, and a sentence for everything that none of them tries."""

    jobs: tuple[ir.Manifest, ...]
    left_out: tuple[str, ...]
    claiming: tuple[str, ...]
    """The Jobs whose pods get their device by a claim, which the scheduler makes for them (DRA)."""


def of_plan(view: plan.Plan, nodes: Sequence[str] = ()) -> Smoke:
    """Return a Job for each policy and resource of a plan, on any of its nodes; with names, for each of these nodes."""
    places = [
        (decision, node)
        for one in view.recipes
        if one.recipe.is_tried
        for decision in one.decisions
        for node in (decision.names if nodes else ("",))
        if not nodes or node in nodes
    ]
    jobs = {
        (division.policy.name, resource, node): _job(view, division, plugin, (resource, node))
        for decision, node in places
        if (division := decision.division) is not None and (plugin := division.policy.offered) is not None
        for resource, _ in decision.resources
        if resource not in _of_guests(decision)
    }
    by_claim = {decision.policy.name for decision, _ in places if decision.policy and decision.interface == "DRA"}
    left_out = dict.fromkeys(sentence for decision, node in places for sentence in _untried(decision, node))
    return Smoke(
        jobs=tuple(ir.Manifest(component="smoke", template="job.yaml", value=jobs[key]) for key in sorted(jobs)),
        left_out=(*left_out, *_of_recipes(view, nodes)),
        claiming=tuple(jobs[key].name for key in sorted(jobs) if key[0] in by_claim),
    )


def _of_recipes(view: plan.Plan, nodes: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each policy on the nodes of a recipe whose devices no process of ours can use."""
    tried = wording.listed(one.recipe.words.software for one in view.recipes if one.recipe.is_tried)
    for one in (one for one in view.recipes if not one.recipe.is_tried):
        places = [item for item in one.decisions if not nodes or not set(item.names).isdisjoint(nodes)]
        for name in sorted({item.policy.name for item in places if item.policy}):
            yield f"policy '{name}'{one.recipe.words.suffix}: Jobs try the devices of {tried} alone"


def _of_guests(decision: plan.Decision) -> frozenset[str]:
    """Return the resources of a decision that are for virtual machines."""
    plugin = decision.policy.offered if decision.policy else None
    offered = plugin.resources if plugin else ()
    return frozenset(one.name for one in offered if isinstance(one, device_plugin_config.Vfio))


def _untried(decision: plan.Decision, node: str) -> Iterator[str]:
    """Yield a sentence for nodes without a device that could be tried, and for each resource that cannot be."""
    if not decision.resources and (node or decision.policy):
        expected = "the plan expects no device" if decision.device_plugin.image else decision.device_plugin.reason
        yield f"{node or wording.nodes(decision.names)}: {expected}"
    for resource, _ in decision.resources:
        if resource in _of_guests(decision):
            yield f"{resource}, which is for virtual machines: no process can start a queue of it"


def _job(view: plan.Plan, division: pools.Division, plugin: definitions.Plugin, place: tuple[str, str]) -> Job:
    (resource, node), policy, spec = place, division.policy, view.cluster.spec
    end = f"-{hashlib.sha256(node.encode()).hexdigest()[:8]}" if node else ""
    given = policy.installed.device_nodes if policy.installed else plugin.device_nodes
    # A driver that others installed leaves its device nodes at 0600.
    is_root = given is None or (given.mode == "0660" and given.group is None)
    named = selectors.Requirement("metadata.name", "In", (node,))
    chosen_by_platform = is_root or spec.platform == "openshift"
    return Job(
        name=f"{names.SMOKE}-{policy.name}-{resource.rpartition('.')[2]}{end}",
        namespace=spec.namespace,
        image=division.device_plugin_image,
        pull_policy=plugin.container.pull_policy,
        pull_secrets=plugin.container.pull_secrets,
        terms=(NodeTerm(matchFields=(named,)),) if node else tuple(map(ir.Term, division.device_plugin_terms)),
        tolerations=policy.pods.tolerations,
        limits={resource: 1},
        is_root=is_root,
        user=None if chosen_by_platform else _USER,
        device_group=given.group if given is not None and not is_root and given.mode == "0660" else None,
    )
