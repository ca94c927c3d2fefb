"""The hooks of mkdocs.yml: they make Markdown as GitHub reads it into what MkDocs reads.

README.md is the home page, and CHANGELOG.md a page of the site; both stay where they are.
"""

import os
import posixpath
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
ELSEWHERE = {"index.md": "README.md", "changelog.md": "CHANGELOG.md"}
"""Pages that are no files of docs/, with the files that they are."""

_LATER = ("changelog.md", "findings.md", "decisions/", "policy-reference.md", "recipe-reference.md", "catalogue.md")
"""Pages that have a word for everything: a search finds others first."""

_TAGS = {"operations.md": ["opt out", "remove the driver"], "quick-start.md": ["without a cluster"]}
"""What people search for in other words than a page has."""

_CODE = re.compile(r"(?P<ticks>`+)(?:(?!(?P=ticks)).)+(?P=ticks)", re.DOTALL)
_LINK = re.compile(
    r"(?P<fence>```|~~~).*?^ *(?P=fence)$"
    rf"|{_CODE.pattern}"
    r"|(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^()\s]+)\)",
    re.DOTALL | re.MULTILINE,
)
"""A link, or before it what has none: a fence, and code."""

_FENCE = re.compile(r"(`{3,}|~{3,})")
_MARKER = re.compile(r"([-*+]|\d{1,9}[.)])( +)(?=\S)")


_QUOTE = re.compile(r"(?:^>.*\n)+", re.MULTILINE)
_DETAILS = re.compile(r"^<details><summary>([^\n]*)</summary>\n(.*?)^</details>\n", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Put the records of decisions behind their list."""
    records = sorted(path.name for path in (ROOT / "docs/decisions").glob("0*.md"))
    config.nav[-1]["Why"] += [f"decisions/{name}" for name in records]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that lie outside of docs/."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - MkDocs is there only where the site is built

    for page, path in ELSEWHERE.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Return a page in MkDocs's Markdown."""
    if page.file.src_uri.startswith(_LATER):
        page.meta["search"] = {"boost": 0.1}
    page.meta["tags"] = _TAGS.get(page.file.src_uri, [])
    return translated(markdown, page.file.src_uri, os.environ.get("REPOSITORY", ""))


def translated(text: str, page: str, repository: str) -> str:
    """Return a page of GitHub's Markdown with the links of the site, and with the indentation that MkDocs reads."""
    return _QUOTE.sub(_quoted, "\n".join(_indented(_linked(text, page, repository).splitlines())) + "\n")


def _quoted(found: re.Match[str]) -> str:
    """Return a quotation, in which details are a block of pymdownx: Python-Markdown reads no Markdown within HTML."""
    inner = "\n".join(_indented(line.removeprefix(">").removeprefix(" ") for line in found[0].splitlines())) + "\n"
    inner = _DETAILS.sub(lambda each: f'??? quote "{each[1]}"\n{textwrap.indent(each[2], " " * 4)}', inner)
    return textwrap.indent(inner, "> ", lambda line: True)


def _linked(text: str, page: str, repository: str) -> str:
    def part(found: re.Match[str]) -> str:
        return _link(found, page, repository) if found["target"] else found[0]

    # A bar in code of a table has a backslash for GitHub, which shows it without.
    text = re.sub(r"^\|.*$", lambda row: _CODE.sub(lambda code: code[0].replace(r"\|", "|"), row[0]), text, flags=re.M)
    return _LINK.sub(part, text)


def _link(found: re.Match[str], page: str, repository: str) -> str:
    """Return a link to a page of the site, to a file of the repository, or the text alone where that has no address."""
    image, text, target = found["image"], found["text"], found["target"]
    path, mark, anchor = target.partition("#")
    if "://" in path or not path:
        return found[0]
    source = posixpath.join("docs", page) if page not in ELSEWHERE else ELSEWHERE[page]
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    pages = {file: name for name, file in ELSEWHERE.items()}
    inside = pages.get(path, path.removeprefix("docs/") if path.startswith("docs/") else "")
    if inside and (image or inside.endswith(".md")):
        return f"{image}[{text}]({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{mark}{anchor})"
    if path == "docs/decisions":
        return f"[{text}]({posixpath.relpath('decisions/README.md', posixpath.dirname(page) or '.')})"
    return f"[{text}]({repository}/blob/main/{path}{mark}{anchor})" if repository else text


class _Entry(NamedTuple):
    """An entry of a list that is open."""

    column: int
    """Of its text."""

    has_gap: bool


def _indented(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines with four columns for each level of a list, and an empty line where a list or an entry needs one.

    GitHub counts from the text of an entry, and takes a list right below a text. Python-Markdown does neither:
    https://python-markdown.github.io/#differences.
    """
    entries: list[_Entry] = []
    fence, before = "", ""
    for line in lines:
        text, ended = line.lstrip(" "), None
        indent = len(line) - len(text)
        opens = _FENCE.match(text)
        if not text:
            entries = [entry._replace(has_gap=True) for entry in entries]
        elif fence:
            fence = "" if opens and text.rstrip() == fence else fence
        else:
            while entries and indent < entries[-1].column:
                ended = entries.pop()
            fence = opens[1] if opens else ""
        base, depth = entries[-1].column if entries else 0, len(entries)
        marker = None if fence or indent - base > 3 else _MARKER.match(line, indent)
        # A wrapped text may begin with a number.
        is_entry = marker and (ended or entries or not before or marker[1] in ("-", "*", "+", "1."))
        if marker and is_entry:
            if before and (ended.has_gap if ended else not entries):
                yield ""
            entries.append(_Entry(marker.end(), has_gap=False))
        before = text
        shown = f"{marker[1]} {line[marker.end() :]}" if marker and is_entry else line[min(indent, base) :]
        yield " " * 4 * depth + shown if text else ""
