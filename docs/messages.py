"""Write docs/messages.md from docs/messages.toml: what each sentence of a program of the nodes means."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from docs import markdown

PAGE = Path(__file__).resolve().parent / "messages.md"
DATA = PAGE.with_suffix(".toml")

_HEAD = """\
# Messages

What the programs of the nodes and the watcher say, in events, logs and `status`. `make docs` generates this page from
docs/messages.toml; tests compare it with the programs. `…` stands for names and numbers. A message may contain two of
these sentences. "As it says" means that the sentence itself names the way out.
"""

Chapter = Mapping[str, Any]


def text() -> str:
    """Return the text of the page."""
    return _HEAD + "".join(map(_chapter, chapters()))


def chapters(program: str = "") -> Iterator[Chapter]:
    """Yield the chapters whose title begins with the name of a program."""
    found = tomllib.loads(DATA.read_text("utf-8"))["chapter"]
    yield from (chapter for chapter in found if chapter["title"].startswith(program))


def sentences(program: str = "") -> list[str]:
    """Return the sentences that are explained, with a gap for each name and number."""
    return [says for chapter in chapters(program) for message in chapter["message"] for says in message.get("says", ())]


def _chapter(chapter: Chapter) -> str:
    fields = [name for name in ("why", "help") if any(name in message for message in chapter["message"])]
    head = ("it says", *({"why": "why", "help": "what to do"}[name] for name in fields))
    rows = ((_said(message), *(message.get(name, "") for name in fields)) for message in chapter["message"])
    above = f"{chapter['text']}\n\n" if "text" in chapter else ""
    return f"\n## {chapter['title']}\n\n{above}{markdown.table(head, rows)}"


def _said(message: Mapping[str, Any]) -> str:
    said = [f"`{sentence}`" for sentence in message.get("says", ())]
    return " ".join([*said, message["sign"]] if "sign" in message else said)
