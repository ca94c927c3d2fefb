"""The nodes and pools that a compile takes a driver or a device plugin from.

Both outputs are judged on the nodes of the new inventory: a label that a node has lost since then has moved its pods
already, and no compile takes anything away by it. Most pools of one kernel follow the kernels of the inventory, so
their DaemonSets go with the last node of it; others go with an edit of a mapping or a wave.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from compiler import repeats
from compiler.changes import sides
from compiler.output import index_file
from compiler.output.index_file import Owner
from compiler.planning import plan, pools


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes and pools that a policy's driver or device plugin loses in a cluster."""

    component: index_file.Component
    recipe: str
    policy: str
    last: bool
    """True when the last DaemonSet of the component goes."""
    unlabelled: bool
    """True when the NodeFeatureRule goes that labels nodes with devices."""
    pools: tuple[str, ...]
    """The pools of one kernel whose DaemonSets go: most follow from the inventory."""
    vacant: tuple[str, ...]
    """Those of them that serve no known node, and whose kernel no other pool of the policy is for."""
    unknown: bool
    """True when the inventory had nodes and has none, so the nodes that it serves are not known."""
    served: int
    """The number of known nodes that it serves in the earlier output."""
    nodes: tuple[str, ...]
    """The nodes that no DaemonSet of the component serves any more."""
    uninstalled: tuple[str, ...]
    """Those of `nodes` that lose the driver too: by a cleanup, or as another policy has it Absent."""
    removed: tuple[str, ...]
    """The nodes whose driver a DaemonSet of state Absent removes from now on."""
    moved: Mapping[str, tuple[str, ...]]
    """The nodes that another policy's DaemonSet serves from now on, by policy."""

    def is_removal(self, percent: float) -> bool:
        """Return whether a person has to accept it; a component may leave `percent` of its nodes, or one node."""
        if self.last or self.unlabelled:
            return bool(self.nodes) or not self.served
        if self.pools and self.unknown:
            return True
        return len(self.nodes) > 1 and len(self.nodes) * 100 > percent * self.served


class Serving(NamedTuple):
    """The policy whose DaemonSet serves a node from now on, and the pool of its driver."""

    policy: str
    pool: pools.Pool | None

    @property
    def removes(self) -> bool:
        """True where an installer removes the driver."""
        return self.pool is not None and self.pool.driver.state == "Absent"


def losses(before: sides.Output, after: sides.Output, planned: plan.Plan) -> Iterator[Loss]:
    """Yield the losses of each policy that has DaemonSets in the earlier output."""
    for component in before.index.components:
        kept = set(after.index.owners(component, absent=True))
        for owner in before.index.owners(component):
            unlabelled = before.rule(owner.recipe) is not None and after.rule(owner.recipe) is None
            is_same = _selections(before, component, owner) == _selections(after, component, owner)
            if owner in kept and is_same and not unlabelled:
                continue
            served = before.serving(component, owner, planned)
            heirs = {} if unlabelled else serving(planned, component, owner.recipe, frozenset(served))
            later = {name: heirs.get(name) for name in sorted(served)}
            left = ((now.policy, name) for name, now in later.items() if now and now.policy != owner.policy)
            moved = repeats.grouped(left)
            lost = [n for n, now in later.items() if now is None or (now.removes and now.policy != owner.policy)]
            cleaning = component == "driver" and owner not in kept and owner in before.cleaning
            recorded, present = _kernels(before, component, owner), _kernels(after, component, owner)
            gone = tuple(sorted(recorded.keys() - present.keys()))
            peopled = {item.workload.pool for item in served.values()}
            kept_kernels = set(present.values())
            yield Loss(
                component=component,
                recipe=owner.recipe,
                policy=owner.policy,
                last=owner not in kept,
                unlabelled=unlabelled,
                pools=gone,
                vacant=tuple(p for p in gone if p not in peopled and recorded[p] not in kept_kernels),
                unknown=before.index.has_nodes and not planned.inventory.nodes,
                served=len(later),
                nodes=tuple(lost),
                uninstalled=tuple(name for name in lost if later[name] is not None or cleaning),
                removed=tuple(n for n, now in later.items() if now and now.removes and now.policy == owner.policy),
                moved={name: tuple(nodes) for name, nodes in sorted(moved.items())},
            )


def serving(
    planned: plan.Plan, component: index_file.Component, recipe: str, nodes: frozenset[str]
) -> dict[str, Serving]:
    """Return what serves each of these nodes of a recipe, by the plan."""
    found = {}
    for decision in planned.decisions:
        if decision.recipe.name == recipe and decision.policy is not None and decision.runs(component):
            pool = decision.pool if component == "driver" else None
            found.update(dict.fromkeys(nodes.intersection(decision.names), Serving(decision.policy.name, pool)))
    return found


def _selections(output: sides.Output, component: index_file.Component, owner: Owner) -> tuple[object, ...]:
    """Return everything that decides over the nodes of a policy's component."""
    present = sorted(output.of_owner(component, owner), key=lambda item: item.workload.file)
    rule = output.rule(f"{owner.recipe}-pool-{owner.policy}") if component != "device-plugin" else None
    recorded = output.index.of_owner(component, owner)
    return len(recorded), [item.selection for item in present], rule and rule.get("spec")


def _kernels(output: sides.Output, component: index_file.Component, owner: Owner) -> Mapping[str, str]:
    """Return the hashes of the kernels of pools of one kernel, by the pools' names."""
    names = {item.pool for item in output.index.of_owner(component, owner) if item.pool is not None}
    return {name: said.digest for name in names if (said := pools.one_kernel(name)) is not None}
