"""The line: read documents, check them, plan each cluster, check its nodes, render, compare with earlier output.

The stages return their findings beside their values: a mistake in a document stops none of them but the last two.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler import diagnostics, names, repeats, schema
from compiler.changes import acceptance
from compiler.changes.output import losses
from compiler.checks import assignment as assignment_checks
from compiler.checks import fleet as fleet_checks
from compiler.checks import inventory as inventory_checks
from compiler.checks import nodes as node_checks
from compiler.checks import policy as policy_checks
from compiler.checks.change import OutputChange
from compiler.checks.clusters import cluster as cluster_checks
from compiler.checks.clusters import refusals
from compiler.checks.clusters import targets as target_checks
from compiler.checks.output import changes, removals
from compiler.fleet import assignment, definitions
from compiler.formats import documents
from compiler.inventory import snapshot
from compiler.output import tree
from compiler.planning import plan
from compiler.read import fleet as reader
from compiler.rendering import components, gitops, ir, layout
from compiler.settings import Settings

_DEFAULTS = Settings()

Place = tuple[str, str]
"""The file of an inventory, and the name of its cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """Documents that are judged: the accepted ones, and the findings on all of them."""

    policies: tuple[definitions.Policy, ...]
    clusters: tuple[definitions.Cluster, ...]
    nodes: tuple[documents.Document, ...]
    """The NodeInventories and the lists of nodes."""
    findings: diagnostics.Findings
    complete: reader.Complete
    """As the judge of the documents has it."""

    @property
    def inventories(self) -> tuple[Place, ...]:
        """The place of every inventory among them."""
        return tuple((document.file, reader.inventory_cluster(document)) for document in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """A document, its kind if it has a known one, and its mistakes; it is accepted if it has none."""

    document: documents.Document
    kind: str | None
    findings: diagnostics.Findings


def read(
    found: Iterable[documents.Document],
    judge: schema.Judge,
    known: Iterable[Place] = (),
    unread: diagnostics.Findings = (),
    settings: Settings = _DEFAULTS,
) -> tuple[definitions.Fleet, diagnostics.Findings]:
    """Return the fleet that documents make up, and the findings on them.

    `known` are places of inventories that are not read here. `unread` are findings on files that are no documents, and
    come first. `settings` are the settings of the project.
    """
    found, known = tuple(found), tuple(known)
    files = {*_files(found), *(finding.span.file for finding in unread), *(file for file, _ in known)}
    return fleet_of(judged(found, judge, files, unread, settings), known, settings)


def judged(
    found: Iterable[documents.Document],
    judge: schema.Judge,
    files: Collection[str],
    unread: diagnostics.Findings = (),
    settings: Settings = _DEFAULTS,
) -> Documents:
    """Return documents with the findings on them; `files` are the names of all files of the project."""
    found = tuple(found)
    read = _judge_recipes([document for document in found if settings.is_recipe_file(document.file)], judge, settings)
    sound = (item.document for item in read if item.kind == "Recipe" and not item.findings)
    recipes = {document.data["metadata"]["name"]: document for document in sound}
    judge = judge.knowing({name: document.data["spec"] for name, document in recipes.items()})
    every = [
        _judge_one(document, judge, settings, files) for document in found if not settings.is_recipe_file(document.file)
    ]
    refused = _refused((*unread, *(fault for item in read for fault in item.findings)), settings)
    every = [
        _of_recipe(item, refused, recipes, judge.complete) if item.kind == "DevicePolicy" else item for item in every
    ]
    accepted = [item for item in every if not item.findings]
    return Documents(
        policies=tuple(
            reader.policy_of(item.document, judge.complete, recipes)
            for item in accepted
            if item.kind in names.POLICY_KINDS
        ),
        clusters=tuple(
            reader.cluster_of(item.document, judge.complete) for item in accepted if item.kind == "KAECluster"
        ),
        nodes=tuple(item.document for item in accepted if item.kind in ("NodeInventory", "NodeList")),
        findings=(*unread, *(finding for item in (*read, *every) for finding in item.findings)),
        complete=judge.complete,
    )


def fleet_of(
    read: Documents, known: Iterable[Place] = (), settings: Settings = _DEFAULTS
) -> tuple[definitions.Fleet, diagnostics.Findings]:
    """Return the fleet of judged documents, and the findings on them; `known` are places of other inventories."""
    known = tuple(known)
    fleet = reader.fleet_of(read.policies, read.clusters, read.nodes, [name for _, name in known], read.complete)
    inventories = [(name, file) for file, name in (*known, *read.inventories)]
    findings = (
        *read.findings,
        *(finding for policy in read.policies for finding in policy_checks.findings(policy)),
        *(finding for cluster in read.clusters for finding in cluster_checks.findings(cluster, settings.applied)),
        *(
            finding
            for cluster in read.clusters
            for finding in cluster_checks.ignored_labels(read.policies, fleet.builtin, cluster)
        ),
        *fleet_checks.findings(fleet, read.clusters, inventories),
        *target_checks.findings(fleet.clusters, settings.applied),
    )
    if not settings.has_errors(findings):
        findings = (*findings, *fleet_checks.clusters(fleet, inventories))
    return replace(fleet, sound=not settings.has_errors(findings)), findings


def read_inventory(
    cluster: definitions.Cluster,
    found: Iterable[documents.Document],
    judge: schema.Judge,
    settings: Settings = _DEFAULTS,
) -> tuple[snapshot.Inventory, diagnostics.Findings]:
    """Return the inventory of a cluster in these documents, an empty one without any, and the findings on them."""
    found = tuple(found)
    read = judged(found, judge, _files(found), settings=settings)
    return inventory_of(cluster, read) or _no_nodes(cluster, found[0].file if found else ""), read.findings


def _files(found: Iterable[documents.Document]) -> frozenset[str]:
    return frozenset(document.file for document in found)


def inventory_of(cluster: definitions.Cluster, read: Documents) -> snapshot.Inventory | None:
    """Return the inventory of a cluster among judged documents, the last if there are several; None without one."""
    return reader.inventory_of(read.nodes[-1], cluster.spec) if read.nodes else None


def _no_nodes(cluster: definitions.Cluster, file: str) -> snapshot.Inventory:
    return snapshot.Inventory(cluster=cluster.name, file=file, nodes=())


def _judge_one(
    document: documents.Document, judge: schema.Judge, settings: Settings, files: Collection[str]
) -> _Judged:
    in_policies = settings.is_policy_file(document.file)
    kind, findings = judge.judge(document, lists=not in_policies)
    if not in_policies:
        findings = [*findings, *inventory_checks.misplaced(document, kind, settings.policies)]
    if kind == "Recipe" and in_policies:
        findings = [*findings, *inventory_checks.outside_of_recipes(document, settings.recipes)]
    if not findings and kind not in names.SHARED_KINDS:
        findings = [*inventory_checks.misnamed(document, files), *inventory_checks.findings(document)]
    return _Judged(document=document, kind=kind, findings=tuple(findings))


def _judge_recipes(found: Sequence[documents.Document], judge: schema.Judge, settings: Settings) -> list[_Judged]:
    """Return the documents in the folder of recipes; of several in one file, all are refused but the first."""
    if not found:
        return []
    from compiler.checks.recipes import recipe as recipe_checks  # noqa: PLC0415 - only projects with recipes need it

    every = [_judge_recipe(document, judge, settings) for document in found]
    for (_, first), (index, second) in repeats.of(enumerate(found), key=lambda pair: pair[1].file):
        finding = recipe_checks.second(first, second)
        every[index] = replace(every[index], findings=(*every[index].findings, finding))
    return every


def _judge_recipe(document: documents.Document, judge: schema.Judge, settings: Settings) -> _Judged:
    from compiler.checks.recipes import recipe as recipe_checks  # noqa: PLC0415 - only projects with recipes need it

    kind, findings = judge.judge(document, lists=False)
    findings = [*findings, *recipe_checks.misplaced(document, kind, settings.recipes, settings.policies)]
    if not findings:
        findings = list(recipe_checks.findings(document, judge.schema_of("Recipe"), judge.complete))
    return _Judged(document=document, kind=kind, findings=tuple(findings))


_EMPTY = "empty-file"
"""The code of a warning, which alone would let a policy go unsaid."""


def _refused(found: Iterable[diagnostics.Diagnostic], settings: Settings) -> Mapping[str, str]:
    """Return the codes of findings that say why recipes are not there, by the names of these."""
    return {fault.span.file.split("/")[-2]: fault.code for fault in found if settings.is_recipe_file(fault.span.file)}


def _of_recipe(
    item: _Judged,
    refused: Mapping[str, str],
    recipes: Mapping[str, documents.Document],
    complete: reader.Complete,
) -> _Judged:
    """Return a DevicePolicy with the findings on what it says of its recipe, or without a kind if that is refused."""
    from compiler.checks.recipes import values  # noqa: PLC0415 - only projects with recipes need it

    spec = item.document.data.get("spec")
    name = spec.get("recipe") if isinstance(spec, dict) else None
    if not isinstance(name, str):
        return item
    if name in recipes:
        found = () if item.findings else tuple(values.findings(item.document, recipes[name], complete))
        return replace(item, findings=(*item.findings, *found))
    if refused.get(name, _EMPTY) != _EMPTY:
        return replace(item, kind=None)
    finding = values.unknown_recipe(item.document, recipes, names.SHIPPED_RECIPES)
    if name in refused:
        finding = replace(finding, hint="Its file holds no document: write the recipe into it.")
    return replace(item, findings=(*item.findings, finding))


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
    planned = plan.of_cluster(cluster, assigned.policies, inventory, fleet.builtin)
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
        frozen=tuple(layout.frozen_groups(planned.divisions)),
        engine=spec.gitops.engine,
        manifests=components.manifests(planned),
        bootstrap=tuple(gitops.bootstrap(planned.cluster, output)),
    )


def check_objects(planned: plan.Plan, rendered: Iterable[layout.Object]) -> diagnostics.Findings:
    """Return the findings on the objects of a planned cluster."""
    if not planned.cluster.spec.recipes.refuse:
        return ()
    return tuple(refusals.refused(planned.cluster, layout.privileges(rendered)))


def check_changes(change: OutputChange) -> tuple[tuple[acceptance.Acceptable, ...], diagnostics.Findings]:
    """Return what a compile takes away from a cluster, and the findings on everything else that changes for nodes."""
    lost = tuple(losses.losses(change.before, change.after, change.planned))
    return tuple(removals.removals(change, lost)), tuple(changes.changes(change, lost))
