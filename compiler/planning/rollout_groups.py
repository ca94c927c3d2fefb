"""Groups: the nodes of a policy that change earlier than others, or not at all, known by name once it is compiled."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from compiler import names
from compiler.fleet import definitions, selectors
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.model import driver as drivers

REST = "rest"
"""The group of all nodes that no wave and no frozen group takes."""

BUCKETS = 10_000
"""The places that a node may have in shares: hundredths of a per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A frozen group, a wave, or the rest of the nodes."""

    name: str
    path: documents.Path
    """Where it is declared."""
    nodes: tuple[str, ...]
    """The nodes that it takes by name, sorted; none for the rest, which takes all others."""
    declared: drivers.Frozen | drivers.Wave | None
    """None: the rest, which nobody declares."""


def bucket(node: str) -> int:
    """The place of a node in every wave that is a share: 0 to 9999, by its name alone and for ever."""
    return int(hashlib.sha256(node.encode()).hexdigest()[:8], 16) % BUCKETS


def of(
    policy: definitions.Policy,
    cluster: snapshot.ClusterName,
    nodes: Sequence[snapshot.Node],
    is_driven: Callable[[snapshot.Node], bool],
) -> tuple[Group, ...]:
    """The groups of a policy in a cluster, in the order in which they take nodes; none where none is declared.

    `nodes` are those that the policy governs; `is_driven` tells whether a driver would come to one of them.
    """
    found: list[Group] = []
    taken: set[str] = set()
    frozen: set[str] = set()
    for path, declared in policy.groups:
        if not names.globs_match(declared.clusters, cluster):
            continue
        if isinstance(declared, drivers.Wave) and declared.percent is not None:
            members = _share((node for node in nodes if node.name not in frozen), is_driven, declared.percent)
        else:
            members = _chosen(declared, nodes)
        own = members - taken
        taken |= own
        if isinstance(declared, drivers.Frozen):
            frozen |= own
        found.append(Group(name=declared.name, path=path, nodes=tuple(sorted(own)), declared=declared))
    return (*found, Group(name=REST, path=(), nodes=(), declared=None)) if found else ()


def _chosen(group: drivers.Group, nodes: Iterable[snapshot.Node]) -> set[str]:
    """The members by name, known or not: a frozen node that is away for a moment stays frozen."""
    if group.nodes is not None:
        return set(group.nodes)
    term = selectors.of(group.inventorySelector)
    return {node.name for node in nodes if selectors.term_matches(term, node.label)}


def _share(nodes: Iterable[snapshot.Node], is_driven: Callable[[snapshot.Node], bool], percent: float) -> set[str]:
    """The nodes below a bound; where none to which a driver comes is among them, the lowest such node joins."""
    bound = round(percent * BUCKETS / 100)
    placed = [(bucket(node.name), node) for node in nodes]
    below = [node for place, node in placed if place < bound]
    members = {node.name for node in below}
    if not any(map(is_driven, below)):
        lowest = min(((place, node.name) for place, node in placed if is_driven(node)), default=None)
        members.update(() if lowest is None else (lowest[1],))
    return members


def reason(group: Group, node: snapshot.Node) -> str:
    """Why a node is in its group."""
    declared, place = group.declared, f"{bucket(node.name) * 100 / BUCKETS:g} %"
    if declared is None:
        return f"no frozen group and no wave takes it; by its name it stands at {place}"
    if declared.nodes is not None:
        return "it is named there"
    if isinstance(declared, drivers.Wave) and declared.percent is not None:
        return f"by its name it stands at {place}, and the wave ends at {declared.percent:g} %"
    return "the inventorySelector matches it"
