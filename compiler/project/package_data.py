"""The data that is shipped with the compiler: schemas and templates.

In a checkout they are the top-level folders schemas/ and templates/; a wheel holds them inside the package.
"""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compiler import __version__
from compiler.rendering import template_runtime

HERE = Path(__file__).resolve().parents[1]
"""The folder of the package compiler."""


def folder(name: str) -> Path:
    """Return the path of schemas/ or templates/."""
    inside = HERE / name
    # compiler/schema is a Python package; compiler/schemas and compiler/templates exist only in a wheel.
    return inside if inside.is_dir() else HERE.parent / name


def parts() -> tuple[Path, ...]:
    """Return the files and the folders that tell this compiler from others: of an installed wheel, its record.

    That has the digest of each file: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
    In a checkout, runtime has the code that declares the configs of the programs.
    """
    record = HERE.parent / f"kae_compiler-{__version__}.dist-info/RECORD"
    return (record,) if record.is_file() else (HERE, HERE.parent / "runtime", folder("templates"), folder("schemas"))


@functools.cache
def schemas() -> Mapping[str, Any]:
    """Return the JSON Schemas of the documents by name."""
    names = ("devicepolicy", "kaepolicy", "kaecluster", "kaeproject", "nodeinventory", "nodelist", "recipe")
    return {name: json.loads((folder("schemas") / f"{name}.json").read_bytes()) for name in names}


@functools.cache
def examples() -> Mapping[str, str]:
    """Return an example of each finding by its code, as `make docs` writes them."""
    read: Mapping[str, str] = json.loads((HERE / "project/examples.json").read_bytes())
    return read


@functools.cache
def templates() -> Mapping[str, str]:
    """Return the texts of all templates by `<component>/<file>`."""
    top = folder("templates")
    return {
        f"{path.parent.name}/{path.name}": path.read_text(encoding="utf-8")
        for path in sorted(top.glob("*/*.yaml"))
        if path.parent.name != "init"  # the files of a new repository, which are copied as they are
    }


def recipes() -> Mapping[str, Path]:
    """Return the folder of each recipe that is shipped as a copy to take, by the recipe's name."""
    return {path.parent.name: path.parent for path in sorted((folder("templates") / "recipes").glob("*/recipe.yaml"))}


def report() -> Mapping[str, str]:
    """Return the template, the style and the scripts of the report's page by name."""
    return {path.name: path.read_text(encoding="utf-8") for path in (folder("templates") / "report").iterdir()}


def code_digest() -> str:
    """Return the digest of the templates, and of what makes code of them."""
    makers = [path.read_text(encoding="utf-8") for path in sorted((HERE / "rendering").glob("template_*.py"))]
    return hashlib.sha256(repr(([*templates().items()], makers)).encode()).hexdigest()


@functools.cache
def code() -> Mapping[str, template_runtime.Function]:
    """Return the code of all templates by `<component>/<file>`.

    A build keeps it in a module. In a checkout a template may be another one by now; then all are compiled again.
    """
    try:
        from compiler import _templates as kept  # noqa: PLC0415 - a checkout may have none

        if (HERE / "templates").is_dir() or code_digest() == kept.DIGEST:
            return kept.TEMPLATES
    except (ImportError, SyntaxError, AttributeError):  # None, or a part of one.
        pass
    from compiler.rendering import template_code  # noqa: PLC0415 - jinja2 is slow to import

    return template_code.functions(templates())
