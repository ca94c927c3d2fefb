"""The line: read all documents, check them, plan each cluster, check its nodes, render, compare with earlier output.

The stages return their findings beside their values: a mistake in a document stops none of them but the last two.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from compiler import diagnostics, names, schema
from compiler.changes import acceptance
from compiler.changes.output import comparison, losses
from compiler.checks import assignment as assignment_checks
from compiler.checks import fleet as fleet_checks
from compiler.checks import inventory as inventory_checks
from compiler.checks import nodes as node_checks
from compiler.checks import policy as policy_checks
from compiler.checks.clusters import cluster as cluster_checks
from compiler.checks.clusters import targets as target_checks
from compiler.checks.output import changes, removals
from compiler.fleet import assignment, definitions, parse
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.output import tree
from compiler.planning import plan
from compiler.rendering import gitops, ir, layout, manifests
from compiler.settings import Settings

_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A document, its kind if it has a known one, and its mistakes; it is accepted if it has none."""

    document: documents.Document
    kind: str | None
    findings: diagnostics.Findings


def read(
    found: Iterable[documents.Document],
    judge: schema.Judge,
    known: Mapping[str, str] | None = None,
    unread: diagnostics.Findings = (),
    settings: Settings = _DEFAULTS,
) -> tuple[definitions.Fleet, diagnostics.Findings]:
    """Return the fleet that documents make up, and the findings on them.

    `known` maps files of inventories that an earlier run accepted to their clusters; they are not read again. `unread`
    are findings on files that are no documents, and come first. `settings` are the settings of the project.
    """
    found = tuple(found)
    files = {document.file for document in found} | {finding.span.file for finding in unread} | (known or {}).keys()
    judged = [_judged(document, judge, settings, files) for document in found]
    accepted = [item for item in judged if not item.findings]
    policies = tuple(parse.policy_of(item.document) for item in accepted if item.kind == "KAEPolicy")
    clusters = tuple(parse.cluster_of(item.document) for item in accepted if item.kind == "KAECluster")
    nodes = tuple(item.document for item in accepted if item.kind not in ("KAEPolicy", "KAECluster"))
    fleet = parse.fleet_of(policies, clusters, nodes, known or {})
    inventories = [(name, file) for file, name in (known or {}).items()]
    inventories.extend((parse.inventory_cluster(document), document.file) for document in nodes)
    findings = (
        *unread,
        *(finding for item in judged for finding in item.findings),
        *(finding for policy in policies for finding in policy_checks.findings(policy)),
        *(finding for cluster in clusters for finding in cluster_checks.findings(cluster, settings.applied)),
        *(finding for cluster in clusters for finding in cluster_checks.ignored_labels(policies, cluster)),
        *fleet_checks.findings(fleet, clusters, inventories),
        *target_checks.findings(fleet.clusters, settings.applied),
    )
    if not diagnostics.has_errors(settings.with_severities(findings)):
        findings = (*findings, *fleet_checks.clusters(fleet, inventories))
    return replace(fleet, sound=not diagnostics.has_errors(settings.with_severities(findings))), findings


def read_inventory(
    cluster: definitions.Cluster,
    found: Iterable[documents.Document],
    judge: schema.Judge,
    settings: Settings = _DEFAULTS,
) -> tuple[snapshot.Inventory, diagnostics.Findings]:
    """Return the inventory of a cluster in these documents, an empty one without any, and the findings on them."""
    found = tuple(found)
    judged = [_judged(document, judge, settings, {document.file for document in found}) for document in found]
    findings = tuple(finding for item in judged for finding in item.findings)
    accepted = [item.document for item in judged if not item.findings and item.kind not in ("KAEPolicy", "KAECluster")]
    if not accepted:
        return snapshot.Inventory(cluster=cluster.name, file=found[0].file if found else "", nodes=()), findings
    return parse.inventory_of(accepted[-1], cluster.spec), findings


def _judged(document: documents.Document, judge: schema.Judge, settings: Settings, files: Collection[str]) -> _Judged:
    in_policies = settings.is_policy_file(document.file)
    kind, findings = judge.judge(document, lists=not in_policies)
    if not in_policies:
        findings = [*findings, *inventory_checks.misplaced(document, kind, settings.policies)]
    if not findings and kind not in ("KAEPolicy", "KAECluster"):
        findings = [*inventory_checks.misnamed(document, files), *inventory_checks.findings(document)]
    return _Judged(document=document, kind=kind, findings=tuple(findings))


def plan_cluster(fleet: definitions.Fleet, cluster: definitions.Cluster) -> tuple[plan.Plan, diagnostics.Findings]:
    """Return the plan of a cluster, and the findings on its policies and, if all documents are sound, its nodes."""
    planned, on_policies = plan_policies(fleet, cluster)
    return planned, (*on_policies, *check_nodes(planned)) if fleet.sound else on_policies


def settle(fleet: definitions.Fleet, on_clusters: Mapping[str, diagnostics.Findings]) -> diagnostics.Findings:
    """Return the findings on planned clusters, given by their names, without those that other clusters disprove."""
    return tuple(fleet_checks.on_clusters(fleet, on_clusters))


def plan_policies(
    fleet: definitions.Fleet, cluster: definitions.Cluster, inventory: snapshot.Inventory | None = None
) -> tuple[plan.Plan, diagnostics.Findings]:
    """Return the plan of a cluster, and the findings on its policies; its inventory is the fleet's unless given."""
    policies = assignment.in_cluster(fleet.policies, cluster.name)
    inventory = inventory or fleet.inventory(cluster)
    assigned = assignment.assign(policies)
    planned = plan.of_cluster(cluster, assigned.policies, inventory)
    return planned, tuple(assignment_checks.findings(policies, assigned, inventory))


def check_nodes(planned: plan.Plan) -> diagnostics.Findings:
    """Return the findings on the nodes of a planned cluster."""
    return tuple(node_checks.findings(planned))


def render_cluster(
    planned: plan.Plan, render: layout.Render, output: str = names.OUTPUT
) -> tuple[tree.Tree, tuple[layout.Object, ...]]:
    """Return the files of a planned cluster, and the objects that they hold.

    `output` is the folder of outputs in the repository, from which GitOps engines apply them.
    """
    made = manifests_of(planned, output)
    objects = layout.objects(made, render)
    return layout.tree(made, objects), objects


def manifests_of(planned: plan.Plan, output: str = names.OUTPUT) -> ir.ClusterManifests:
    """Return everything that the output of a planned cluster is made from."""
    spec = planned.cluster.spec
    return ir.ClusterManifests(
        name=planned.cluster.name,
        has_nodes=bool(planned.inventory.nodes),
        declared=planned.cluster.source is not None,
        frozen=tuple(manifests.frozen_groups(planned.divisions)),
        engine=spec.gitops.engine,
        manifests=manifests.of_cluster(planned.cluster, planned.divisions),
        bootstrap=tuple(gitops.bootstrap(planned.cluster, output)),
    )


def check_changes(change: comparison.Change) -> tuple[tuple[acceptance.Removal, ...], diagnostics.Findings]:
    """Return what a compile takes away from a cluster, and the findings on everything else that changes for nodes."""
    lost = tuple(losses.losses(change.before, change.after, change.planned))
    return tuple(removals.removals(change, lost)), tuple(changes.changes(change, lost))
