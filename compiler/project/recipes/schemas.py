"""The schemas of a project's recipes, and their files for editors in the folder .schemas of the recipes."""

from pathlib import Path
from typing import Any

from compiler.model import json_schemas
from compiler.project import atomic, package_data
from compiler.project.recipes import copies, trial
from compiler.schema import editor_schema, recipe_schema
from compiler.settings import Settings

FOLDER = ".schemas"
"""The name of their folder in that of the recipes; a hidden one is no recipe's."""


def of_recipe(name: str, settings: Settings) -> dict[str, Any] | None:
    """Return the schema of the policies of a recipe; None for one that is not known or has mistakes."""
    for each in copies.known(settings):
        if each.name == name:
            recipe, _ = trial.judged(each, settings)
            schemas = package_data.schemas()
            if recipe is not None:
                return dict(recipe_schema.spliced(schemas["devicepolicy"], schemas["recipe"], recipe.data["spec"]))
    return None


def write(settings: Settings) -> tuple[str, ...]:
    """Write both schemas for editors, and return their files. Raises WorldError."""
    schemas = package_data.schemas()
    read = (trial.judged(each, settings)[0] for each in copies.known(settings) if each.state != "shipped")
    specs = {recipe.data["metadata"]["name"]: recipe.data["spec"] for recipe in read if recipe is not None}
    made = {
        "devicepolicy": editor_schema.of_project(schemas["devicepolicy"], schemas["recipe"], specs),
        "recipe": schemas["recipe"],
    }
    for file, schema in zip(files(settings), made.values(), strict=True):
        atomic.write_with_folders(Path(file), json_schemas.text(schema))
    return files(settings)


def files(settings: Settings) -> tuple[str, str]:
    """Return the files of the schemas: that of DevicePolicies, and that of recipes."""
    return f"{settings.recipes}/{FOLDER}/devicepolicy.json", f"{settings.recipes}/{FOLDER}/recipe.json"
