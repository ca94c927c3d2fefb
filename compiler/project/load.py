"""Reading the documents of a project from disk into a fleet."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from compiler import diagnostics, errors, names, pipeline, schema, wording
from compiler.checks.output import foreign as foreign_checks
from compiler.checks.output import removals
from compiler.fleet import definitions
from compiler.formats import decode
from compiler.output import foreign
from compiler.planning import plan
from compiler.project import document_files, output_in_git, package_data, project_file
from compiler.settings import Settings


def read(settings: Settings) -> tuple[definitions.Fleet, diagnostics.Findings]:
    """Return the fleet of the project in the current folder, and the findings, also on output/. Raises WorldError."""
    output = project_file.output(settings)
    fleet, found = fleet_of(*document_files.of_project(settings), settings=settings)
    on_output = foreign.engine_files(output, names_of(fleet), settings.extra)
    if on_output:
        # A merge may leave the kustomization.yaml of a cluster that one branch has removed.
        left = output_in_git.clusters(output_in_git.unmerged(settings.output, settings.extra))
        on_output = foreign.engine_files(output, names_of(fleet) | left, settings.extra)
    return fleet, (*found, *foreign_checks.engine_files(str(output), on_output))


def planned(
    settings: Settings, clusters: Sequence[str]
) -> tuple[definitions.Fleet, Sequence[plan.Plan], diagnostics.Findings]:
    """Return the fleet, the plans of the clusters with these names, or of all, and all findings. Raises WorldError."""
    fleet, on_documents = read(settings)
    require_clusters(clusters, fleet.clusters)
    made = [pipeline.plan_cluster(fleet, cluster) for cluster in fleet.selected(clusters)]
    on_clusters = pipeline.settle(fleet, {view.cluster.name: own for view, own in made})
    return fleet, [view for view, _ in made], diagnostics.merged([*on_documents, *on_clusters])


def planned_one(
    settings: Settings, clusters: Sequence[str]
) -> tuple[definitions.Fleet, plan.Plan, diagnostics.Findings]:
    """Return the fleet, the plan of the one selected cluster, and all findings. Raises WorldError without just one."""
    fleet, on_documents = read(settings)
    view, on_cluster = pipeline.plan_cluster(fleet, one_cluster(fleet, clusters))
    on_clusters = pipeline.settle(fleet, {view.cluster.name: on_cluster})
    return fleet, view, diagnostics.merged([*on_documents, *on_clusters])


def names_of(fleet: definitions.Fleet) -> frozenset[str]:
    """Return the names of the clusters of a fleet."""
    return frozenset(cluster.name for cluster in fleet.clusters)


def fleet_of(
    files: Iterable[document_files.Input],
    on_files: Iterable[diagnostics.Diagnostic] = (),
    known: Mapping[str, str] | None = None,
    accepted: Collection[str] = (),
    *,
    settings: Settings,
) -> tuple[definitions.Fleet, diagnostics.Findings]:
    """Return the fleet of these files, and the findings, including those `on_files`. Raises WorldError.

    `known` is passed to `pipeline.read`; `accepted` are scopes of removals, of which an empty inventory may be one.
    """
    # No variable keeps the bytes of a file, so that `decode` can free them.
    readings = [decode.decode(item.name, document_files.read(item)) for item in files]
    unread = (*on_files, *(finding for _, findings in readings for finding in _judged(findings, accepted, settings)))
    documents = (document for documents, _ in readings for document in documents)
    fleet, found = pipeline.read(documents, schema.Judge(package_data.schemas()), known, unread, settings)
    return fleet, (*found, *project_file.of_clusters(settings, names_of(fleet)))


def _judged(
    findings: Iterable[diagnostics.Diagnostic], accepted: Collection[str], settings: Settings
) -> Iterator[diagnostics.Diagnostic]:
    """Yield the findings on a file; an empty inventory is a removal of its cluster's nodes unless it is accepted."""
    for finding in findings:
        if finding.code != "empty-file" or settings.is_policy_file(finding.span.file):
            yield finding
            continue
        removal = removals.empty_file(finding, names.stem(finding.span.file))
        if not removal.is_accepted(accepted):
            yield removal.told()


def require_clusters(wanted: Sequence[str], known: Iterable[definitions.Cluster]) -> None:
    """Raise WorldError for a wanted cluster that no document names."""
    declared = sorted(cluster.name for cluster in known)
    for name in wanted:
        if name not in declared:
            known_names = f"Clusters are {wording.listed(declared)}." if declared else "No document names a cluster."
            raise errors.WorldError(
                f"there is no cluster '{name}'.", hint=f"{wording.did_you_mean(name, declared)} {known_names}".lstrip()
            )


def one_cluster(fleet: definitions.Fleet, wanted: Sequence[str]) -> definitions.Cluster:
    """Return the one selected cluster. Raises WorldError where there are none or several."""
    require_clusters(wanted, fleet.clusters)
    chosen = fleet.selected(wanted)
    if not chosen:
        raise errors.WorldError("the documents name no cluster.", hint="Write a KAECluster, or take an inventory.")
    if len(chosen) > 1:
        clusters = wording.listed(cluster.name for cluster in chosen)
        raise errors.WorldError(
            f"the command is for one cluster, and the documents name {clusters}.", hint="Choose by --cluster."
        )
    return chosen[0]


def nodes_named(fleet: definitions.Fleet, wanted: str, chosen: Sequence[str]) -> list[tuple[definitions.Cluster, str]]:
    """Return the cluster and the name of each node that NODE or CLUSTER/NODE names, among the selected clusters.

    Raises WorldError where there is none.
    """
    stated, _, name = wanted.rpartition("/")
    require_clusters([*chosen, *([stated] if stated else [])], fleet.clusters)
    matches = [
        (cluster, name)
        for cluster in fleet.selected(chosen)
        if stated in ("", cluster.name) and any(node.name == name for node in fleet.inventory(cluster).nodes)
    ]
    if not matches:
        near = wording.did_you_mean(wanted, _names(fleet, chosen, is_full=bool(stated)))
        raise errors.WorldError(
            f"no inventory holds a node '{wanted}'.", hint=f"{near} `kae plan -o json` lists all nodes.".lstrip()
        )
    return matches


def _names(fleet: definitions.Fleet, chosen: Sequence[str], *, is_full: bool) -> Iterator[str]:
    """Yield the nodes of the selected clusters, with their clusters if the names are to be full."""
    for cluster in fleet.selected(chosen):
        for node in fleet.inventory(cluster).nodes:
            yield f"{cluster.name}/{node.name}" if is_full else node.name
