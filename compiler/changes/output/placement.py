"""The nodes that recorded DaemonSets serve, judged by their own terms, tolerations and rules of pools."""

from collections.abc import Iterable, Iterator, Mapping

from compiler import recipes
from compiler.changes.output import deployed
from compiler.changes.output.pool_rules import PoolRules
from compiler.fleet import assignment, selectors, taints
from compiler.inventory import snapshot
from compiler.output import index_file
from compiler.planning import plan


def alike(nodes: Iterable[snapshot.Node], daemon_sets: Iterable[deployed.DaemonSet]) -> list[assignment.Alike]:
    """Return the nodes that none of the DaemonSets distinguishes together; the names of nodes are not compared."""
    return assignment.equal(nodes, _keys(daemon_sets))


def alike_in(planned: plan.Plan, daemon_sets: Iterable[deployed.DaemonSet]) -> list[assignment.Alike]:
    """Return the nodes of a plan that none of the DaemonSets distinguishes together, as `alike` does."""
    daemon_sets = tuple(daemon_sets)
    keys = _keys(daemon_sets)
    for one in planned.recipes:
        if keys <= one.compared:
            return [decision.nodes for decision in one.decisions]
    return alike(planned.inventory.nodes, daemon_sets)


def _keys(daemon_sets: Iterable[deployed.DaemonSet]) -> set[str]:
    """Return the labels of nodes that the DaemonSets select by; those of pools are compared by the rules of pools."""
    keys = {one.key for item in daemon_sets for term in item.terms for one in term}
    return {key for key in keys if not recipes.is_of_pool(key)}


def served(
    daemon_sets: Iterable[deployed.DaemonSet], rules: PoolRules | None, nodes: Iterable[assignment.Alike]
) -> dict[str, deployed.DaemonSet]:
    """Return the DaemonSet that serves each node, by the node's name; the nodes are given by `alike`.

    Without `rules` somebody else labels the pools, so every label of a pool counts as present.
    """
    daemon_sets = tuple(daemon_sets)
    found: dict[str, deployed.DaemonSet] = {}
    for group in nodes:
        selecting = list(_selecting(daemon_sets, group[0]))
        if not selecting:
            continue
        for labels, own in [(None, group)] if rules is None else rules.labelled(group):
            serving = [item for item, terms in selecting if any(_in_pool(term, labels) for term in terms)]
            if serving:
                found.update(dict.fromkeys((node.name for node in own), serving[-1]))
    return found


def of_owner(
    output: deployed.Deployed,
    component: index_file.Component,
    owner: index_file.Owner,
    nodes: Iterable[assignment.Alike],
    *,
    absent: bool = False,
) -> dict[str, deployed.DaemonSet]:
    """Return the DaemonSet of a policy's component that serves each node; one of state Absent only if it is wanted."""
    rules = output.pool_rules(owner) if component == "driver" else None
    return served(output.daemon_sets(component, owner, absent=absent), rules, nodes)


def _selecting(
    daemon_sets: Iterable[deployed.DaemonSet], node: snapshot.Node
) -> Iterator[tuple[deployed.DaemonSet, list[selectors.Term]]]:
    """Yield the DaemonSets that may run on a node, with the terms that select it, whatever its pool is."""
    for item in daemon_sets:
        terms = [term for term in item.terms if _selects(term, node)]
        if terms and not taints.untolerated(item.tolerations, node.profile.taints):
            yield item, terms


def _selects(term: selectors.Term, node: snapshot.Node) -> bool:
    return all(
        selectors.requirement_matches(one, node.label(one.key)) for one in term if not recipes.is_of_pool(one.key)
    )


def _in_pool(term: selectors.Term, labels: Mapping[str, str] | None) -> bool:
    own = (one for one in term if recipes.is_of_pool(one.key))
    return labels is None or all(selectors.requirement_matches(one, labels.get(one.key)) for one in own)
