"""The line: read all documents, check them, plan each cluster, check its nodes, render, compare with earlier output.

The stages return their findings beside their values: a mistake in a document stops none of them but the last two.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from compiler import diagnostics, names, schema
from compiler.changes import comparison, difference, intent, losses, objects, pods, privileges
from compiler.checks import assignment as assignment_checks
from compiler.checks import cluster as cluster_checks
from compiler.checks import fleet as fleet_checks
from compiler.checks import inventory as inventory_checks
from compiler.checks import nodes as node_checks
from compiler.checks import policy as policy_checks
from compiler.checks import risks
from compiler.checks import targets as target_checks
from compiler.checks.output import changes, removals
from compiler.checks.risks.change import Change
from compiler.fleet import assignment, definitions, examples, parse
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.output import tree
from compiler.planning import plan
from compiler.rendering import gitops, ir, layout, manifests
from compiler.settings import Settings

_DEFAULTS = Settings()


@dataclass(frozen=True, slots=True)
class Made:
    """A cluster as one side of a comparison, and what its output is made from."""

    side: pods.Side
    manifests: ir.ClusterManifests


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What a comparison of a cluster needs beside its two sides."""

    changed: Sequence[intent.DocumentChange]
    """The documents that differ."""
    render: layout.Render
    step_percent: int = _DEFAULTS.limits.step_percent
    """The share of a policy's nodes that one step may disturb."""
    known: examples.Examples | None = None
    """The nodes that those of both sides stand for, if they are examples."""


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


def made(planned: plan.Plan, output: str = names.OUTPUT) -> Made:
    """Return a planned cluster as one side of a comparison."""
    manifests_made = manifests_of(planned, output)
    daemon_sets: dict[pods.Served, pods.DaemonSet] = {}
    for manifest in manifests_made.manifests:
        value = manifest.value
        if isinstance(value, ir.DriverPool | ir.DevicePlugin):
            key = (manifest.component, value.policy, value.pool if isinstance(value, ir.DriverPool) else "")
            config = json.loads(value.config)
            ref = objects.Ref(kind="DaemonSet", namespace=value.namespace, name=value.name)
            daemon_sets[key] = pods.DaemonSet(ref=ref, config=config)
    has_rules = any(isinstance(manifest.value, ir.DeviceRules) for manifest in manifests_made.manifests)
    side = pods.Side(planned=planned, daemon_sets=daemon_sets, has_rules=has_rules)
    return Made(side, manifests_made)


def object_pairs(
    before: ir.ClusterManifests | None, after: ir.ClusterManifests | None, render: layout.Render
) -> tuple[objects.Pair, ...]:
    """Return the objects of a cluster that differ, sorted by path; what equal values make is not rendered."""
    was, now = (_rendered(side, other, render) for side, other in ((before, after), (after, before)))
    pairs = [
        objects.Pair(
            component=(now.get(ref) or was[ref]).component,
            path=(now.get(ref) or was[ref]).path,
            before=was[ref].data if ref in was else None,
            after=now[ref].data if ref in now else None,
        )
        for ref in {**was, **now}
    ]
    return tuple(sorted((pair for pair in pairs if pair.before != pair.after), key=lambda pair: (pair.path, pair.ref)))


def _rendered(
    side: ir.ClusterManifests | None, other: ir.ClusterManifests | None, render: layout.Render
) -> dict[objects.Ref, layout.Object]:
    """Return the objects of one side that may differ from those of the other."""
    if side is None:
        return {}
    # The engine's annotations are no part of a manifest.
    known = {*other.manifests, *other.bootstrap} if other is not None and other.engine == side.engine else set()
    own = replace(
        side,
        manifests=tuple(item for item in side.manifests if item not in known),
        bootstrap=tuple(item for item in side.bootstrap if item not in known),
    )
    found = layout.objects(own, lambda manifest: _rendered_once(manifest, render))
    return {objects.ref(item.data): item for item in found}


def _rendered_once(manifest: ir.Manifest, render: layout.Render) -> Mapping[str, Any]:
    """Return an object; pods that differ in their config alone, as those of several clusters do, are rendered once."""
    value = manifest.value
    if not isinstance(value, ir.Pod):
        return render(manifest)
    data = render(replace(manifest, value=replace(value, config="")))
    spec, template = data["spec"], data["spec"]["template"]
    metadata = template["metadata"]
    annotations = {**metadata["annotations"], names.CONFIG: value.config}
    pods_of = {**template, "metadata": {**metadata, "annotations": annotations}}
    return {**data, "spec": {**spec, "template": pods_of}}


def compared(before: Made | None, after: Made | None, basis: Basis) -> difference.ClusterDifference | None:
    """Return what becomes of a cluster and the risks of it; None where nothing differs."""
    was, now = (made.side if made else None for made in (before, after))
    pairs = object_pairs(before.manifests if before else None, after.manifests if after else None, basis.render)
    found = difference.of_cluster(was, now, pairs, basis.changed)
    if found is None:
        return None
    if basis.known is not None:
        found = found.expanded(basis.known)
    # Only a new object may have a privilege that an unchanged one of its component has too.
    new = {item.component for item in found.privileges if item.is_new and item.gained}
    change = Change(
        before=was,
        after=now,
        difference=found,
        written=basis.changed,
        held=_held(before.manifests, new, basis.render) if before and new else {},
        step_percent=basis.step_percent,
        known=basis.known,
    )
    return replace(found, risks=tuple(risks.risks(change)))


def _held(
    made: ir.ClusterManifests, components: Collection[str], render: layout.Render
) -> Mapping[str, frozenset[privileges.Privilege]]:
    """Return the privileges of all objects of some components."""
    own = [item for item in made.manifests if item.component in components]
    bootstrap = made.bootstrap if names.BOOTSTRAP in components else ()
    found = layout.objects(replace(made, manifests=tuple(own), bootstrap=bootstrap), render)
    return {
        component: frozenset().union(
            *(privileges.of_object(item.data) for item in found if item.component == component)
        )
        for component in components
    }


def check_changes(change: comparison.Change) -> tuple[tuple[comparison.Removal, ...], diagnostics.Findings]:
    """Return what a compile takes away from a cluster, and the findings on everything else that changes for nodes."""
    lost = tuple(losses.losses(change.before, change.after, change.planned))
    return tuple(removals.removals(change, lost)), tuple(changes.changes(change, lost))
