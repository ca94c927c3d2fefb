"""The code of the templates: what a build keeps is taken where it is of these templates."""

import shutil
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import compiler
from compiler.project import package_data

RIGHT = package_data.code_digest()
FOREIGN: dict[str, Any] = {"namespace/namespace.yaml": None}


@pytest.mark.parametrize(
    ("kept", "is_taken"),
    [
        ({"DIGEST": RIGHT, "TEMPLATES": FOREIGN}, True),
        ({"DIGEST": "of other templates", "TEMPLATES": FOREIGN}, False),
        ({"TEMPLATES": FOREIGN}, False),
        ({"DIGEST": RIGHT}, False),
        ({}, False),
    ],
)
def test_code_of_other_templates_or_half_a_module_is_made_anew(
    monkeypatch: pytest.MonkeyPatch, kept: dict[str, Any], is_taken: bool
) -> None:
    module = types.ModuleType("compiler._templates")
    vars(module).update(kept)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(compiler, "_templates", module, raising=False)

    found = package_data.code.__wrapped__()

    assert (found is FOREIGN) is is_taken
    assert is_taken or found.keys() == package_data.templates().keys()


@pytest.mark.parametrize("edited", ["templates/namespace/namespace.yaml", "rendering/template_code.py"])
def test_code_is_told_from_that_of_an_edited_template_and_of_another_maker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, edited: str
) -> None:
    here = tmp_path / "compiler"
    shutil.copytree(package_data.HERE / "rendering", here / "rendering", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(package_data.folder("templates"), here / "templates")
    monkeypatch.setattr(package_data, "HERE", here)
    monkeypatch.setattr(package_data, "templates", package_data.templates.__wrapped__)
    assert package_data.code_digest() == RIGHT

    (here / edited).write_text(f"{(here / edited).read_text()}# Edited.\n")

    assert package_data.code_digest() != RIGHT
