"""`kae recipe`: the recipes that kae ships as copies to take, and those of the project."""

import argparse

from compiler import diagnostics, tables
from compiler.cli import findings
from compiler.commands import recipe_add
from compiler.project import recipe_copies


def run(arguments: argparse.Namespace) -> int:
    """Run the verb of the call, and return the exit code."""
    return {"add": recipe_add.run, "list": _list}[arguments.verb](arguments)


def _list(arguments: argparse.Namespace) -> int:
    """Print the recipes that kae ships, and those of the project."""
    known = recipe_copies.known()
    rows = [(each.name, each.version or "-", each.state, each.title or "-") for each in known]
    body = "".join(f"{line}\n" for line in tables.plain(("NAME", "VERSION", "STATE", "TITLE"), rows))
    data = [{"name": each.name, "version": each.version, "state": each.state, "title": each.title} for each in known]
    found = diagnostics.merged(finding for each in known for finding in each.findings)
    findings.show(arguments, found, body, recipes=data)
    return findings.exit_code(arguments, found)
