"""The order of the stages inside: documents in, the files of each cluster and all findings out."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compiler import diagnostics, names, schema
from compiler.checks import cluster as cluster_checks
from compiler.checks import fleet as fleet_checks
from compiler.checks import inventory, world
from compiler.checks import policy as policy_checks
from compiler.checks import pools as pool_checks
from compiler.fleet import assignment, definitions, parse
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.planning import plan, pools
from compiler.rendering import gitops, ir, layout, manifests

Render = Callable[[ir.Manifest], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """All documents of a project that hold: policies, clusters by name, and what the nodes were last seen as."""

    policies: tuple[definitions.Policy, ...]
    clusters: tuple[definitions.Cluster, ...]
    inventories: Mapping[str, snapshot.Inventory]
    sound: bool = True
    """Whether every document was read; what was refused may be what a finding on the nodes misses."""

    def inventory(self, cluster: definitions.Cluster) -> snapshot.Inventory:
        """The cluster's inventory; empty where it has none yet."""
        found = self.inventories.get(cluster.name)
        return found or snapshot.Inventory(cluster=cluster.name, file="", nodes=())


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster with its policies brought to its nodes."""

    cluster: definitions.Cluster
    governed: tuple[pools.Division, ...]
    verdicts: tuple[plan.Verdict, ...]
    kubernetes_minor: int | None


def read(
    found: Iterable[documents.Document], judge: schema.Judge, known: Mapping[str, str] | None = None
) -> tuple[Fleet, list[diagnostics.Diagnostic]]:
    """The fleet that documents make up; `known` are files that were found sound before, with their clusters."""
    policies: list[definitions.Policy] = []
    clusters: list[definitions.Cluster] = []
    nodes: list[documents.Document] = []
    notes: list[diagnostics.Diagnostic] = []
    for document in found:
        in_policies = document.file.startswith(f"{names.POLICIES}/")
        kind, faults = judge.judge(document, lists=not in_policies)
        faults = [*faults, *(() if in_policies else parse.misplaced(document, kind))]
        notes.extend(faults)
        if faults:
            continue
        if kind == "KAEPolicy":
            policies.append(parse.policy_of(document))
        elif kind == "KAECluster":
            clusters.append(parse.cluster_of(document))
        else:
            wrong = [*parse.misnamed_inventory(document), *inventory.faults(document)]
            notes.extend(wrong)
            if not wrong:
                nodes.append(document)
    for policy in policies:
        notes.extend(policy_checks.faults(policy))
    for cluster in clusters:
        notes.extend(cluster_checks.faults(cluster))
    notes.extend(fleet_checks.duplicate_clusters(clusters))
    seen = [(name, file) for file, name in (known or {}).items()]
    seen.extend((parse.inventory_cluster(document), document.file) for document in nodes)
    notes.extend(fleet_checks.duplicate_inventories(sorted(seen)))
    by_name = {cluster.name: cluster for cluster in reversed(clusters)}
    for name in {name for name, _ in seen}:
        by_name.setdefault(snapshot.ClusterName(name), parse.default_cluster(name))
    notes.extend(fleet_checks.shared_projects(by_name[name] for name in sorted(by_name)))
    sound = not diagnostics.has_errors(notes)
    if sound:
        none = fleet_checks.uncovered_policies(policies)
        notes.extend(fleet_checks.unknown_clusters(policies, by_name) if by_name else none)
    inventories = (parse.inventory_of(item, by_name[_cluster_of(item)].spec) for item in nodes)
    fleet = Fleet(
        policies=tuple(policies),
        clusters=tuple(by_name[name] for name in sorted(by_name)),
        inventories={item.cluster: item for item in inventories},
        sound=sound,
    )
    return fleet, notes


def _cluster_of(document: documents.Document) -> snapshot.ClusterName:
    return snapshot.ClusterName(parse.inventory_cluster(document))


def view(fleet: Fleet, cluster: definitions.Cluster) -> tuple[ClusterView, list[diagnostics.Diagnostic]]:
    """A cluster's policies on its nodes, with all that is to be said of both."""
    found = fleet.inventory(cluster)
    chosen = assignment.in_cluster(fleet.policies, cluster.name)
    entries, notes = assignment.governed(chosen, found)
    shares = assignment.shares(entries, found.nodes, plan.relevant_labels())
    # By entry rather than by name: two policies of one name are reported, and judged as two.
    own: dict[int, list[snapshot.Node]] = {}
    for entry, nodes in shares:
        own.setdefault(id(entry), []).extend(nodes)
    divisions = {id(entry): pools.divided(entry, cluster.name, own.get(id(entry), ())) for entry in entries}
    governed = tuple(divisions.values())
    verdicts = plan.verdicts(
        ((divisions[id(entry)] if entry else None, nodes) for entry, nodes in shares), cluster.spec
    )
    place = diagnostics.Span(file=found.file) if found.file else cluster.span("metadata", "name")
    if fleet.sound:
        notes.extend(world.findings(cluster, governed, verdicts, place))
        for key, division in divisions.items():
            notes.extend(pool_checks.in_cluster(division, found, own.get(key, ())))
    minor = world.newest_kubernetes(cluster, found.nodes)
    return ClusterView(cluster=cluster, governed=governed, verdicts=verdicts, kubernetes_minor=minor), notes


def cluster_plan(seen: ClusterView) -> ir.ClusterPlan:
    """Everything that a cluster's output is made from."""
    spec = seen.cluster.spec
    return ir.ClusterPlan(
        name=seen.cluster.name,
        engine=spec.gitops.engine,
        keep_crds=not spec.crd.cleanup,
        manifests=manifests.of_cluster(seen.cluster, seen.governed, seen.kubernetes_minor),
        bootstrap=tuple(gitops.bootstrap(seen.cluster)),
    )


def files(found: ir.ClusterPlan, render: Render) -> tuple[tuple[str, str], ...]:
    """The files of a cluster: paths below output/<cluster>/ with their texts."""
    objects = [
        (manifest.component, gitops.annotated(render(manifest), found.engine, keep_crds=found.keep_crds))
        for manifest in found.manifests
    ]
    bootstrap = [(manifest.component, render(manifest)) for manifest in found.bootstrap]
    return layout.files(objects, bootstrap)


def selected(clusters: Sequence[definitions.Cluster], names: Sequence[str]) -> tuple[definitions.Cluster, ...]:
    """The clusters that were asked for; all where none was named."""
    return tuple(cluster for cluster in clusters if not names or cluster.name in names)
