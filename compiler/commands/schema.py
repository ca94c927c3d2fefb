"""`kae schema`: the schemas of the documents and of the programs' config files."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path

from compiler import cli, errors, names, wording
from compiler.formats import canonical
from compiler.model import json_schemas
from compiler.project import project_file, root
from compiler.project.recipes import schemas


def run(arguments: argparse.Namespace) -> int:
    """Print, or write, the schemas of the models."""
    if arguments.crd:
        sys.stdout.write("---\n".join(canonical.dump_yaml(definition) for definition in json_schemas.crd()))
        return cli.FINE
    if arguments.recipe is not None:
        return _of_recipe(arguments)
    found = json_schemas.schemas()
    if arguments.write is not None:
        _write(Path(arguments.write), {f"{name}.json": json_schemas.text(found[name]) for name in names.EDITED_SCHEMAS})
        settings = project_file.of(arguments)
        if Path(settings.recipes).is_dir():
            schemas.write(settings)
        return cli.FINE
    if arguments.name is None:
        sys.stdout.writelines(f"{name}\n" for name in sorted(found))
        return cli.FINE
    if arguments.name not in found:
        known = wording.listed(sorted(found))
        raise errors.WorldError(
            f"there is no schema '{arguments.name}'.",
            hint=f"{wording.did_you_mean(arguments.name, found)} Known are {known}.".lstrip(),
        )
    sys.stdout.write(json_schemas.text(found[arguments.name]))
    return cli.FINE


def _of_recipe(arguments: argparse.Namespace) -> int:
    """Print the schema of the policies of one recipe, of the project or else a shipped one."""
    if arguments.name != "devicepolicy":
        cli.parser().error(
            "--recipe is for the schema of DevicePolicies.", "Write `kae schema devicepolicy --recipe NAME`."
        )
    root.enter(arguments)
    settings = project_file.of(arguments)
    found = schemas.of_recipe(arguments.recipe, settings)
    if found is None:
        raise errors.WorldError(
            f"there is no recipe '{wording.escaped(arguments.recipe)}' without mistakes.",
            hint="`kae recipe list` shows the recipes, and `kae recipe check` their mistakes.",
        )
    sys.stdout.write(json_schemas.text(found))
    return cli.FINE


def _write(folder: Path, texts: Mapping[str, str]) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise errors.WorldError(f"'{error.filename or folder}' cannot be written: {error.strerror}.") from error
