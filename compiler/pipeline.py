"""The line: read documents, check them, plan each cluster, check its nodes, render, compare with earlier output.

The stages return their findings beside their values: a mistake in a document stops none of them but the last two.
"""

import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from compiler import diagnostics, names, schema
from compiler.changes import acceptance, losses
from compiler.checks import assignment as assignment_checks
from compiler.checks import cluster as cluster_checks
from compiler.checks import fleet as fleet_checks
from compiler.checks import inventory as inventory_checks
from compiler.checks import nodes as node_checks
from compiler.checks import policy as policy_checks
from compiler.checks.change import OutputChange
from compiler.checks.output import changes
from compiler.fleet import assignment, clusters, definitions
from compiler.formats import decode, documents
from compiler.inventory import snapshot
from compiler.output import tree
from compiler.planning import plan
from compiler.read import fleet as reader
from compiler.rendering import gitops, ir, layout
from compiler.settings import Settings

_DEFAULTS = Settings()

Place = tuple[str, str]
"""The file of an inventory, and the name of its cluster."""


class Documents(msgspec.Struct, frozen=True, kw_only=True):
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


class _Recipes(msgspec.Struct, frozen=True, kw_only=True):
    """The recipes of a project, which are judged before the policies that name them."""

    accepted: Mapping[str, documents.Document]
    """By their names."""
    refused: Mapping[str, str]
    """The code of a finding that says why a recipe is not there, by the name that it would have."""
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
    recipes = _judge_recipes([each for each in found if settings.is_recipe_file(each.file)], judge, unread, settings)
    judge = judge.knowing({name: recipe.data["spec"] for name, recipe in recipes.accepted.items()})
    accepted: list[tuple[str | None, documents.Document]] = []
    findings = [*unread, *recipes.findings]
    for document in found:
        if settings.is_recipe_file(document.file):
            continue
        kind, wrong = _judge(document, judge, settings, files)
        if kind == "DevicePolicy":
            wrong = [*wrong, *_on_recipe(document, recipes, judge, is_sound=not wrong)]
        findings += wrong
        # A policy of a refused recipe has no mistake of its own.
        if not wrong and (kind != "DevicePolicy" or document.data["spec"]["recipe"] in recipes.accepted):
            accepted.append((kind, document))
    clusters = tuple(reader.cluster_of(document, judge.complete) for kind, document in accepted if kind == "KAECluster")
    known: dict[str, tuple[str, ...]] = {**names.SHIPPED_RECIPES, **dict.fromkeys(recipes.refused, ())}
    known |= {name: _components(recipe) for name, recipe in recipes.accepted.items()}
    findings += (finding for cluster in clusters for finding in cluster_checks.refuses_nothing(cluster, known))
    return Documents(
        policies=tuple(
            reader.policy_of(document, judge.complete, recipes.accepted)
            for kind, document in accepted
            if kind in names.POLICY_KINDS
        ),
        clusters=clusters,
        nodes=tuple(document for kind, document in accepted if kind in ("NodeInventory", "NodeList")),
        findings=tuple(findings),
        complete=judge.complete,
    )


def _components(recipe: documents.Document) -> tuple[str, ...]:
    """Return the names of what a recipe may run on nodes."""
    return ("driver", "device-plugin", *(one["name"] for one in recipe.data["spec"].get("programs", ())))


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
        *(finding for cluster in read.clusters for finding in cluster_checks.ignored_labels(read.policies, cluster)),
        *fleet_checks.findings(fleet, read.clusters, inventories, settings.applied),
    )
    if not settings.has_errors(findings):
        findings = (*findings, *fleet_checks.clusters(fleet, inventories))
    return structs.replace(fleet, sound=not settings.has_errors(findings)), findings


def read_inventory(
    cluster: definitions.Cluster,
    found: Iterable[documents.Document],
    judge: schema.Judge,
    settings: Settings = _DEFAULTS,
) -> tuple[snapshot.Inventory, diagnostics.Findings]:
    """Return the inventory of a cluster in these documents, an empty one without any, and the findings on them."""
    found = tuple(found)
    read = judged(found, judge, _files(found), settings=settings)
    empty = snapshot.Inventory(cluster=cluster.name, file=found[0].file if found else "", nodes=())
    return inventory_of(cluster, read) or empty, read.findings


def _files(found: Iterable[documents.Document]) -> frozenset[str]:
    return frozenset(document.file for document in found)


def at_once(spec: clusters.Spec, judge: schema.Judge) -> decode.Quick:
    """Return what reads a cluster's list of nodes, as kubectl prints it, with the inventory that it means."""

    def read(file: str, content: bytes) -> documents.Document | None:
        if b'"NodeInventory"' in content[:200]:  # As `kae inventory` and the watcher write it.
            return None
        from compiler.read import node_list  # noqa: PLC0415 - only a raw list needs it

        return node_list.read(file, content, spec, functools.partial(judge.accepts, "NodeList"))

    return read


def inventory_of(cluster: definitions.Cluster, read: Documents) -> snapshot.Inventory | None:
    """Return the inventory of a cluster among judged documents, the last if there are several; None without one."""
    return reader.inventory_of(read.nodes[-1], cluster.spec) if read.nodes else None


