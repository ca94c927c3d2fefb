"""`kae recipe`: the recipes that kae ships as copies to take, and those of the project."""

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from compiler import cli, diagnostics, errors, wording
from compiler.cli import findings
from compiler.formats import decode
from compiler.project import atomic, package_data, project_file
from compiler.project.recipes import copies, first, trial
from compiler.read import fleet as reader
from compiler.read import kae_policy
from compiler.views import recipe as view

_UNTRIED = "not tried: it has a parameter without a default"
_SCHEMA = "# yaml-language-server: $schema={}\n"
"""The comment that names the schema for editors."""


def run(arguments: argparse.Namespace) -> int:
    verbs = {"list": _list, "show": _show, "add": _add, "new": _new, "check": _check}
    return verbs[arguments.verb](arguments)


def _list(arguments: argparse.Namespace) -> int:
    known = copies.known(project_file.of(arguments))
    rows = [(each.name, each.version or "-", each.state, each.title or "-") for each in known]
    body = (f"{line}\n" for line in wording.table(("NAME", "VERSION", "STATE", "TITLE"), rows))
    data = [{"name": each.name, "version": each.version, "state": each.state, "title": each.title} for each in known]
    found = diagnostics.merged(finding for each in known for finding in each.findings)
    return findings.show(arguments, found, body, recipes=data)


def _show(arguments: argparse.Namespace) -> int:
    """Print what KAE's recipe, one of the project, or else a shipped one, says and may do."""
    settings = project_file.of(arguments)
    builtin = reader.BUILTIN
    told: diagnostics.Findings = ()
    if arguments.shown == builtin.name:
        name, spec, objects = builtin.name, kae_policy.recipe_spec(), trial.of_builtin(builtin, settings)
    else:
        chosen = _named(copies.known(settings), arguments.shown, builtin.name)
        recipe, found = copies.judged(chosen, settings)
        told = diagnostics.merged([*chosen.findings, *found])
        if recipe is None:
            return findings.show(arguments, told)
        name, spec = recipe.data["metadata"]["name"], recipe.data["spec"]
        objects = tuple(each for tried in trial.every(recipe, settings)[:1] for each in tried.objects)
    return findings.show(arguments, told, view.text(name, spec, objects), **view.data(name, spec, objects))


def _check(arguments: argparse.Namespace) -> int:
    """Print every finding on the project's recipes, and what each makes of a node with the values of its parameters."""
    settings = project_file.of(arguments)
    own = [each for each in copies.known(settings) if each.state != "shipped"]
    chosen = [_named(own, arguments.recipe)] if arguments.recipe else own
    found: list[diagnostics.Diagnostic] = []
    rows: list[tuple[str, str, int]] = []
    for each in chosen:
        recipe, faults = copies.judged(each, settings)
        found += [*each.findings, *faults]
        if recipe is not None:
            tried = trial.every(recipe, settings)
            found += [fault for one in tried for fault in trial.faults(one)]
            rows += [(each.name, one.said, len(one.objects)) for one in tried] or [(each.name, _UNTRIED, 0)]
    table = wording.table(("RECIPE", "VALUES", "OBJECTS"), [(name, said, str(count)) for name, said, count in rows])
    lines = [f"{line}\n" for line in table] if rows else []
    data = [{"recipe": name, "values": said, "objects": count} for name, said, count in rows]
    return findings.show(arguments, diagnostics.merged(found), lines, trials=data)


def _named(known: Iterable[copies.Known], name: str, *others: str) -> copies.Known:
    """Return the recipe of this name. Raises WorldError where none has it; it names `others`, too."""
    by_name = {each.name: each for each in known}
    if name not in by_name:
        names = sorted({*by_name, *others})
        hint = wording.did_you_mean(name, names, f"Known are {wording.listed(names)}.")
        raise errors.WorldError(f"there is no recipe '{wording.escaped(name)}'.", hint=hint)
    return by_name[name]


def _add(arguments: argparse.Namespace) -> int:
    """Write the recipe, and the example where its file is not there; overwrite nothing. Raises WorldError."""
    name, shipped = arguments.recipe, package_data.recipes()
    if name not in shipped:
        hint = wording.did_you_mean(name, shipped, f"kae ships {wording.listed(shipped)}.")
        raise errors.WorldError(f"kae ships no recipe '{wording.escaped(name)}'.", hint=hint)
    hint = "`kae recipe list` says whether kae ships another version of it."
    return _made(arguments, name, copies.marked(name), copies.text(name, "policy.yaml"), hint)


def _new(arguments: argparse.Namespace) -> int:
    """Write a first recipe and an example of a policy, if the recipe passes the check; overwrite nothing.

    Raises WorldError.
    """
    given = first.Answers(
        name=arguments.new,
        vendor=arguments.vendor,
        devices=tuple(arguments.devices),
        modules=tuple(arguments.modules),
        image=arguments.modules_image,
        program=arguments.program,
        resource=arguments.resource,
        sort=arguments.sort,
        paths=tuple(arguments.paths),
    )
    first.refuse(given)
    text, settings = first.recipe(given), project_file.of(arguments)
    read, found = decode.decode(copies.file(given.name, settings), text.encode())
    recipe, faults = copies.judged(copies.own(given.name, read[0]), settings) if read else (None, found)
    tried = trial.every(recipe, settings) if recipe else ()
    for finding in (*faults, *(fault for one in tried for fault in trial.faults(one))):
        if finding.severity == "error":
            raise errors.RefusedError(f"no recipe can say that: {finding.message}", hint=finding.hint or "")
    return _made(arguments, given.name, text, first.policy(given), "Choose another name, or edit that one.")


def _made(arguments: argparse.Namespace, name: str, recipe: str, policy: str, hint: str) -> int:
    """Write a recipe and, where its file is not there, an example of a policy; `hint` is for a recipe that is there."""
    if project_file.root(Path.cwd()) is None:
        message = "this folder holds no project."
        raise errors.WorldError(message, hint="Run `kae init` first, or choose one with -C DIR.")
    settings = project_file.of(arguments)
    target, example = copies.file(name, settings), f"{settings.policies}/{name}.yaml"
    if os.path.lexists(target):
        raise errors.WorldError(f"'{target}' exists, and would be overwritten.", hint=hint)
    made = {target: _SCHEMA.format("../.schemas/recipe.json") + recipe}
    if not os.path.lexists(example):
        schema = os.path.relpath(f"{settings.recipes}/.schemas/devicepolicy.json", Path(example).parent)
        made[example] = _SCHEMA.format(schema) + policy
    atomic.require_room(Path(file) for file in (*made, *copies.schema_files(settings)))
    for file, text in made.items():
        _write(Path(file), text)
    made_too = copies.write_schemas(settings)
    if not arguments.quiet:
        sys.stdout.write(_said(target, example, [*made, *made_too]))
    return cli.FINE


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be made: {error.strerror}.") from error


def _said(recipe: str, example: str, made: list[str]) -> str:
    """Return the files that were made, and what to do with them."""
    shown = wording.file_name(example)
    lines = ["Made:", *(f"  {wording.file_name(file)}" for file in made)]
    lines += [] if example in made else [f"'{shown}' was there, and stays as it is."]
    lines += ["", "Next:", f"  Look at {recipe}, which is yours from now on: its images, and `kae recipe check`."]
    lines += [f"  Choose the nodes in {shown}.", "  kae compile && kae plan"]
    return "".join(f"{line}\n" for line in lines)
