"""The Jobs of `kae smoke`: for each resource of a plan, a pod that opens a device and starts a queue."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from compiler import devices, names, wording
from compiler.model import driver as drivers
from compiler.planning import plan, pools
from compiler.rendering import ir, pod_values

TEMPLATE = "job.yaml"
COMPONENT = "smoke"

_USER = 65532
"""The user of containers that need none of root's rights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """NodeSelectorTerm v1 core that names a node."""

    matchFields: tuple[ir.Requirement, ...]  # noqa: N815 - as Kubernetes spells it


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The input of the template."""

    name: str
    namespace: str
    image: str
    pull_policy: str
    pull_secrets: tuple[ir.Reference, ...]
    terms: tuple[ir.Term | NodeTerm, ...]
    """The nodes on which it may run."""
    tolerations: tuple[ir.Toleration, ...]
    limits: ir.Map
    is_root: bool
    """True where the device nodes are root's alone."""
    user: int | None
    """None where the platform chooses it."""
    device_group: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Smoke:
    """The Jobs of a cluster, and a sentence for everything that none of them tries."""

    jobs: tuple[Job, ...]
    left_out: tuple[str, ...]


def of_plan(view: plan.Plan, nodes: Sequence[str] = ()) -> Smoke:
    """Return a Job for each policy and resource of a plan, on any of its nodes; with names, for each of these nodes."""
    places = [
        (decision, node)
        for decision in view.decisions
        for node in (decision.names if nodes else ("",))
        if not nodes or node in nodes
    ]
    jobs = {
        (division.policy.name, resource, node): _job(view, division, resource, node)
        for decision, node in places
        if (division := decision.division) is not None
        for resource, _ in decision.resources
        if resource not in _VFIO
    }
    left_out = dict.fromkeys(sentence for decision, node in places for sentence in _untried(decision, node))
    return Smoke(jobs=tuple(jobs[key] for key in sorted(jobs)), left_out=(*left_out, *_of_recipes(view, nodes)))


def _of_recipes(view: plan.Plan, nodes: Sequence[str]) -> Iterator[str]:
    """Yield a sentence for each policy of another recipe on the nodes: no process of ours can use its devices."""
    for stack in view.stacks:
        places = [item for item in stack.decisions if not nodes or not set(item.names).isdisjoint(nodes)]
        for name in sorted({item.policy.name for item in places if item.policy}):
            yield f"policy '{name}' of recipe '{stack.recipe.name}': Jobs try the devices of KAE alone"


_VFIO = frozenset(kind.vfio_resource for kind in devices.KINDS)


def _untried(decision: plan.Decision, node: str) -> Iterator[str]:
    """Yield a sentence for nodes without a device that could be tried, and for each resource that cannot be."""
    if not decision.resources and (node or decision.policy):
        expected = "the plan expects no device" if decision.device_plugin.image else decision.device_plugin.reason
        yield f"{node or wording.nodes(decision.names)}: {expected}"
    for resource, _ in decision.resources:
        if resource in _VFIO:
            yield f"{resource}, which is for virtual machines: no process can start a queue of it"


def _job(view: plan.Plan, division: pools.Division, resource: str, node: str) -> Job:
    policy, spec = division.policy, view.cluster.spec
    plugin = policy.spec.devicePlugin
    end = f"-{hashlib.sha256(node.encode()).hexdigest()[:8]}" if node else ""
    given = policy.spec.driver.deviceNodes if policy.spec.driver.enabled else plugin.deviceNodes
    is_root = _is_roots(given)
    chosen_by_platform = is_root or spec.platform == "openshift"
    return Job(
        name=f"{names.SMOKE}-{policy.name}-{resource.rpartition('.')[2]}{end}",
        namespace=spec.namespace,
        image=division.device_plugin_image,
        pull_policy=plugin.pullPolicy,
        pull_secrets=pod_values.references(plugin.pullSecrets),
        terms=(_named(node),) if node else tuple(map(pod_values.term, division.device_plugin_terms)),
        tolerations=tuple(map(pod_values.toleration, policy.spec.daemonSets.tolerations)),
        limits=ir.mapping([(resource, 1)]),
        is_root=is_root,
        user=None if chosen_by_platform else _USER,
        device_group=given.group if given is not None and not is_root and given.mode == "0660" else None,
    )


def _named(node: str) -> NodeTerm:
    return NodeTerm(matchFields=(ir.Requirement(key="metadata.name", operator="In", values=(node,)),))


def _is_roots(given: drivers.DeviceNodes | None) -> bool:
    """Return whether only root may open the device nodes; a driver that others installed leaves them at 0600."""
    return given is None or (given.mode == "0660" and given.group is None)


def manifests(made: Smoke) -> Iterator[ir.Manifest]:
    """Yield the manifest of each Job."""
    for value in made.jobs:
        yield ir.Manifest(component=COMPONENT, template=TEMPLATE, value=value)
