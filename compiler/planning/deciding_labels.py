"""The labels that decide over nodes.

An inventory without one of them makes another plan, and other groups of nodes in output/, than the cluster has. So a
setting that leaves labels out of inventories, or lets few in, is judged by this list.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from compiler import diagnostics, names, recipes
from compiler.fleet import assignment, definitions, selectors
from compiler.formats import documents


@dataclass(frozen=True, slots=True, kw_only=True)
class Deciding:
    """A label that decides over nodes."""

    key: str
    span: diagnostics.Span | None = None
    """The position of the key in a selector; None where every policy decides by the label."""


def of_cluster(
    policies: Iterable[definitions.Policy], builtin: Iterable[recipes.Recipe], cluster: str
) -> Iterator[Deciding]:
    """Yield every label that decides over the nodes of a cluster, each place of a selector by itself.

    Kernels, operating systems and architectures are no labels here: the inventory has them from the kubelet. Neither is
    the name of the host, which no setting leaves out.
    """
    here = assignment.in_cluster(policies, cluster)
    for policy in here:
        if policy.selector is not None:
            yield from _of_selector(policy, ("spec", "nodeSelector"), policy.selector)
        for group in policy.groups:
            if group.selector is not None and names.globs_match(group.clusters, cluster):
                yield from _of_selector(policy, (*group.path, "inventorySelector"), group.selector)
    deciding = {key for recipe in (*builtin, *(policy.recipe for policy in here)) for key in recipe.deciding}
    yield from (Deciding(key=key) for key in sorted(deciding))


def _of_selector(policy: definitions.Policy, path: documents.Path, selector: selectors.Selector) -> Iterator[Deciding]:
    for key in selector.matchLabels:
        yield Deciding(key=key, span=policy.source.key_span(*path, "matchLabels", key))
    for index, expression in enumerate(selector.matchExpressions):
        yield Deciding(key=expression.key, span=policy.source.span(*path, "matchExpressions", index, "key"))
