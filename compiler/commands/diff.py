"""`kae diff`: what the change between two revisions of the documents does, before it is applied."""

import argparse

from compiler import cli
from compiler.changes.difference import Difference
from compiler.cli import findings
from compiler.project import project_file
from compiler.project.history import comparison
from compiler.views import diff_data, diff_text
from compiler.views.review import annotations, markdown


def run(arguments: argparse.Namespace) -> int:
    """Print the difference, and return 1 where the later side is wrong, or with --exit-code where something differs."""
    found = comparison.of_revisions(
        arguments.revision,
        arguments.to,
        project_file.of(arguments),
        arguments.cluster,
        is_cached=not arguments.no_cache,
    )
    for_programs = diff_data.data(found) if arguments.shape in ("json", "yaml") else {}
    body = "" if for_programs else _body(arguments, found)
    findings.show(arguments, (), body, annotations.notes(found), **for_programs)
    return _exit_code(arguments, found)


def _body(arguments: argparse.Namespace, found: Difference) -> str:
    if arguments.shape == "markdown":
        return markdown.text(found)
    return "".join(f"{line}\n" for line in diff_text.lines(found))


def _exit_code(arguments: argparse.Namespace, found: Difference) -> int:
    if any(fault.side == "to" for fault in found.faults):
        return cli.WRONG
    return cli.WRONG if arguments.exit_code and not found.is_empty else cli.FINE
