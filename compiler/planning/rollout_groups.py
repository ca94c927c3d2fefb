"""Rollout groups: the nodes of a policy that change earlier than others, or not at all, listed by name."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from compiler import names
from compiler.fleet import definitions, selectors
from compiler.inventory import snapshot

REST = "rest"
"""The group of all nodes that no wave and no frozen group takes."""

BUCKETS = 10_000
"""The number of buckets for waves by percent: a bucket is a hundredth of a per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A frozen group, a wave, or the rest of the nodes."""

    name: str
    nodes: tuple[str, ...]
    """The names of its nodes, sorted; empty for the rest, which takes all others."""
    declared: definitions.NodeGroup | None
    """None for the rest, which is not declared."""

    @property
    def sort(self) -> Literal["frozen", "wave", "rest"]:
        """What it is."""
        return self.declared.sort if self.declared else "rest"


def bucket(node: str) -> int:
    """Return the bucket of a node, 0 to 9999; it depends on the name alone and never changes."""
    return int(hashlib.sha256(node.encode()).hexdigest()[:8], 16) % BUCKETS


def position(node: str) -> str:
    """Return the position of a node's name among all names, in per cent, as people read it."""
    return f"{bucket(node) * 100 / BUCKETS:g} %"


def of(
    policy: definitions.Policy,
    cluster: snapshot.ClusterName,
    nodes: Sequence[snapshot.Node],
    is_driven: Callable[[snapshot.Node], bool],
) -> tuple[Group, ...]:
    """Return the groups of a policy in a cluster, in the order in which they take nodes; none if none is declared.

    `nodes` are those of the policy; `is_driven` returns whether a driver would be installed on one of them.
    """
    groups: list[Group] = []
    taken: set[str] = set()
    frozen: set[str] = set()
    for declared in policy.groups:
        if not names.globs_match(declared.clusters, cluster):
            continue
        if declared.percent is not None:
            members = _below((node for node in nodes if node.name not in frozen), is_driven, declared.percent)
        else:
            members = _selected(declared, nodes)
        own = members - taken
        taken |= own
        if declared.is_frozen:
            frozen |= own
        groups.append(Group(name=declared.name, nodes=tuple(sorted(own)), declared=declared))
    return (*groups, Group(name=REST, nodes=(), declared=None)) if groups else ()


def _selected(group: definitions.NodeGroup, nodes: Iterable[snapshot.Node]) -> set[str]:
    """Return the members by name, known or not: a frozen node that is absent for a while stays frozen."""
    if group.nodes is not None:
        return set(group.nodes)
    term = selectors.of(group.selector)
    return {node.name for node in nodes if selectors.term_matches(term, node.label)}


def _below(nodes: Iterable[snapshot.Node], is_driven: Callable[[snapshot.Node], bool], percent: float) -> set[str]:
    """Return the nodes below a bound; if no driver is installed on any of them, the lowest node with a driver joins."""
    buckets = [(bucket(node.name), node) for node in nodes]
    below = [node for number, node in buckets if number < _bound(percent)]
    members = {node.name for node in below}
    if not any(map(is_driven, below)):
        lowest = min(((number, node.name) for number, node in buckets if is_driven(node)), default=None)
        members.update(() if lowest is None else (lowest[1],))
    return members


def _bound(percent: float) -> int:
    """Return the first bucket that a wave does not reach."""
    return round(percent * BUCKETS / 100)


def reason(group: Group, node: snapshot.Node) -> str:
    """Return why a node is in its group."""
    declared, percent = group.declared, position(node.name)
    if declared is None:
        return f"no frozen group and no wave takes it; its name puts it at {percent}"
    if declared.nodes is not None:
        return "the group names it"
    if declared.percent is not None:
        end = f"{declared.percent:g} %"
        if bucket(node.name) < _bound(declared.percent):
            return f"its name puts it at {percent}, and the wave ends at {end}"
        return f"no node below {end} gets a driver, so the lowest one that does is drafted: this one, at {percent}"
    return "the inventorySelector matches it"
