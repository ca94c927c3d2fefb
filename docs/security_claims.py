"""Write docs/security-claims.md from docs/security-claims.toml: each claim on safety, and the tests that hold it."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs import markdown

PAGE = Path(__file__).resolve().parent / "security-claims.md"
DATA = PAGE.with_suffix(".toml")

_HEAD = """\
# Security, claim by claim

What [Security](security.md) promises in detail, and the tests that hold it. `make docs` generates this page from
docs/security-claims.toml.
"""


def text() -> str:
    """Return the text of the page."""
    return _HEAD + "".join(map(_chapter, chapters()))


def chapters() -> Iterator[Mapping[str, Any]]:
    """Yield the chapters."""
    yield from tomllib.loads(DATA.read_text("utf-8"))["chapter"]


def _chapter(chapter: Mapping[str, Any]) -> str:
    rows = ((*claim["cells"], ", ".join(f"`{test}`" for test in claim["tests"])) for claim in chapter["claim"])
    above = f"{chapter['text']}\n\n" if "text" in chapter else ""
    return f"\n## {chapter['title']}\n\n{above}{markdown.table((*chapter['head'], 'tests'), rows)}"
