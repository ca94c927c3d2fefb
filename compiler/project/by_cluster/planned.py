"""The clusters of a project, read and planned one at a time: no more than one inventory is in memory for each process.

What all clusters together decide is judged at the end, from what each of them leaves behind.
"""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import structs

from compiler import diagnostics, pipeline
from compiler.checks import fleet as fleet_checks
from compiler.fleet import definitions
from compiler.planning import plan
from compiler.project import load, project_file
from compiler.project.by_cluster import workers
from compiler.settings import Settings

Answer = TypeVar("Answer")

_ALONE = workers.Crew(1)

Make = Callable[[plan.Plan, diagnostics.Findings], Answer]
"""A function from a plan and the findings on it, none of which is certainly an error, to what a command needs of it."""


class Planned(msgspec.Struct, Generic[Answer], frozen=True, kw_only=True):
    """A planned cluster without its inventory: its findings, and the answer that a command needs of it."""

    name: str
    inventories: tuple[pipeline.Place, ...] = ()
    """The accepted ones."""
    on_inventories: diagnostics.Findings = ()
    on_policies: diagnostics.Findings = ()
    on_nodes: diagnostics.Findings = ()
    answer: Answer | None = None
    """None where something of the cluster, or what all clusters share, has errors."""

    @property
    def findings(self) -> diagnostics.Findings:
        """The findings on the plan, those on nodes included."""
        return (*self.on_policies, *self.on_nodes)


class Run(msgspec.Struct, Generic[Answer], frozen=True, kw_only=True):
    """The planned clusters of a project, and what all of them decide together."""

    fleet: definitions.Fleet
    asked: Sequence[Planned[Answer]]
    """Every cluster that was asked for."""
    clusters: Sequence[Planned[Answer]]
    """Without those that turned out to have neither an inventory nor a KAECluster."""
    on_documents: diagnostics.Findings
    """Those on documents, and on files in output/."""
    on_plans: diagnostics.Findings

    @property
    def findings(self) -> diagnostics.Findings:
        """All findings, each once, in the order of files and lines."""
        return diagnostics.merged((*self.on_documents, *self.on_plans))

    @property
    def answers(self) -> Sequence[Answer]:
        """The answers for the clusters without errors."""
        return [each.answer for each in self.clusters if each.answer is not None]


def of_settings(
    settings: Settings, chosen: Sequence[str], make: Make[Answer], crew: workers.Crew = _ALONE
) -> Run[Answer]:
    """Return the project in the current folder, with these clusters planned, or all of them. Raises WorldError."""
    project = load.project(settings)
    load.require_clusters(chosen, project.fleet.clusters)
    return of_project(project, project.fleet.selected(chosen), make, crew)


def of_project(
    project: load.Project, chosen: Sequence[definitions.Cluster], make: Make[Answer], crew: workers.Crew = _ALONE
) -> Run[Answer]:
    """Return the planned clusters, with the findings on their output too. Raises WorldError."""
    others = load.names_of(project.fleet).difference(cluster.name for cluster in chosen)
    on_output = load.on_output(project.settings, project.fleet, others)
    run = of_clusters(project, chosen, make, crew)
    return msgspec.structs.replace(run, on_documents=(*run.on_documents, *on_output))


def of_one(settings: Settings, chosen: Sequence[str]) -> tuple[Run[plan.Plan], plan.Plan]:
    """Return the one selected cluster and its plan, also where there are errors. Raises WorldError without just one."""
    project = load.project(settings)
    cluster = load.one_cluster(project.fleet, chosen)
    run = of_project(project, [cluster], lambda view, _: view)
    return run, run.answers[0] if run.answers else _planned(project, cluster)[0]


def of_clusters(
    project: load.Project,
    chosen: Sequence[definitions.Cluster],
    make: Make[Answer],
    crew: workers.Crew = _ALONE,
    known: Sequence[Planned[Answer]] = (),
) -> Run[Answer]:
    """Return the clusters, planned by a crew, whose processes send each other the answers of `make`.

    Clusters that are `known` are among the result, and are not planned again. Raises WorldError.
    """

    def work(cluster: definitions.Cluster) -> Planned[Answer]:
        view, planned = _planned(project, cluster)
        # Another cluster may disprove the rest: without errors at the end, every cluster has an answer.
        found = (*planned.on_inventories, *fleet_checks.certain(planned.findings))
        is_wrong = not project.fleet.sound or project.settings.has_errors(found)
        return planned if is_wrong else msgspec.structs.replace(planned, answer=make(view, planned.findings))

    done = [*known, *crew.each(work, chosen, lambda cluster: project.size(cluster.name))]
    run = concluded(project, done)
    if run.fleet.sound and not project.fleet.sound:
        # A file without documents, which a person accepts, was taken for the inventory of a cluster.
        return of_clusters(msgspec.structs.replace(project, fleet=run.fleet), chosen, make, crew, known)
    return run


def concluded(project: load.Project, done: Sequence[Planned[Answer]]) -> Run[Answer]:
    """Return planned clusters with the findings that take all of them; inventories of other clusters were not read."""
    done = sorted(done, key=lambda each: each.name)
    fleet, on_documents = _documents(project, done)
    names = load.names_of(fleet)
    kept = [each for each in done if each.name in names]
    on_plans = pipeline.settle(fleet, {each.name: each.findings if fleet.sound else each.on_policies for each in kept})
    return Run(fleet=fleet, asked=done, clusters=kept, on_documents=on_documents, on_plans=on_plans)


def _planned(project: load.Project, cluster: definitions.Cluster) -> tuple[plan.Plan, Planned[Any]]:
    read = project.read(cluster)
    view, on_policies = pipeline.plan_policies(project.fleet, cluster, pipeline.inventory_of(cluster, read))
    is_sound = project.fleet.sound and not project.settings.has_errors(read.findings)
    return view, Planned(
        name=cluster.name,
        inventories=read.inventories,
        on_inventories=read.findings,
        on_policies=on_policies,
        on_nodes=(*pipeline.check_nodes(view), *pipeline.check_labels(project.fleet, view, read)) if is_sound else (),
    )


def _documents(project: load.Project, done: Sequence[Planned[Any]]) -> tuple[definitions.Fleet, diagnostics.Findings]:
    """Return the fleet, and the findings on its documents; inventories of other clusters were not read."""
    own = {each.name for each in done}
    on_inventories = (one for each in done for one in each.on_inventories)
    read = structs.replace(project.shared, findings=(*project.shared.findings, *on_inventories))
    # Whether an empty file may stand for a cluster is asked where that cluster is read.
    places = [place for place in project.places if place[1] not in own and project.size(place[1])]
    places += [place for each in done for place in each.inventories]
    fleet, found = pipeline.fleet_of(read, places, project.settings)
    return fleet, (*found, *project_file.of_clusters(project.settings, load.names_of(fleet)))
