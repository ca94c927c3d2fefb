"""`kae schema`: the schemas of the documents and of the programs' config files."""

import argparse
import sys
from pathlib import Path

from compiler import cli, errors, names, wording
from compiler.formats import canonical
from compiler.model import json_schemas
from compiler.project import project_file
from compiler.project.recipes import copies


def run(arguments: argparse.Namespace) -> int:
    if arguments.crd:
        sys.stdout.write("---\n".join(canonical.dump_yaml(definition) for definition in json_schemas.crd()))
        return cli.FINE
    if arguments.recipe is not None:
        return _of_recipe(arguments)
    if arguments.write is not None:
        folder = Path(arguments.write)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name in names.EDITED_SCHEMAS:
                text = json_schemas.text(json_schemas.schema(name))
                (folder / f"{name}.json").write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise errors.WorldError(f"'{error.filename or folder}' cannot be written: {error.strerror}.") from error
        settings = project_file.of(arguments)
        if Path(settings.recipes).is_dir():
            copies.write_schemas(settings)
        return cli.FINE
    if arguments.name is None:
        sys.stdout.writelines(f"{name}\n" for name in json_schemas.NAMES if not arguments.quiet)
        return cli.FINE
    if arguments.name not in json_schemas.NAMES:
        known = f"Known are {wording.listed(json_schemas.NAMES)}."
        hint = wording.did_you_mean(arguments.name, json_schemas.NAMES, known)
        raise errors.WorldError(f"there is no schema '{arguments.name}'.", hint=hint)
    sys.stdout.write(json_schemas.text(json_schemas.schema(arguments.name)))
    return cli.FINE


def _of_recipe(arguments: argparse.Namespace) -> int:
    """Print the schema of the policies of one recipe, of the project or else a shipped one."""
    if arguments.name != "devicepolicy":
        cli.parser().error(
            "--recipe is for the schema of DevicePolicies.", "Write `kae schema devicepolicy --recipe NAME`."
        )
    project_file.enter(arguments)
    settings = project_file.of(arguments)
    found = copies.schema_of(arguments.recipe, settings)
    if found is None:
        message = f"there is no recipe '{wording.escaped(arguments.recipe)}' without mistakes."
        hint = "`kae recipe list` shows the recipes, and `kae recipe check` their mistakes."
        raise errors.WorldError(message, hint=hint)
    sys.stdout.write(json_schemas.text(found))
    return cli.FINE
