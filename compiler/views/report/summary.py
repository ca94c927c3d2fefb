"""The summary of the fleet for a terminal: the tables of the page that fit into one, and the problems."""

from collections.abc import Iterator, Sequence

from compiler import wording
from compiler.planning import plan
from compiler.views.report import tables as report_tables

_TOLD = "Drivers, as labels of the nodes tell; `kae plan --differing` names those that differ:"
_SHOWN = ("clusters", "policies", "recipes", "stacks", "loaded")


def lines(views: Sequence[plan.Plan]) -> Iterator[str]:
    """Yield the lines of the summary."""
    yield size(views)
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
