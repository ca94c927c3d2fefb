"""The line and column of a position in a text, and the line itself."""

import re

from compiler import diagnostics, wording

SHOWN = 200
"""Characters of a line that are shown; longer lines are data, not text for people."""

_STEP = 1 << 16  # Positions between two checkpoints: small to search, and few even in the largest inventory.
_BREAK = re.compile(r"[\r\n]")


class Lines:
    """The text of a file; LF, CR LF and CR end a line, and columns count characters."""

    __slots__ = ("_known", "file", "text")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._known = [(0, 0)]  # At each checkpoint: lines that ended before it, and the start of its line.

    def span(self, position: int) -> diagnostics.Span:
        """Return the span of a position in the text."""
        while len(self._known) <= position // _STEP:
            at = len(self._known) * _STEP
            self._known.append(self._counted(at))
        ended, start = self._counted(position)
        column = position - start + 1
        return diagnostics.Span(
            file=self.file, line=ended + 1, column=column, text=self._shown(start) if column <= SHOWN else ""
        )

    def _counted(self, position: int) -> tuple[int, int]:
        """Return the number of lines that ended before a position, and the start of its own line."""
        step = max(position - 1, 0) // _STEP
        ended, start = self._known[step]
        since = step * _STEP
        text = self.text
        # CR LF is one end of a line, and was counted twice.
        pairs = text.count("\r\n", max(since - 1, 0), position)
        ended += text.count("\n", since, position) + text.count("\r", since, position) - pairs
        last = max(text.rfind("\n", since, position), text.rfind("\r", since, position))
        return ended, last + 1 if last >= 0 else start

    def _shown(self, start: int) -> str:
        most = start + 5 * SHOWN  # What is not shown may be the @ that ends a password.
        end = _BREAK.search(self.text, start, most)
        line = wording.without_credentials(self.text[start : end.start() if end else most])
        return wording.masked(line[:SHOWN])
