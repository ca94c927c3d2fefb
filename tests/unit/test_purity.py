"""The core neither touches disk, clock, environment or network, nor logs or draws lots."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORLD = frozenset(
    ("datetime", "io", "logging", "os", "pathlib", "random", "socket", "subprocess", "time"),
)


def edge_modules() -> frozenset[str]:
    """The modules above `pipeline` in the import contract: those that may meet the world."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (line,) = (contract for contract in project["tool"]["importlinter"]["contracts"] if contract["id"] == "line")
    layers = [re.findall(r"\w+", layer) for layer in line["layers"]]
    above = layers[: layers.index(["pipeline"])]
    return frozenset(name for layer in above for name in layer)


def pure_modules() -> list[str]:
    """The paths, below compiler/, of all other modules; whoever adds one adds a pure one."""
    edges = edge_modules()
    paths = (path.relative_to(ROOT / "compiler") for path in (ROOT / "compiler").rglob("*.py"))
    return sorted(path.as_posix() for path in paths if path.with_suffix("").parts[0] not in edges)


def world_imports(source: str) -> Iterator[str]:
    """Modules of the world that the source imports, at any depth and by any spelling."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        yield from (name for name in names if name.partition(".")[0] in WORLD)


@pytest.mark.parametrize("module", pure_modules())
def test_a_pure_module_imports_nothing_of_the_world(module: str) -> None:
    source = (ROOT / "compiler" / module).read_text("utf-8")

    assert list(world_imports(source)) == []


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import os.path as p",
        "import json, time",
        "from pathlib import Path",
        "from os import path",
        "def f():\n    import random",
    ],
)
def test_an_import_of_the_world_is_found_however_it_is_written(source: str) -> None:
    found = list(world_imports(source))

    assert len(found) == 1


@pytest.mark.parametrize("source", ["import json", "from compiler import io", "from . import time", "import osmosis"])
def test_other_imports_are_not_taken_for_the_world(source: str) -> None:
    found = list(world_imports(source))

    assert found == []


def test_the_shell_of_the_compiler_is_an_edge_and_its_pipeline_is_not() -> None:
    edges = edge_modules()

    assert {"cli", "files", "write"} <= edges
    assert not {"load", "pipeline", "render", "plan"} & edges
