"""docs/reviewing.md and the README show the comments of real commits."""

import re
import shutil
from pathlib import Path

from tests import project
from tests.documentation import pages, shell

PAGE = pages.ROOT / "docs/reviewing.md"
README = pages.ROOT / "README.md"

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


def test_the_comment_on_the_page_is_that_of_the_canary(tmp_path: Path) -> None:
    commands = pages.command_lines(pages.text_of(PAGE)).partition("cd fleet\n")[2]
    folder = shutil.copytree(shell.ROLLOUT, tmp_path / "fleet")

    said = shell.run(folder, commands)

    assert_quotes(PAGE, said[said.index("### ") :])


def test_the_comment_in_the_readme_is_the_beginning_of_that_of_its_canary(tmp_path: Path) -> None:
    folder = shell.copy_of_the_fleet(tmp_path / "fleet")
    begin = "git init --quiet --initial-branch=main; git add policies inventory output; git commit --quiet -m Begin"
    shell.run(folder, begin)
    shell.run(folder, pages.command_lines(pages.section(pages.text_of(README), "A canary")))

    comment = shell.run(folder, "kae diff HEAD~1 --to HEAD -o markdown")

    assert_quotes(README, comment.partition("\n<details>")[0])
