"""The difference between two revisions of the documents: what people wrote, and what becomes of it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import structs

from compiler import names
from compiler.changes import deletions, effects, pods, sides
from compiler.changes.acceptance import Acceptable
from compiler.changes.effects import Effect
from compiler.changes.intent import DocumentChange
from compiler.changes.objects import Pair, Ref, pairs, ref
from compiler.changes.pods import Fates, PodChange
from compiler.diagnostics import Findings
from compiler.fleet.examples import Examples
from compiler.rendering import ir, layout, node_programs, privileges
from compiler.settings import Settings

_DEFAULTS = Settings()


class Revision(msgspec.Struct, frozen=True, kw_only=True):
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


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A side, or a cluster of it, that does not compile, so that nothing is known of its effect."""

    side: SideName
    cluster: str | None
    """None where the documents of all clusters are concerned."""
    findings: Findings
    """The errors."""


class PrivilegeChange(msgspec.Struct, frozen=True, kw_only=True):
    """The privileges that an object gains and loses."""

    pair: Pair
    gained: tuple[privileges.Privilege, ...]
    lost: tuple[privileges.Privilege, ...]


class ClusterDifference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of a cluster between two revisions."""

    cluster: str
    is_new: bool
    is_gone: bool
    deletion: deletions.Deletion
    """What becomes of the objects that leave its output."""
    nodes: int
    """The nodes of its inventory after the change, or before it if it is gone."""
    effects: tuple[Effect, ...]
    pods: tuple[PodChange, ...]
    objects: tuple[Pair, ...]
    privileges: tuple[PrivilegeChange, ...] = ()
    barred: tuple[str, ...] = ()
    """The nodes whose pods, if they are there from before a taint, are deleted, and not made again."""
    freed: tuple[str, ...] = ()
    """The nodes to which pods come as a taint goes, unless they are there from before it, which nobody knows."""
    unexplained: tuple[str, ...] = ()
    """Files of objects, below the folder of the cluster's output, that differ although no document has them differ."""
    is_moved: bool = False
    """True where its output is in another folder than before."""
    risks: tuple[Acceptable, ...] = ()
    """The most dangerous first."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The difference of all clusters between two revisions."""

    before: Revision
    after: Revision
    intent: tuple[DocumentChange, ...]
    clusters: tuple[ClusterDifference, ...]
    """Those that differ, sorted by name."""
    faults: tuple[Fault, ...] = ()
    is_first: bool = False
    """True where the earlier revision has no documents, as where the project has moved."""
    described: tuple[Effect, ...] = ()
    """The effects of the side that compiles, where the documents of the other one do not."""

    @property
    def effects(self) -> Sequence[Effect]:
        """The effects in all clusters."""
        return [effect for cluster in self.clusters for effect in cluster.effects]

    @property
    def barred(self) -> int:
        """The number of nodes to which a NoSchedule taint lets no new pod come, in all clusters."""
        return sum(len(cluster.barred) for cluster in self.clusters)

    @property
    def risks(self) -> Sequence[Acceptable]:
        """The risks in all clusters."""
        return [risk for cluster in self.clusters for risk in cluster.risks]

    @property
    def is_unexplained(self) -> bool:
        """True where output/ differs in more than the documents do, so that nobody knows what it does."""
        return any(cluster.unexplained for cluster in self.clusters)

    @property
    def is_moved(self) -> bool:
        """True where what applies an output decides over its nodes, as that is in another folder."""
        return any(cluster.is_moved for cluster in self.clusters)

    @property
    def is_empty(self) -> bool:
        """True where nothing differs."""
        return not (self.intent or self.clusters or self.faults)


class Former(msgspec.Struct, frozen=True, kw_only=True):
    """The folder of a cluster's output, from the top of the repository, before it came to another one."""

    folder: str
    is_there: bool = False
    """True where it stays as it is, beside the new one."""


