"""`kae plan`: the components of each node, and the reasons."""

import argparse
from collections.abc import Mapping, Sequence

import msgspec

from compiler import cli, diagnostic_formats, diagnostics, pipeline
from compiler.cli import findings
from compiler.fleet import assignment, definitions, selectors
from compiler.packing import Packed
from compiler.planning import plan
from compiler.project import load, package_data, project_file
from compiler.project.by_cluster import planned, workers
from compiler.read import fleet as reader
from compiler.rendering import layout, templates
from compiler.views import plan_data, plan_text, selection


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    """The printed text of a cluster, small enough to be kept for every cluster of a fleet."""

    name: str
    counts: Mapping[str, plan_text.Counts]
    named: frozenset[tuple[str, str]] = frozenset()
    """The nodes that the call names and the cluster has."""
    summary: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    data: Packed[plan_data.Text] | None = None
    """None for people."""


def run(arguments: argparse.Namespace) -> int:
    project = load.project(project_file.of(arguments))
    chosen = _clusters(arguments, project)
    wanted = _selection(arguments, project, chosen)
    crew = workers.Crew(arguments.jobs)
    result = planned.of_project(project, chosen, lambda view, _: _part(arguments, view, wanted), crew)
    findings.require_fine(arguments, result.findings, clusters=[])
    parts = result.answers
    _require_nodes(arguments.node, project, chosen, parts)
    holding = [part for part in parts if any(counts.nodes for counts in part.counts.values())]
    return _show(arguments, result.findings, holding or parts if wanted else parts)


def _clusters(arguments: argparse.Namespace, project: load.Project) -> Sequence[definitions.Cluster]:
    """Return the selected clusters; where nodes are named, those that may hold them. Raises WorldError."""
    if arguments.node and arguments.shard.count > 1:
        cli.parser().error("--node and --shard both choose clusters.", "Leave one of them out.")
    load.require_clusters(arguments.cluster, project.fleet.clusters)
    holding = {
        cluster.name for node in arguments.node for cluster in load.clusters_with(project, node, arguments.cluster)
    }
    chosen = [item for item in project.fleet.selected(arguments.cluster) if arguments.shard.takes(item.name)]
    return [item for item in chosen if item.name in holding] if arguments.node else chosen


def _selection(
    arguments: argparse.Namespace, project: load.Project, chosen: Sequence[definitions.Cluster]
) -> selection.Selection:
    if project.fleet.sound:
        here = [policy for cluster in chosen for policy in assignment.in_cluster(project.fleet.policies, cluster.name)]
        selection.require("policy", "Policies", arguments.policy, {policy.name for policy in here})
        known = [recipe.name for recipe in reader.recipes_of(here)]
        selection.require("recipe", "Recipes", arguments.recipes, known)
    named = [node.rpartition("/") for node in arguments.node]
    return selection.Selection(
        policies=frozenset(arguments.policy),
        recipes=frozenset(arguments.recipes),
        nodes=frozenset(
            (cluster.name, name) for cluster in chosen for stated, _, name in named if stated in ("", cluster.name)
        ),
        term=selectors.parse(arguments.selector),
        has_problem=arguments.problems,
        differs=arguments.differing,
    )


def _part(arguments: argparse.Namespace, whole: plan.Plan, wanted: selection.Selection) -> _Part:
    view = selection.restricted(whole, wanted)
    name, counts = view.cluster.name, plan_text.counts(view)
    pairs = ((name, node.name) for node in whole.inventory.nodes) if wanted.nodes else ()
    named = wanted.nodes.intersection(pairs)
    if arguments.shape != "text":
        make = plan_data.lines if arguments.shape == "ndjson" else plan_data.item
        return _Part(name=name, counts=counts, named=named, data=Packed.of(make(view, privileges(whole))))
    details = plan_text.problems(view) if arguments.problems else plan_text.details(view)
    return _Part(
        name=name,
        counts=counts,
        named=named,
        summary=tuple(plan_text.summary(view, _restriction(arguments))),
        details=tuple(details),
    )


def privileges(view: plan.Plan) -> plan_data.Privileges:
    """Return what the programs of each recipe may do in a cluster, as privileges.txt has it."""
    if len(view.recipes) == 1:
        return {}
    render = templates.renderer(package_data.templates(), package_data.code())
    found = layout.privileges(pipeline.render_cluster(view, render)[1])
    programs = {one.recipe.name: tuple(map(one.recipe.app, one.recipe.components)) for one in view.recipes}
    return {name: [str(each) for each in found if each.program in own] for name, own in programs.items()}


def _restriction(arguments: argparse.Namespace) -> str:
    options = [f"--recipe {name}" for name in arguments.recipes]
    options += [f"--policy {name}" for name in arguments.policy]
    options += [f"--node {name}" for name in arguments.node]
    options += [f"-l {arguments.selector}"] if arguments.selector else []
    options += ["--problems"] if arguments.problems else []
    options += ["--differing"] if arguments.differing else []
    return " ".join(options)


def _show(arguments: argparse.Namespace, found: diagnostics.Findings, parts: Sequence[_Part]) -> int:
    if arguments.shape == "text":
        lines = [
            *plan_text.clusters([(part.name, part.counts) for part in parts]),
            *(line for part in parts for line in part.summary),
            *(line for part in parts for line in part.details),
        ]
        return findings.show(arguments, found, "\n".join(lines).rstrip("\n") + "\n" if parts else "")
    pieces = (plan_data.pieces(part.data.value()) for part in parts if part.data)
    if arguments.shape == "ndjson":
        return findings.show(arguments, found, (piece for cluster in pieces for piece in cluster))
    return findings.show(arguments, found, clusters=diagnostic_formats.Items(pieces))


def _require_nodes(
    named: Sequence[str], project: load.Project, chosen: Sequence[definitions.Cluster], parts: Sequence[_Part]
) -> None:
    """Raise WorldError for the first named node that no part has."""
    known = {pair for part in parts for pair in part.named}
    for wanted in named:
        stated, _, name = wanted.rpartition("/")
        if not any(name == own and stated in ("", cluster) for cluster, own in known):
            raise load.unknown_node(wanted, load.nodes(project, chosen))
