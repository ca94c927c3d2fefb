"""`kae recipe add`: a copy of a shipped recipe in the project, with an example of a policy."""

import argparse
import os
import sys
from pathlib import Path

from compiler import cli, errors, wording
from compiler.project import atomic, package_data, project_file, root
from compiler.project.recipes import copies, schemas

_SCHEMA = "# yaml-language-server: $schema={}\n"
"""The comment that names the schema for editors."""


def run(arguments: argparse.Namespace) -> int:
    """Write the recipe, and the example where its file is not there; overwrite nothing. Raises WorldError."""
    name = arguments.recipe
    _require_known(name)
    if root.find(Path.cwd()) is None:
        raise errors.WorldError(
            "this folder holds no project.", hint="Run `kae init` first, or choose one with -C DIR."
        )
    settings = project_file.of(arguments)
    recipe, example = copies.file(name, settings), f"{settings.policies}/{name}.yaml"
    if os.path.lexists(recipe):
        raise errors.WorldError(
            f"'{recipe}' exists, and would be overwritten.",
            hint="`kae recipe list` says whether kae ships another version of it.",
        )
    made = {recipe: _SCHEMA.format("../.schemas/recipe.json") + copies.marked(name)}
    if not os.path.lexists(example):
        schema = os.path.relpath(f"{settings.recipes}/.schemas/devicepolicy.json", Path(example).parent)
        made[example] = _SCHEMA.format(schema) + copies.text(name, "policy.yaml")
    atomic.require_room(Path(file) for file in (*made, *schemas.files(settings)))
    for file, text in made.items():
        _write(Path(file), text)
    sys.stdout.write(_said(recipe, example, [*made, *schemas.write(settings)]))
    return cli.FINE


def _require_known(name: str) -> None:
    """Raise WorldError for a name that no shipped recipe has."""
    shipped = package_data.recipes()
    if name not in shipped:
        hint = f"{wording.did_you_mean(name, shipped)} kae ships {wording.listed(shipped)}.".lstrip()
        raise errors.WorldError(f"kae ships no recipe '{wording.escaped(name)}'.", hint=hint)


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise errors.WorldError(f"'{wording.file_name(str(path))}' cannot be made: {error.strerror}.") from error


def _said(recipe: str, example: str, made: list[str]) -> str:
    """Return the files that were made, and what to do with them."""
    kept = [] if example in made else [f"'{wording.file_name(example)}' was there, and stays as it is."]
    return "\n".join(
        [
            "Made:",
            *(f"  {wording.file_name(file)}" for file in made),
            *kept,
            "",
            "Next:",
            f"  Name your images in {recipe}, which is yours from now on.",
            f"  Choose the nodes in {wording.file_name(example)}.",
            "  kae compile && kae plan",
            "",
        ]
    )
