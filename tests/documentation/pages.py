"""Pages of the documents: their text, sections, blocks and commands."""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("templates/init/**/*.md")])
OURS = [page for page in PAGES if "templates" not in page.parts]

FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(
    r"^(?:<!-- (?:not run: (?P<reason>.*)|run by (?P<test>.*)) -->\n\n?)?"
    r"(?: *```(?P<language>\w*)\n(?P<fenced>(?:.*\n)*?) *```$|(?<=\n\n)(?P<plain>(?: {4,}\S.*\n|\n(?= {4,}\S))+))",
    re.MULTILINE,
)


def name(page: Path) -> str:
    """A page as the tests are called after it."""
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """Return the text of a page."""
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    """The fenced blocks of a page in one language."""
    return [body for _, named, body in FENCE.findall(text_of(page)) if named == language]


def chapter(text: str, heading: str) -> str:
    """Return the text below a heading of the second level, with its sections."""
    return text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def section(text: str, heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^## |^### |\Z)", text, re.MULTILINE | re.DOTALL)
    assert match, heading
    return match[1]


def command_lines(text: str) -> str:
    """The first indented block of a section: what its reader types."""
    match = re.search(r"^(?: {4}.*\n)+", text, re.MULTILINE)
    assert match, text
    return textwrap.dedent(match[0])


def fenced(text: str, heading: str, language: str) -> str:
    """The first fenced block of a language below a heading."""
    match = re.search(rf"^```{language}\n(.*?)^```$", section(text, heading), re.MULTILINE | re.DOTALL)
    assert match, (heading, language)
    return match[1]


def with_block(text: str, heading: str, language: str, body: str) -> str:
    """The page with another text in that block."""
    before = section(text, heading)
    old = f"```{language}\n{fenced(text, heading, language)}```"
    return text.replace(before, before.replace(old, f"```{language}\n{body}```", 1), 1)


class Block(NamedTuple):
    """A block of commands."""

    text: str
    reason: str = ""
    """Why it is not run; empty where it is."""

    test: str = ""
    """The test that runs it in place of this module; mostly empty."""


def commands(page: Path) -> Iterator[Block]:
    """Yield the blocks of commands of a page: those fenced as sh, and every indented one."""
    for block in _BLOCK.finditer(text_of(page)):
        if block["plain"] or block["language"] == "sh":
            yield Block(block["plain"] or block["fenced"], block["reason"] or "", block["test"] or "")
