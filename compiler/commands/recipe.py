"""`kae recipe`: the recipes that kae ships as copies to take, and those of the project."""

import argparse
from collections.abc import Iterable

from compiler import diagnostics, errors, tables, wording
from compiler.cli import findings
from compiler.commands import recipe_add
from compiler.project import project_file
from compiler.project.recipes import copies, trial
from compiler.views import recipe as view

_Row = tuple[str, str, int]
_UNTRIED = "not tried: it has a parameter without a default"


def run(arguments: argparse.Namespace) -> int:
    """Run the verb of the call, and return the exit code."""
    verbs = {"add": recipe_add.run, "check": _check, "list": _list, "show": _show}
    return verbs[arguments.verb](arguments)


def _list(arguments: argparse.Namespace) -> int:
    """Print the recipes that kae ships, and those of the project."""
    known = copies.known(project_file.of(arguments))
    rows = [(each.name, each.version or "-", each.state, each.title or "-") for each in known]
    body = "".join(f"{line}\n" for line in tables.plain(("NAME", "VERSION", "STATE", "TITLE"), rows))
    data = [{"name": each.name, "version": each.version, "state": each.state, "title": each.title} for each in known]
    found = diagnostics.merged(finding for each in known for finding in each.findings)
    findings.show(arguments, found, body, recipes=data)
    return findings.exit_code(arguments, found)


def _show(arguments: argparse.Namespace) -> int:
    """Print what a recipe of the project, or else a shipped one, says and may do."""
    settings = project_file.of(arguments)
    (chosen,) = _chosen(copies.known(settings), [arguments.recipe])
    recipe, found = trial.judged(chosen, settings)
    told = diagnostics.merged([*chosen.findings, *found])
    if recipe is None:
        findings.show(arguments, told)
    else:
        objects = [each for tried in trial.every(recipe, settings)[:1] for each in tried.objects]
        findings.show(arguments, told, view.text(recipe.data, objects), **view.data(recipe.data, objects))
    return findings.exit_code(arguments, told)


def _check(arguments: argparse.Namespace) -> int:
    """Print every finding on the project's recipes, and what each makes of a node with the values of its parameters."""
    settings = project_file.of(arguments)
    own = [each for each in copies.known(settings) if each.state != "shipped"]
    chosen = _chosen(own, [arguments.recipe]) if arguments.recipe else own
    found: list[diagnostics.Diagnostic] = []
    rows: list[_Row] = []
    for each in chosen:
        recipe, faults = trial.judged(each, settings)
        found += [*each.findings, *faults]
        if recipe is not None:
            tried = trial.every(recipe, settings)
            found += [fault for one in tried for fault in trial.faults(one)]
            rows += [(each.name, one.said, len(one.objects)) for one in tried] or [(each.name, _UNTRIED, 0)]
    lines = tables.plain(("RECIPE", "VALUES", "OBJECTS"), [(name, said, str(count)) for name, said, count in rows])
    data = [{"recipe": name, "values": said, "objects": count} for name, said, count in rows]
    told = diagnostics.merged(found)
    findings.show(arguments, told, "".join(f"{line}\n" for line in lines) if rows else "", trials=data)
    return findings.exit_code(arguments, told)


def _chosen(known: Iterable[copies.Known], wanted: Iterable[str]) -> list[copies.Known]:
    """Return the recipes of these names. Raises WorldError for a name that none has."""
    by_name = {each.name: each for each in known}
    for name in wanted:
        if name not in by_name:
            hint = f"{wording.did_you_mean(name, by_name)} Known are {wording.listed(by_name)}.".lstrip()
            raise errors.WorldError(f"there is no recipe '{wording.escaped(name)}'.", hint=hint)
    return [by_name[name] for name in wanted]
