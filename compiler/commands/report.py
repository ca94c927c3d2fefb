"""`kae report`: the fleet as a page, one file that opens from disk."""

import argparse
from pathlib import Path

from compiler import wording
from compiler.cli import findings
from compiler.diagnostics import RISKS
from compiler.project import atomic, comparison, package_data, project_file
from compiler.project.by_cluster import planned
from compiler.views.diff import risk_groups
from compiler.views.report import page as report_page


def run(arguments: argparse.Namespace) -> int:
    run = planned.of_settings(project_file.of(arguments), arguments.cluster, lambda view, _: view)
    views, found = run.answers, run.findings
    findings.require_fine(arguments, found)
    judged = findings.with_severities(arguments, found)
    texts = report_page.text(views, judged, package_data.report(), _change(arguments))
    atomic.write_file(Path(arguments.target), texts)
    nodes = wording.counted(sum(len(view.inventory.nodes) for view in views), "node")
    size = f"{nodes} in {wording.counted(len(views), 'cluster')}"
    return findings.show(arguments, found, f"{wording.file_name(arguments.target)}: {size}\n")


def _change(arguments: argparse.Namespace) -> report_page.Change | None:
    if arguments.revision is None:
        findings.tell_unused(arguments.accept, RISKS, ())
        return None
    found = comparison.of_revisions(arguments.revision, None, project_file.of(arguments), arguments.cluster)
    findings.tell_unused(arguments.accept, RISKS, found.risks)
    others, accepted = risk_groups.split(found.risks, arguments.accept)
    risks = findings.with_severities(arguments, (group.told() for group in others))
    return report_page.Change(found, risks, accepted)
