"""docs/reviewing.md shows the comment of a real commit."""

import re
import shutil
from pathlib import Path

from tests import project
from tests.documentation import pages, shell

PAGE = pages.ROOT / "docs/reviewing.md"

_QUOTE = re.compile(r"(?:^>.*\n)+", re.MULTILINE)


def quoted(text: str) -> str:
    """Return a text as markdown quotes it."""
    return "".join(f"> {line}".rstrip() + "\n" for line in text.splitlines())


def without_ids(text: str) -> str:
    """Return a text without the ids of commits."""
    return re.sub(r"\b[0-9a-f]{12}\b", "ID", text)


def assert_quotes(page: Path, comment: str) -> None:
    """Fail where the only quotation of a page is another one than a comment."""
    text = pages.text_of(page)
    if project.accepting():
        text = _QUOTE.sub(lambda _: quoted(comment), text, count=1)
        page.write_text(text, "utf-8")
    (shown,) = _QUOTE.findall(text)
    assert without_ids(shown) == without_ids(quoted(comment))


def test_the_comment_on_the_page_is_the_beginning_of_that_of_the_canary(tmp_path: Path) -> None:
    text = pages.text_of(pages.ROOT / "docs/rollouts.md")
    begin, canary = (
        pages.command_lines(pages.section(text, name)) for name in ("A rollout in five commits", "1. The canary")
    )
    folder = shutil.copytree(shell.ROLLOUT, tmp_path / "fleet")

    said = shell.run(folder, f"{begin.partition('cd fleet')[2]}{canary}kae diff HEAD~1 --to HEAD -o markdown\n")

    assert_quotes(PAGE, said[said.index("### ") :].partition("\n<details>")[0])
