"""The difference between two revisions of the documents: what people wrote, and what becomes of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from compiler.changes.acceptance import Acceptable
from compiler.changes.objects import Pair
from compiler.changes.revisions import effects, pods, privileges
from compiler.changes.revisions.effects import Effect
from compiler.changes.revisions.intent import DocumentChange
from compiler.changes.revisions.pods import PodChange
from compiler.changes.revisions.privileges import PrivilegeChange
from compiler.diagnostics import Findings
from compiler.fleet.examples import Examples


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A revision of the documents."""

    name: str
    """As people name it; empty for the working tree."""
    commit: str | None
    """None for the working tree."""

    @property
    def text(self) -> str:
        """The revision in words."""
        if self.commit is None:
            return "the working tree"
        return self.commit[:12] if self.commit.startswith(self.name) else f"{self.name} ({self.commit[:12]})"


SideName = Literal["from", "to"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A side, or a cluster of it, that does not compile, so that nothing is known of its effect."""

    side: SideName
    cluster: str | None
    """None where the documents of all clusters are concerned."""
    findings: Findings
    """The errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDifference:
    """The difference of a cluster between two revisions."""

    cluster: str
    is_new: bool
    is_gone: bool
    nodes: int
    """The nodes of its inventory after the change, or before it if it is gone."""
    effects: tuple[Effect, ...]
    pods: tuple[PodChange, ...]
    objects: tuple[Pair, ...]
    privileges: tuple[PrivilegeChange, ...] = ()
    risks: tuple[Acceptable, ...] = ()
    """The most dangerous first."""

    def expanded(self, known: Examples) -> "ClusterDifference":
        """Return the difference for all nodes, where it was found for examples."""
        return replace(
            self,
            effects=tuple(sorted((_of_all(effect, known) for effect in self.effects), key=lambda item: item.nodes)),
            pods=tuple(_of_all_pods(change, known) for change in self.pods),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference of all clusters between two revisions."""

    before: Revision
    after: Revision
    intent: tuple[DocumentChange, ...]
    clusters: tuple[ClusterDifference, ...]
    """Those that differ, sorted by name."""
    faults: tuple[Fault, ...] = ()
    described: tuple[Effect, ...] = ()
    """The effects of the side that compiles, where the documents of the other one do not."""

    @property
    def effects(self) -> Sequence[Effect]:
        """The effects in all clusters."""
        return [effect for cluster in self.clusters for effect in cluster.effects]

    @property
    def risks(self) -> Sequence[Acceptable]:
        """The risks in all clusters."""
        return [risk for cluster in self.clusters for risk in cluster.risks]

    @property
    def is_empty(self) -> bool:
        """True where nothing differs."""
        return not (self.intent or self.clusters or self.faults)


def _of_all(effect: Effect, known: Examples) -> Effect:
    return replace(effect, nodes=known.expanded(effect.nodes))


def _of_all_pods(change: PodChange, known: Examples) -> PodChange:
    return replace(
        change,
        created=known.expanded(change.created),
        replaced=known.expanded(change.replaced),
        deleted=known.expanded(change.deleted),
    )


def of_cluster(
    before: pods.Side | None,
    after: pods.Side | None,
    pairs: Sequence[Pair],
    changed: Sequence[DocumentChange],
) -> ClusterDifference | None:
    """Return the difference of a cluster whose objects differ by `pairs`; None where there is none."""
    # Without rules from the start, somebody else labels the nodes.
    if before is not None and after is not None and (lost := before.rules - after.rules):
        after = after.without_labels(lost)
    side = after or before
    cluster = side.planned.cluster.name if side else ""
    found = effects.effects(before, after, pods.replaced(pairs), changed)
    on_pods = pods.changes(cluster, before, after, pairs)
    if before is not None and after is not None and not (found or on_pods or pairs):
        return None
    return ClusterDifference(
        cluster=cluster,
        is_new=before is None,
        is_gone=after is None,
        nodes=len(side.planned.inventory.nodes) if side else 0,
        effects=found,
        pods=on_pods,
        objects=tuple(pairs),
        privileges=privileges.changes(cluster, pairs),
    )
