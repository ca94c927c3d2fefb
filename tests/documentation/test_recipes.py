"""The first recipe of docs/recipes.md: what the page shows is what its commands print."""

import io
import re
import sys
from pathlib import Path

import pytest

from tests import in_process, project
from tests.documentation import pages

PAGE = pages.ROOT / "docs/recipes.md"
_HERE = re.compile(r"(.*?) <<'END'\n(.*?)\nEND\n", re.DOTALL)


def run(folder: Path, command: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a command of the page with a text as its standard input."""
    words = command.split()
    if words[:2] == ["cat", ">"]:
        project.write(folder, {words[2]: f"{text}\n"})
        return
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert words[0] != "kae" or in_process.kae(folder, *words[1:]).code == 0, command


def test_the_first_recipe_gives_the_plan_that_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [block.text for block in pages.commands(PAGE) if block.text.lstrip().startswith(("kae", "mkdir", "cat"))]
    begin = "".join(text for text in texts if not text.startswith(" ")).partition("cd npx-fleet\n")
    fleet = tmp_path / "npx-fleet"
    assert in_process.kae(tmp_path, *begin[0].split()[1:]).code == 0
    (fleet / "policies/policy.yaml").unlink()

    rest = begin[2]
    while found := _HERE.search(rest):
        run(fleet, found[1].splitlines()[-1], found[2], monkeypatch)
        rest = rest[found.end() :]
    compiled = in_process.kae(fleet, "compile")
    first, images, _ = pages.blocks(PAGE, "text")

    assert compiled.code == 0, compiled.err
    plan = in_process.kae(fleet, "plan").out
    assert plan.startswith(first)
    assert images in plan
