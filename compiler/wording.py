"""Phrases that messages share: names in quotes, lists, paths, and what a terminal can show."""

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

WORDS = 60
"""Characters of a document's own words that a message repeats."""

_LONGEST = 80
"""Characters of a value that a message repeats."""

# What would steer a terminal or cannot be encoded (escapes, marks of direction, half characters).
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")


def printable(text: str) -> str:
    """A text that a terminal can show: one mark for each character that it cannot."""
    return _UNSHOWN.sub("\ufffd", text)


def quoted(text: str) -> str:
    """A document's own words as a message shows them: in single quotes, on one line, and not too long."""
    text = printable(text[: WORDS + 1].replace("\n", " ").replace("\t", " "))
    return f"'{text if len(text) <= WORDS else text[: WORDS - 1] + '…'}'"


def cut(found: Any) -> str:
    """A word of a document on one line, cut where it is long."""
    text = str(found)
    printable = (mark if mark.isprintable() else repr(mark)[1:-1] for mark in text[:_LONGEST])
    return "".join(printable) + ("…" if len(text) > _LONGEST else "")


def dotted(path: Sequence[str | int]) -> str:
    """A path as people write it: spec.driver.env[0].name."""
    text = ""
    for step in path:
        if isinstance(step, str) and re.fullmatch(r"[A-Za-z]\w*", step):
            text += f".{step}" if text else step
        else:
            text += f"[{cut(step)}]"
    return text


def listed(names: Iterable[Any]) -> str:
    """A, B and C."""
    *most, last = (cut(name) for name in names)
    return f"{', '.join(most)} and {last}" if most else last


def nearest(word: Any, known: Iterable[str]) -> str | None:
    """What was probably meant; upper and lower case do not count."""
    lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(str(word)[:_LONGEST].lower(), lower, n=1, cutoff=0.7)
    return lower[near[0]] if near else None
