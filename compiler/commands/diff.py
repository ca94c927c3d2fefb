"""`kae diff`: what the change between two revisions of the documents does, before it is applied."""

import argparse
from collections.abc import Sequence
from typing import Any

from compiler import cli, diagnostics
from compiler.changes.acceptance import Acceptable
from compiler.changes.difference import Difference
from compiler.cli import findings
from compiler.project import comparison, project_file
from compiler.views.diff import data as diff_data
from compiler.views.diff import review, risk_groups
from compiler.views.diff import text as diff_text


def run(arguments: argparse.Namespace) -> int:
    """Print the difference and its risks.

    Return 1 where the later side is wrong, where a risk is an error, or with --exit-code where something differs.
    """
    settings = project_file.of(arguments)
    found = comparison.of_revisions(
        arguments.revision, arguments.to, settings, arguments.cluster, is_cached=not arguments.no_cache
    )
    failing: dict[str, diagnostics.Severity] = dict.fromkeys(arguments.fail_on, "error")
    arguments.settings = settings._replace(severities={**settings.severities, **failing})
    accepted, risks = judged(arguments, found)
    body, for_programs = "", dict[str, Any]()
    if arguments.shape in ("json", "yaml"):
        for_programs = diff_data.data(found, accepted)
    elif arguments.shape == "markdown":
        shown, _ = diagnostics.split_ignored(findings.with_severities(arguments, risks))
        body = review.comment(found, shown, risk_groups.groups(accepted), _forecast(found))
    else:
        body = "".join(f"{line}\n" for line in diff_text.lines(found, risk_groups.groups(accepted)))
    faults = [fault for fault in found.faults if fault.side == "to"]
    # The answer for people shows the faults itself.
    is_shown = arguments.shape in ("text", "markdown") and arguments.format == "text" and not arguments.quiet
    on_faults = () if is_shown else (item for fault in faults for item in fault.findings)
    findings.show(arguments, diagnostics.merged([*risks, *on_faults]), body, review.notes(found), **for_programs)
    findings.tell_unused(arguments.accept, diagnostics.RISKS, found.risks)
    is_wrong = faults or findings.concluded(arguments, risks) or (arguments.exit_code and not found.is_empty)
    return cli.WRONG if is_wrong else cli.FINE


def judged(arguments: argparse.Namespace, found: Difference) -> tuple[list[Acceptable], diagnostics.Findings]:
    """Return the risks of a difference that the call accepts, and the findings on all others."""
    accepted = [risk for risk in found.risks if risk.is_accepted(arguments.accept)]
    others = [risk for risk in found.risks if not risk.is_accepted(arguments.accept)]
    return accepted, _told(arguments, others)


def refused(arguments: argparse.Namespace, found: Difference) -> int:
    """Show why a revision does not compile, for commands that tell more of a change; return their exit code."""
    body = "".join(f"{line}\n" for line in diff_text.faults(found))
    own = diagnostics.merged(item for fault in found.faults if fault.side == "to" for item in fault.findings)
    findings.show(arguments, () if arguments.shape in ("text", "markdown") else own, body)
    return cli.WRONG


def _forecast(found: Difference) -> Sequence[str]:
    """Return the sentences on how the rollout of a change goes."""
    from compiler.commands import simulate  # noqa: PLC0415 - only the comment shows it
    from compiler.views import simulation  # noqa: PLC0415 - as above

    made = simulate.by_default(found)
    return simulation.sentences(*made) if made else ()


def _told(arguments: argparse.Namespace, risks: Sequence[Acceptable]) -> diagnostics.Findings:
    """Return the findings on risks: all for programs, one for clusters alike, and for code hosts one for each line."""
    if arguments.shape in ("json", "yaml") or arguments.format == "json":
        return diagnostics.merged(risk.told() for risk in risks)
    found = diagnostics.merged(group.told() for group in risk_groups.groups(risks))
    return review.by_line(found) if arguments.format in ("github", "sarif") else found
