"""Reading standard input, which a pipe fills or leaves empty."""

import sys
from typing import TextIO

from compiler import errors


def content(hint: str) -> tuple[str, bytes]:
    """Return a file name and the bytes of standard input; they are JSON if the first byte that is no space is '{'.

    Raises RefusedError with the hint where standard input is closed or empty.
    """
    source: TextIO | None = sys.stdin  # None where the caller closed it
    if source is None:
        raise errors.RefusedError("standard input is closed.", hint=hint)
    found = source.buffer.read()
    if not found.strip():
        raise errors.RefusedError("standard input is empty: the command before the pipe printed nothing.", hint=hint)
    return ("stdin.json" if found.lstrip()[:1] == b"{" else "stdin.yaml"), found
