"""`kae report`: the fleet as a summary, in text or as data, or as a page, one file that opens from disk."""

import argparse
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compiler import diagnostics, wording
from compiler.cli import findings
from compiler.planning import plan
from compiler.project import atomic, comparison, package_data, project_file
from compiler.project.by_cluster import planned
from compiler.views.diff import data as diff_data
from compiler.views.diff import risk_groups
from compiler.views.diff import text as diff_text
from compiler.views.report import summary

if TYPE_CHECKING:
    from compiler.changes.difference import Difference

_Change = tuple["Difference", diagnostics.Findings, Sequence[risk_groups.Group]]
"""A change, its risks, and those that the call accepts."""


def run(arguments: argparse.Namespace) -> int:
    run = planned.of_settings(project_file.of(arguments), arguments.cluster, lambda view, _: view)
    views, found = run.answers, run.findings
    findings.require_fine(arguments, found)
    change = _change(arguments)
    told = {} if arguments.shape == "text" else _data(views, change)
    if arguments.target is None:
        return findings.show(arguments, (*found, *(change[1] if change else ())), _text(views, change), **told)
    from compiler.views.report import page as report_page  # noqa: PLC0415 - only the page needs a template

    judged, shown = findings.with_severities(arguments, found), None
    if change:
        from compiler.commands import simulate  # noqa: PLC0415 - as above

        shown = report_page.Change(*change, simulate.by_default(change[0]))
    atomic.write_file(Path(arguments.target), report_page.text(views, judged, package_data.report(), shown))
    return findings.show(arguments, found, f"{wording.file_name(arguments.target)}: {summary.size(views)}\n", **told)


def _text(views: Sequence[plan.Plan], change: _Change | None) -> Iterator[str]:
    """Yield the summary, and below it what `kae diff` says of a change."""
    told = ("", *diff_text.lines(change[0], change[2])) if change else ()
    return (f"{line}\n" for line in itertools.chain(summary.lines(views), told))


def _data(views: Sequence[plan.Plan], change: _Change | None) -> dict[str, Any]:
    """Return the summary for programs, and what `kae diff -o json` says of a change."""
    if change is None:
        return summary.data(views)
    accepted = [risk for group in change[2] for risk in group.risks]
    return {**summary.data(views), "change": diff_data.data(change[0], accepted)}


def _change(arguments: argparse.Namespace) -> _Change | None:
    if arguments.revision is None:
        findings.tell_unused(arguments.accept, diagnostics.RISKS, ())
        return None
    found = comparison.of_revisions(arguments.revision, None, project_file.of(arguments), arguments.cluster)
    findings.tell_unused(arguments.accept, diagnostics.RISKS, found.risks)
    others, accepted = risk_groups.split(found.risks, arguments.accept)
    return found, findings.with_severities(arguments, (group.told() for group in others)), accepted
