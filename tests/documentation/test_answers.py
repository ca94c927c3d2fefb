"""The page of commands names each field of the answers for programs."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import commands

ROOT = Path(__file__).parents[2]
VIEWS = {
    "diff": "compiler/views/diff/data.py",
    "rehearse": "compiler/views/rehearsal.py",
    "simulate": "compiler/views/simulation.py",
}
OTHERS = {"device_plugin", "group_sort"}
"""Names of the code, which the answer has otherwise."""


def keys(module: str) -> Iterator[str]:
    """Yield the keys of the dicts that a module writes out."""
    for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))):
        if isinstance(node, ast.Dict):
            constants = (key.value for key in node.keys if isinstance(key, ast.Constant))
            yield from (key for key in constants if isinstance(key, str))


@pytest.mark.parametrize("command", VIEWS)
def test_a_field_that_a_view_writes_is_on_the_page(command: str) -> None:
    written = {*keys(VIEWS[command])} - OTHERS
    named = {*re.findall(r"`(\w+)`", commands.FIELDS[command])}

    assert len(written) > 5
    assert written <= named
