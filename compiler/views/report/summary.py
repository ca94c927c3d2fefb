"""The summary of the fleet: for a terminal, the tables of the page that fit into one, and the problems; and as data."""

from collections.abc import Iterator, Sequence
from typing import Any

from compiler import wording
from compiler.planning import plan
from compiler.views import gaps, plan_data, plan_text
from compiler.views.report import data as report_data
from compiler.views.report import tables as report_tables

_TOLD = "Drivers, as labels of the nodes tell; `kae plan --differing` names those that differ:"
_SHOWN = ("clusters", "recipes", "policies", "loaded")


def lines(views: Sequence[plan.Plan]) -> Iterator[str]:
    """Yield the lines of the summary."""
    states = report_data.states(views)
    yield ", ".join(
        (size(views), *(f"{states[key]} {noun}" for key, noun in report_data.UNUSUAL.items() if states[key]))
    )
    for table in report_tables.of(views):
        if table.key in _SHOWN:
            told = (_TOLD,) if table.key == "loaded" else ()
            rows = [[cell.text for cell in row] for row in table.rows]
            yield from (
                "",
                *told,
                *(wording.table([name.upper() for name in table.head], rows) if rows else [table.empty]),
            )
    problems = report_tables.problems(views)
    yield from ("", "Problems, of which `kae plan --problems` names the nodes:") if problems else ()
    yield from (f"  {wording.counted(problem.nodes, 'node')}: {problem.text}" for problem in problems)


def size(views: Sequence[plan.Plan]) -> str:
    """Return the size of the fleet: '6 nodes in 2 clusters'."""
    nodes = wording.counted(sum(len(view.inventory.nodes) for view in views), "node")
    return f"{nodes} in {wording.counted(len(views), 'cluster')}"


def data(views: Sequence[plan.Plan]) -> dict[str, Any]:
    """Return the summary for programs, version 1: fields are added to it, never renamed or removed."""
    every, states = report_tables.every_recipe(views), report_data.states(views)
    return {
        "nodes": sum(len(view.inventory.nodes) for view in views),
        "states": {key: states[key] for key in report_data.STATES if states[key]},
        "clusters": [
            {"name": view.cluster.name, "nodes": len(view.inventory.nodes), **_counts([view])} for view in views
        ],
        "recipes": [
            {"name": name, "clusters": sorted(one.cluster.name for one in plans), **_counts(plans)}
            for name, plans in every.items()
        ],
        "policies": [
            {
                "recipe": name,
                "name": each.policy.name,
                "nodes": plan_text.count(each.decisions),
                "drivers": sorted({one.pool.image for one in each.decisions if one.pool}),
                "devicePlugins": sorted(
                    {
                        landing.image
                        for one in each.decisions
                        for name, landing in one.landings
                        if name != "driver" and landing.image
                    }
                ),
                **plan_data.of_interface(each.policy.offered.interface if each.policy.offered else None),
                "clusters": each.clusters,
                "file": each.policy.source.file,
            }
            for name, plans in every.items()
            for each in report_tables.assigned(plans)
        ],
        "problems": [
            {"text": problem.text, "nodes": problem.nodes, "clusters": problem.every}
            for problem in report_tables.problems(views)
        ],
    }


def _counts(views: Sequence[plan.Plan | plan.RecipePlan]) -> dict[str, int]:
    conditions = {
        "withPolicy": report_tables.is_assigned,
        "withDriver": report_tables.has_driver,
        "withDevicePlugin": report_tables.has_plugin,
        "withProblems": gaps.has_problem,
    }
    return {key: report_tables.count(views, holds) for key, holds in conditions.items()}
