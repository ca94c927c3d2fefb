"""Count the words of the hand-written pages, and the average length of their sentences: python ci/words.py.

Words are counted as `wc -w` counts them. Sentences are those of prose: no code, tables, headings and quotations.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
GENERATED = (
    *("catalogue", "commands", "findings", "messages", "metrics", "policy-reference", "recipe-reference"),
    *("security-claims", "support", "tour"),
)
"""The pages that `make docs` writes from the code."""

_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LINES = re.compile(r"^(?: {4,}\S.*|#.*|\|.*|>.*|!\[.*|<!--.*)$", re.MULTILINE)
_TARGET = re.compile(r"(?<=\])\([^)]*\)")
_CODE = re.compile(r"`[^`]*`")
_END = re.compile(r"[.!?](?=[*)\"”]*(?:\s|$))|\n\s*\n|^ *(?:[-*]|\d+\.) ", re.MULTILINE)


def pages() -> Iterator[Path]:
    """Yield README.md and the hand-written pages of docs/, but for the decisions."""
    yield ROOT / "README.md"
    yield from (page for page in sorted((ROOT / "docs").glob("*.md")) if page.stem not in GENERATED)


def words(text: str) -> int:
    """Return the number of words."""
    return len(text.split())


def sentence_length(text: str) -> float:
    """Return the average number of words of a sentence of prose; code within a sentence is one word."""
    prose = _CODE.sub("code", _TARGET.sub("", _LINES.sub("", _FENCE.sub("", text))))
    counts = [count for sentence in _END.split(prose) if (count := words(sentence)) > 1]
    return sum(counts) / len(counts) if counts else 0.0


def main() -> None:
    """Print a line for each page, and the sum."""
    total = 0
    for page in pages():
        text = page.read_text("utf-8")
        total += words(text)
        sys.stdout.write(f"{words(text):7} {sentence_length(text):5.1f}  {page.relative_to(ROOT)}\n")
    sys.stdout.write(f"{total:7}        in all\n")


if __name__ == "__main__":
    main()
