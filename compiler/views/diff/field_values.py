"""The values of a field that differs, on one line: without credentials, and cut where they are long."""

import itertools
import json
from typing import Any

from compiler import wording

_LONGEST = 80
"""Characters of a value that are shown."""

_BEFORE = 20
"""Characters that are shown before the first one that differs, of values that begin alike and are cut."""


def texts(old: Any, new: Any) -> tuple[str, str]:
    """Return both values; of long ones that begin alike, from shortly before the first difference."""
    ours, theirs = _text(old), _text(new)
    if ours == theirs:
        # A string and a number may have one text.
        ours, theirs = (json.dumps(wording.value_without_credentials(value)) for value in (old, new))
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))
    start = max(0, same - _BEFORE) if same > _LONGEST - _BEFORE else 0
    return _cut(ours, start), _cut(theirs, start)


def _text(value: Any) -> str:
    if value is None:
        return "(none)"
    # Cut first, a password could lose the mark by which it is known.
    known = wording.value_without_credentials(value)
    return known if isinstance(known, str) else json.dumps(known, ensure_ascii=False)


def _cut(text: str, start: int) -> str:
    end = start + _LONGEST
    # A text that differs behind what both begin with may end there.
    return wording.escaped(f"{'…' if start else ''}{text[start:end]}{'…' if text[end:] else ''}")