def _judge(
    document: documents.Document, judge: schema.Judge, settings: Settings, files: Collection[str]
) -> tuple[str | None, Sequence[diagnostics.Diagnostic]]:
    """Return the kind of a document outside of the folder of recipes, if it has a known one, and its mistakes."""
    kind, findings = judge.judge(document, lists=not settings.is_policy_file(document.file))
    findings = [*findings, *inventory_checks.misplaced(document, kind, settings)]
    if not findings and kind in names.SHARED_KINDS:
        findings = list(inventory_checks.without_value(document))
    elif not findings:
        findings = [*inventory_checks.misnamed(document, files), *inventory_checks.findings(document)]
    return kind, findings


def _judge_recipes(
    found: Iterable[documents.Document], judge: schema.Judge, unread: diagnostics.Findings, settings: Settings
) -> _Recipes:
    """Return the recipes in the documents in their folder; of several in one file, only the first may be accepted."""
    accepted: dict[str, documents.Document] = {}
    findings: list[diagnostics.Diagnostic] = []
    first: dict[str, documents.Document] = {}
    for document in found:
        wrong = _judge_recipe(document, first.setdefault(document.file, document), judge, settings)
        findings += wrong
        if not wrong:
            accepted[document.data["metadata"]["name"]] = document
    of_recipes = (fault for fault in (*unread, *findings) if settings.is_recipe_file(fault.span.file))
    refused = {fault.span.file.split("/")[-2]: fault.code for fault in of_recipes}
    return _Recipes(accepted=accepted, refused=refused, findings=tuple(findings))


def _judge_recipe(
    document: documents.Document, first: documents.Document, judge: schema.Judge, settings: Settings
) -> list[diagnostics.Diagnostic]:
    """Return the mistakes of a document in the folder of recipes, whose file has `first` as its first one."""
    from compiler.checks import recipe as recipe_checks  # noqa: PLC0415 - only projects with recipes need it

    kind, findings = judge.judge(document, lists=False)
    findings = [*findings, *inventory_checks.misplaced(document, kind, settings)]
    findings = findings or list(inventory_checks.without_value(document))
    if not findings:
        findings = list(recipe_checks.findings(document, judge.schema_of("Recipe"), judge.complete))
    return findings if first is document else [*findings, inventory_checks.second_recipe(first, document)]


def _on_recipe(
    document: documents.Document, recipes: _Recipes, judge: schema.Judge, *, is_sound: bool
) -> Iterator[diagnostics.Diagnostic]:
    """Yield the findings on what a DevicePolicy says of its recipe; none where that is refused, which is said there."""
    from compiler.checks import recipe as recipe_checks  # noqa: PLC0415 - only projects with recipes need it

    spec = document.data.get("spec")
    name = spec.get("recipe") if isinstance(spec, dict) else None
    if not isinstance(name, str):
        return
    refused = recipes.refused.get(name)
    if name in recipes.accepted:
        if is_sound:
            yield from recipe_checks.of_policy(
                document, recipes.accepted[name], judge.schema_of("Recipe"), judge.complete
            )
    elif refused in (None, "empty-file"):  # An empty file is a warning, which alone would let the policy go unsaid.
        finding = recipe_checks.unknown(document, recipes.accepted, tuple(names.SHIPPED_RECIPES))
        hint = "Its file holds no document: write the recipe into it."
        yield finding._replace(hint=hint) if refused else finding


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


def check_labels(fleet: definitions.Fleet, planned: plan.Plan, read: Documents) -> diagnostics.Findings:
    """Return the findings on the labels of a planned cluster's nodes, which its judged documents have."""
    recipes = reader.recipes_of(fleet.policies)
    return tuple(inventory_checks.labels(read.nodes[-1], planned.inventory, recipes)) if read.nodes else ()


def render_cluster(
    planned: plan.Plan, render: layout.Render, output: str = names.OUTPUT
) -> tuple[tree.Tree, tuple[layout.Object, ...]]:
    """Return the files of a planned cluster, and the objects that they hold."""
    objects = layout.objects(manifests_of(planned, output), render)
    return layout.tree(planned, objects), objects


def manifests_of(planned: plan.Plan, output: str = names.OUTPUT) -> ir.ClusterManifests:
    """Return the objects of the output of a planned cluster; engines apply them from `output` in the repository."""
    return ir.ClusterManifests(
        engine=planned.cluster.spec.gitops.engine,
        manifests=layout.manifests(planned),
        bootstrap=tuple(gitops.bootstrap(planned.cluster, output)),
    )


def check_objects(planned: plan.Plan, rendered: Iterable[layout.Object]) -> diagnostics.Findings:
    """Return the findings on the objects of a planned cluster."""
    if not planned.cluster.spec.recipes.refuse:
        return ()
    return tuple(cluster_checks.refused(planned.cluster, layout.privileges(rendered)))


def check_changes(change: OutputChange) -> tuple[tuple[acceptance.Acceptable, ...], diagnostics.Findings]:
    """Return what a compile takes away from a cluster, and the findings on everything else that changes for nodes."""
    lost = tuple(losses.losses(change.before, change.after, change.planned))
    return tuple(changes.removals(change, lost)), tuple(changes.changes(change, lost))
