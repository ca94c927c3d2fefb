"""The lines of a text: where a position stands, and what its line shows."""

import re

from compiler import diagnostics, wording

SHOWN = 200
"""Characters of a line that are shown; a longer line is data rather than something to read."""


_STEP = 1 << 16  # Positions between two checkpoints: small to search, and few even in the largest inventory.
_BREAK = re.compile(r"[\r\n]")


class Lines:
    """A file's text; a line ends with LF, CR LF or CR, and columns count characters."""

    __slots__ = ("_known", "file", "text")

    def __init__(self, file: str, text: str) -> None:
        self.file = file
        self.text = text
        self._known = [(0, 0)]  # For each step: how many lines ended before it, and where its line starts.

    def span(self, position: int) -> diagnostics.Span:
        """The place of a position of the text."""
        while len(self._known) <= position // _STEP:
            at = len(self._known) * _STEP
            self._known.append(self._counted(at))
        ended, start = self._counted(position)
        column = position - start + 1
        return diagnostics.Span(
            file=self.file, line=ended + 1, column=column, text=self._shown(start) if column <= SHOWN else ""
        )

    def _counted(self, position: int) -> tuple[int, int]:
        """How many lines ended before a position, and where its own line starts."""
        step = max(position - 1, 0) // _STEP
        ended, start = self._known[step]
        since = step * _STEP
        text = self.text
        # The LF of a CR LF pair ends the line that its CR did not.
        pairs = text.count("\r\n", max(since - 1, 0), position)
        ended += text.count("\n", since, position) + text.count("\r", since, position) - pairs
        last = max(text.rfind("\n", since, position), text.rfind("\r", since, position))
        return ended, last + 1 if last >= 0 else start

    def _shown(self, start: int) -> str:
        found = _BREAK.search(self.text, start, start + SHOWN)
        return wording.masked(self.text[start : found.start() if found else start + SHOWN])
