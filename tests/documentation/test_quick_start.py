"""docs/quick-start.md shows what its commands print."""

import shutil
import textwrap
from pathlib import Path

from tests import project
from tests.documentation import pages, shell
from tests.documentation.test_reviewing import without_ids

PAGE = pages.ROOT / "docs/quick-start.md"
PLAN, CANARY = "3. Compile, and read the plan", "4. Try a new driver on the canary"

_END = "=== a block ends"


def test_the_quick_start_ends_at_a_reviewed_canary_and_shows_what_its_commands_print(tmp_path: Path) -> None:
    work, text = tmp_path / "work", pages.text_of(PAGE)
    shutil.copytree(shell.ROLLOUT, work / "docs/examples/rollout")
    _, *blocks = (textwrap.dedent(block.text) for block in pages.commands(PAGE))

    said = shell.run(work, f"echo '{_END}'\n".join(blocks)).split(f"{_END}\n")

    plan, canary = (_answer(said, mark) for mark in ("cluster east: 24", "from HEAD ("))
    expected = pages.with_block(text, PLAN, "text", plan)
    expected = pages.with_block(expected, CANARY, "text", canary)
    assert without_ids(project.expected(PAGE, expected)) == without_ids(expected)
    assert any(text.startswith("### 1 of 24 nodes in cluster east is affected\n") for text in said)


def _answer(said: list[str], begin: str) -> str:
    """Return the answer that begins so, of the first block that has it, without what the block prints before."""
    text = next(text for text in said if begin in text)
    return text[text.index(begin) :].rstrip("\n") + "\n"
