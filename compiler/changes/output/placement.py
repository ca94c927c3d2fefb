"""The nodes that recorded DaemonSets serve, judged by their own terms, tolerations and rules of pools."""

from collections.abc import Iterable, Mapping

from compiler import devices
from compiler.changes.output import deployed
from compiler.changes.output.pool_rules import PoolRules
from compiler.fleet import selectors, taints
from compiler.inventory import snapshot


def served(
    daemon_sets: Iterable[deployed.DaemonSet], rules: PoolRules | None, nodes: Iterable[snapshot.Node]
) -> dict[str, deployed.DaemonSet]:
    """Return the DaemonSet that serves each node, by the node's name.

    Without `rules` somebody else labels the pools, so every label of a pool counts as present.
    """
    daemon_sets = tuple(daemon_sets)
    found: dict[str, deployed.DaemonSet] = {}
    for node in nodes:
        labels: dict[str, str] | None = None
        for item in daemon_sets:
            terms = [term for term in item.terms if _selects(term, node)]
            if not terms or taints.untolerated(item.tolerations, node.profile.taints):
                continue
            if rules is not None and labels is None:
                labels = rules.labels(node)
            if any(_in_pool(term, labels) for term in terms):
                found[node.name] = item
    return found


def _selects(term: selectors.Term, node: snapshot.Node) -> bool:
    return all(
        selectors.requirement_matches(one, node.label(one.key))
        for one in term
        if not one.key.startswith(devices.POOL_PREFIX)
    )


def _in_pool(term: selectors.Term, labels: Mapping[str, str] | None) -> bool:
    own = (one for one in term if one.key.startswith(devices.POOL_PREFIX))
    return labels is None or all(selectors.requirement_matches(one, labels.get(one.key)) for one in own)
