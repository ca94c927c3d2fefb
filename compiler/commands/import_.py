"""`kae import`: the settings of an operator as documents of the compiler."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from compiler import cli, diagnostics, errors, schema, wording
from compiler.cli import findings
from compiler.formats import decode
from compiler.migrate import stacks, translation
from compiler.project import atomic, document_files, links, package_data, project_file
from compiler.project.recipes import copies
from compiler.settings import Settings

_NAMING = {"Recipe", "DevicePolicy"}
"""The kinds whose files name a schema in the folder of the recipes."""

_HINT = "Run: kubectl get kaepolicy NAME -o yaml | kae import --cluster NAME"


def run(arguments: argparse.Namespace) -> int:
    """Print or write the documents, and report the options of the source that have no meaning here."""
    wanted = translation.Names(
        cluster=arguments.cluster, policy=arguments.policy, recipe=arguments.recipe, namespace=arguments.namespace
    )
    _require_new(arguments.target)
    if arguments.file == "-":
        file, content = cli.piped(_HINT)
    else:
        file = arguments.file
        links.require_inside(file, hint="Name the file itself.")
        content = document_files.read(document_files.Input(file, Path(file)))
    read, found = decode.decode(file, content)
    made: tuple[stacks.Made, ...] = ()
    if read and not diagnostics.has_errors(found):
        shipped = {each.name: each.document for each in copies.shipped(project_file.of(arguments)) if each.document}
        made, more = stacks.translated(read, wanted, schema.Judge(package_data.schemas()), shipped)
        found = [*found, *more]
    if findings.concluded(arguments, found):
        made = ()
    settings = project_file.of(arguments)
    places = {copies.file(each.recipe, settings) if each.recipe else arguments.target: each for each in made}
    printed = _printed(places) if arguments.target is None else _written(places, settings)
    if arguments.target is None or not arguments.quiet:
        sys.stdout.write(printed)
    sys.stdout.flush()
    findings.report(arguments, diagnostics.merged(found))
    return cli.FINE if made else cli.WRONG


def _printed(places: Mapping[str | None, stacks.Made]) -> str:
    """Return the documents as one text; a recipe has a file of its own, which a comment names."""
    if len(places) < 2:
        return "".join(each.text for each in places.values())
    return "---\n".join(f"# For {file or 'a file of policies/'}:\n{each.text}" for file, each in places.items())


def _written(places: Mapping[str, stacks.Made], settings: Settings) -> str:
    """Write the documents with the schemas that they name, and return a line for each file. Raises WorldError."""
    named = copies.schema_files(settings) if any(_NAMING & {*each.kinds} for each in places.values()) else ()
    for file, each in places.items():
        _require_new(file)
        path = Path(file)
        if not each.recipe and not os.path.lexists(path.parent):  # The folder of a recipe is made.
            name, folder = wording.file_name(str(path)), wording.file_name(str(path.parent))
            hint = "Make the folder first, or name a file in another one."
            raise errors.WorldError(f"'{name}' cannot be written: there is no folder '{folder}'.", hint=hint)
    atomic.require_room(map(Path, (*places, *named)))
    for file, each in places.items():
        (atomic.write_with_folders if each.recipe else atomic.write_file)(Path(file), each.text)
    said = {file: wording.listed(f"a {kind}" for kind in each.kinds) for file, each in places.items()}
    if named:
        said |= dict.fromkeys(copies.write_schemas(settings), "a schema for editors")
    return "".join(f"{wording.file_name(file)}: {what}\n" for file, what in said.items())


def _require_new(target: str | None) -> None:
    """Raise WorldError where the file to write exists; people may have edited it."""
    if target is not None and os.path.lexists(target):
        message = f"'{wording.file_name(target)}' exists, and would be overwritten."
        raise errors.WorldError(message, hint="Remove it, or choose another name.")