class Basis(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the comparison of a cluster beside its two sides."""

    changed: tuple[DocumentChange, ...]
    """The documents that differ."""
    render: layout.Render
    step_percent: int = _DEFAULTS.limits.step_percent
    """The share of a policy's nodes that one step may disturb."""
    output: str = _DEFAULTS.output
    """The folder of outputs."""
    written: frozenset[str] = frozenset()
    """The files of objects that differ, below the folder of the cluster's output."""
    moved: Former | None = None
    """The folder of the cluster's output before it came to where it is."""
    known: Examples | None = None
    """The nodes that those of both sides stand for, if they are examples."""

    def count(self, nodes: Collection[str]) -> int:
        """Return the number of nodes, or of those that they stand for."""
        return self.known.count(nodes) if self.known else len(nodes)


def of_cluster(before: sides.Planned | None, after: sides.Planned | None, basis: Basis) -> ClusterDifference | None:
    """Return the difference of a cluster without its risks; None where there is none."""
    made = [side.manifests if side else None for side in (before, after)]
    differing = pairs(_rendered(made[0], made[1], basis.render), _rendered(made[1], made[0], basis.render))
    deletion = deletions.joined(*(deletions.of(side.planned.cluster.spec.gitops) for side in (before, after) if side))
    gone = frozenset(pair.ref for pair in differing if pair.after is None and not pair.is_by_hand)
    left = gone if deletion.stays and after is not None else frozenset[Ref]()
    # Without rules from the start, somebody else labels the nodes; a recipe may need none any more.
    if before is not None and after is not None and not left:
        ruled = {one.recipe.name for one in after.planned.recipes if one.recipe.has_rules}
        if lost := ruled.intersection(before.rules.keys() - after.rules.keys()):
            after = after.without_labels(frozenset(lost))
    templates = pods.replaced(differing)
    was = before.on_nodes() if before else {}
    barred, freed = set[str](), set[str]()
    if before is not None and after is not None:
        waiting, comes = before.barred(), after.on_nodes()
        barred = _union(after.barred(), templates) | _union(waiting, gone - left)
        freed = {name for one, names in waiting.items() for name in names & comes.get(one, set())}
        after = structs.replace(after.keeping(was, templates | gone), left=left)
    on_nodes = effects.effects(before, after, templates, basis.changed)
    now = {**(after.on_nodes() if after else {}), **{one: was[one] for one in left.intersection(was)}}
    on_pods = pods.changes(was, now, [pair for pair in differing if pair.ref not in left])
    unexplained = tuple(sorted(basis.written.difference(pair.path for pair in differing)))
    differs = on_nodes or on_pods or differing or unexplained or basis.moved
    if before is not None and after is not None and not differs:
        return None
    if (known := basis.known) is not None:
        every = (structs.replace(effect, nodes=known.expanded(effect.nodes)) for effect in on_nodes)
        on_nodes = tuple(sorted(every, key=lambda effect: effect.nodes))
        barred, freed = (set(known.expanded(tuple(names))) for names in (barred, freed))
        on_pods = tuple(structs.replace(each, nodes=Fates(*map(known.expanded, each.nodes))) for each in on_pods)
    side = after or before
    nodes = [node.name for node in side.planned.inventory.nodes] if side else []
    return ClusterDifference(
        cluster=side.planned.cluster.name if side else "",
        is_new=before is None,
        is_gone=after is None,
        deletion=deletion,
        nodes=basis.count(nodes),
        effects=on_nodes,
        pods=on_pods,
        objects=differing,
        privileges=tuple(_privileges(differing)),
        barred=tuple(sorted(barred)),
        freed=tuple(sorted(freed)),
        unexplained=unexplained,
        is_moved=basis.moved is not None,
    )


def _union(nodes: Mapping[Ref, set[str]], wanted: frozenset[Ref]) -> set[str]:
    return set().union(*(nodes[one] for one in wanted.intersection(nodes)))


def _privileges(differing: Iterable[Pair]) -> Iterator[PrivilegeChange]:
    for pair in differing:
        was, now = privileges.of_object(pair.before), privileges.of_object(pair.after)
        if was != now:
            yield PrivilegeChange(pair=pair, gained=tuple(sorted(now - was)), lost=tuple(sorted(was - now)))


def _rendered(
    side: ir.ClusterManifests | None, other: ir.ClusterManifests | None, render: layout.Render
) -> dict[Ref, layout.Object]:
    """Return the objects of one side that may differ from those of the other; equal values are not rendered."""
    if side is None:
        return {}
    # The engine's annotations are no part of a manifest.
    known = {*other.manifests, *other.bootstrap} if other is not None and other.engine == side.engine else set()
    own = msgspec.structs.replace(
        side,
        manifests=tuple(item for item in side.manifests if item not in known),
        bootstrap=tuple(item for item in side.bootstrap if item not in known),
    )
    found = layout.objects(own, lambda manifest: _rendered_once(manifest, render))
    return {ref(item.data): item for item in found}


def _rendered_once(manifest: ir.Manifest, render: layout.Render) -> Mapping[str, Any]:
    """Return an object; pods that differ in their config alone, as those of several clusters do, are rendered once."""
    value = manifest.value
    if not isinstance(value, node_programs.Pod):
        return render(manifest)
    data = render(msgspec.structs.replace(manifest, value=msgspec.structs.replace(value, config="")))
    spec, template = data["spec"], data["spec"]["template"]
    metadata = template["metadata"]
    annotations = {**metadata["annotations"], names.CONFIG: value.config}
    pods_of = {**template, "metadata": {**metadata, "annotations": annotations}}
    return {**data, "spec": {**spec, "template": pods_of}}
