"""The core neither touches disk, clock, environment or network, nor logs or draws lots."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WORLD = frozenset(("datetime", "io", "logging", "os", "pathlib", "random", "socket", "subprocess", "time"))


EDGES = (
    "__main__",
    "cli",
    "commands",
    "kube",
    "output/cache",
    "output/foreign",
    "output/scan",
    "output/write",
    "project",
    "rehearsal/api",
    "rehearsal/hollow",
    "rehearsal/programs",
    "rehearsal/stage",
)
"""The modules and packages of the compiler that may meet the world."""


def pure_modules() -> list[str]:
    """The paths, below compiler/, of all other modules; whoever adds one adds a pure one."""
    paths = [path.relative_to(ROOT / "compiler") for path in (ROOT / "compiler").rglob("*.py")]
    edges = {path for path in paths for edge in EDGES if path.with_suffix("").is_relative_to(edge)}
    return sorted(path.as_posix() for path in paths if path not in edges)


def world_imports(source: str) -> Iterator[str]:
    """Modules of the world that the source imports, at any depth and by any spelling."""
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            # A pure path is a text with the rules of paths.
            is_pure = all(alias.name.startswith("Pure") for alias in node.names)
            names = [] if node.module == "pathlib" and is_pure else [node.module or ""]
        yield from (name for name in names if name.partition(".")[0] in WORLD)


def test_a_pure_module_imports_nothing_of_the_world() -> None:
    imports = {name: [*world_imports((ROOT / "compiler" / name).read_text("utf-8"))] for name in pure_modules()}

    assert len(imports) > 100
    assert {name: names for name, names in imports.items() if names} == {}


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
    assert len(list(world_imports(source))) == 1


@pytest.mark.parametrize(
    "source",
    ["import json", "from compiler import io", "from . import time", "import osmosis", "from pathlib import PurePath"],
)
def test_other_imports_are_not_taken_for_the_world(source: str) -> None:
    assert list(world_imports(source)) == []


def test_the_pipeline_is_pure_and_the_shell_is_not() -> None:
    pure = pure_modules()

    assert {"pipeline.py", "output/diff.py", "rendering/templates.py", "planning/plan.py"} <= set(pure)
    assert not {"cli.py", "output/write.py", "project/load.py", "kube/client.py"} & set(pure)
