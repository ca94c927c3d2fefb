"""`kae import`: the settings of an operator as documents of the compiler."""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from compiler import cli, diagnostics, errors, schema, wording
from compiler.cli import findings, piped
from compiler.formats import decode
from compiler.migrate import drafts, stacks
from compiler.project import atomic, document_files, links, package_data, project_file
from compiler.project.recipes import copies

_HINT = "Run: kubectl get kaepolicy NAME -o yaml | kae import --cluster NAME"


def run(arguments: argparse.Namespace) -> int:
    """Print or write the documents, and report the options of the source that have no meaning here."""
    wanted = drafts.Names(
        cluster=arguments.cluster,
        policy=arguments.policy,
        recipe=arguments.recipe,
        namespace=arguments.namespace,
    )
    _require_new(arguments.target)
    file, content = _content(arguments.file)
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
    printed = _printed(places) if arguments.target is None else _written(places)
    sys.stdout.write(printed)
    sys.stdout.flush()
    findings.report(arguments, diagnostics.merged(found))
    return cli.FINE if made else cli.WRONG


def _printed(places: Mapping[str | None, stacks.Made]) -> str:
    """Return the documents as one text; a recipe has a file of its own, which a comment names."""
    if len(places) < 2:
        return "".join(each.text for each in places.values())
    return "---\n".join(f"# For {file or 'a file of policies/'}:\n{each.text}" for file, each in places.items())


def _written(places: Mapping[str, stacks.Made]) -> str:
    """Write the documents, and return a line for each file. Raises WorldError."""
    for file in places:
        _require_new(file)
    for file, each in places.items():
        if each.recipe:
            links.require_inside(file, hint="Remove the link.")
            Path(file).parent.mkdir(parents=True, exist_ok=True)
        atomic.write_file(Path(file), each.text)
    return "".join(
        f"{wording.file_name(file)}: {wording.listed(f'a {kind}' for kind in each.kinds)}\n"
        for file, each in places.items()
    )


def _require_new(target: str | None) -> None:
    """Raise WorldError where the file to write exists; people may have edited it."""
    if target is not None and os.path.lexists(target):
        raise errors.WorldError(
            f"'{wording.file_name(target)}' exists, and would be overwritten.",
            hint="Remove it, or choose another name.",
        )


def _content(name: str) -> tuple[str, bytes]:
    """Return the name and the bytes of the source."""
    if name == "-":
        return piped.content(_HINT)
    links.require_inside(name, hint="Name the file itself.")
    return name, document_files.read(document_files.Input(name, Path(name)))
