"""Groups: the nodes of a policy that change earlier than others, or not at all, known by name once it is compiled."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from compiler import documents, names, selectors
from compiler.model import driver as drivers

REST = "rest"
"""The group of all nodes that no wave and no frozen group takes."""

BUCKETS = 10_000
"""The places that a node may have in shares: hundredths of a per cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A frozen group, a wave, or the rest of the nodes."""

    name: str
    kind: Literal["frozen", "waves", "rest"]
    """The list that declares it."""
    index: int
    """Its place in that list."""
    nodes: tuple[str, ...]
    """The nodes that it takes by name, sorted; none for the rest, which takes all others."""
    overrides: drivers.Overrides


def bucket(node: str) -> int:
    """The place of a node in every wave that is a share: 0 to 9999, by its name alone and for ever."""
    return int(hashlib.sha256(node.encode()).hexdigest()[:8], 16) % BUCKETS


def holding(
    groups: Iterable[tuple[int, drivers.Group]], cluster: documents.ClusterName
) -> Iterator[tuple[int, drivers.Group]]:
    """The groups that hold in a cluster, with their places in the list."""
    for index, group in groups:
        if group.clusters is None or any(names.glob_matches(glob, cluster) for glob in group.clusters):
            yield index, group


def of(
    policy: documents.Policy,
    cluster: documents.ClusterName,
    nodes: Sequence[documents.Node],
    driven: frozenset[str],
) -> Iterator[Group]:
    """The groups of a policy in a cluster, in the order in which they take nodes; none where none is declared.

    `nodes` are those that the policy governs, `driven` those of them to which a driver would come.
    """
    rollout = policy.spec.driver.rollout
    taken: set[str] = set()
    found = False
    for index, frozen in holding(enumerate(rollout.frozen), cluster):
        found = True
        yield _group(frozen, "frozen", index, _chosen(frozen, nodes), taken)
    thawed = [node for node in nodes if node.name not in taken]
    able = driven.difference(taken)
    for index, wave in holding(enumerate(rollout.waves), cluster):
        found = True
        percent = wave.percent if isinstance(wave, drivers.Wave) else None
        members = _chosen(wave, nodes) if percent is None else _share(thawed, able, percent)
        yield _group(wave, "waves", index, members, taken)
    if found:
        yield Group(name=REST, kind="rest", index=0, nodes=(), overrides=drivers.Overrides())


def _group(
    declared: drivers.Group, kind: Literal["frozen", "waves"], index: int, members: Iterable[str], taken: set[str]
) -> Group:
    """The group of those members that no group before it has taken."""
    own = tuple(sorted(set(members) - taken))
    taken.update(own)
    return Group(name=declared.name, kind=kind, index=index, nodes=own, overrides=declared)


def _chosen(group: drivers.Group, nodes: Iterable[documents.Node]) -> Iterable[str]:
    """The members by name, known or not: a frozen node that is away for a moment stays frozen."""
    if group.nodes is not None:
        return group.nodes
    term = selectors.of(group.inventorySelector)
    return [node.name for node in nodes if selectors.term_matches(term, node.label)]


def _share(nodes: Iterable[documents.Node], driven: frozenset[str], percent: float) -> set[str]:
    """The nodes below a bound; where none to which a driver comes is among them, the lowest such node joins."""
    bound = round(percent * BUCKETS / 100)
    below = {node.name for node in nodes if bucket(node.name) < bound}
    if driven and below.isdisjoint(driven):
        below.add(min(driven, key=lambda name: (bucket(name), name)))
    return below


def reason(group: Group, node: documents.Node) -> str:
    """Why a node is in its group."""
    declared, place = group.overrides, f"{bucket(node.name) * 100 / BUCKETS:g} %"
    if not isinstance(declared, drivers.Group):
        return f"no frozen group and no wave takes it; by its name it stands at {place}"
    if declared.nodes is not None:
        return "it is named there"
    if isinstance(declared, drivers.Wave) and declared.percent is not None:
        return f"by its name it stands at {place}, and the wave ends at {declared.percent:g} %"
    return "the inventorySelector matches it"
